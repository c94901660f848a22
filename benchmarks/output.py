"""Output of benchmarks: tables on the terminal, formats of fractions, and numbers for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table


def grid(title: str, heads: Sequence[str], lines: Iterable[Sequence[str]], *, width: int = 150) -> None:
    """Print a table; all columns but the first are aligned to the right.

    :param width: the width of the terminal, in characters.
    """
    table = Table(title=title, title_justify="left")
    for index, head in enumerate(heads):
        table.add_column(head, justify="right" if index else "left")
    for line in lines:
        table.add_row(*line)
    Console(width=width).print(table)


def per_1000(share: float) -> str:
    """Return a fraction as a number of a thousand."""
    return f"{1000 * share:.1f} in 1,000"


def share(share: float) -> str:
    """Return a fraction as a percentage."""
    return f"{share:.1%}"


def finite(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Replace numbers that are not valid in JSON."""
    if isinstance(value, dict):
        return {key: finite(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [finite(of) for of in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

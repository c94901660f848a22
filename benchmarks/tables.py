"""Tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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

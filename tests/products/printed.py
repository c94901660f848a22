"""A product that is measured by a command: each commit has a shell script that prints numbers, or fails.

The numbers scatter around a level and are the same ones at each start, so that no decision is a matter of
chance. No Python starts for them, which would take most of a test's time.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

SCRIPT = "measure.sh"
FAILING = "echo 'no route to host' >&2; exit 1\n"


def printing(lines: Iterable[object]) -> str:
    """Return a script that prints lines."""
    return "".join(f"echo '{line}'\n" for line in lines)


def scattered(level: float, *, seed: str, spread: float = 0.002, count: int = 3) -> str:
    """Return a script that prints numbers around a level.

    :param spread: their standard deviation, as a part of the level.
    """
    noise = random.Random(seed)  # noqa: S311 - noise, no secret
    return printing(noise.gauss(level, level * spread) for _ in range(count))

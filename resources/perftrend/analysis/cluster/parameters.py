"""How often each value of each parameter occurs among the traces of a cluster."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from perftrend.model import TraceKey

_LEAST_WEIGHT, _MOST_ADDED = 12, 14


@dataclass(frozen=True, slots=True)
class ValueCount:
    """One value of a parameter in a cluster."""

    value: str
    count: int
    """Number of traces of the cluster that have it."""
    weight: int
    """12 + ⌊14 · fraction of the traces⌋, from 12 to 26: the text size in which the value is shown."""


def parameter_summary(keys: Sequence[TraceKey]) -> dict[str, tuple[ValueCount, ...]]:
    """Count the values of each parameter; an empty value counts as a missing parameter.

    :param keys: the traces of a cluster.
    :returns: by parameter, both in alphabetical order, but with the most frequent value first.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for (parameter, value), count in Counter(pair for key in keys for pair in key.parameters).items():
        if value:
            counts[parameter][value] = count
    return {
        parameter: tuple(
            ValueCount(value, count, _LEAST_WEIGHT + _MOST_ADDED * count // len(keys))
            for value, count in sorted(values.items(), key=lambda item: (-item[1], item[0]))
        )
        for parameter, values in sorted(counts.items())
    }

"""What the traces of a cluster have in common: how often each value of each parameter occurs."""

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
    """Traces of the cluster that have it."""
    weight: int
    """12 + ⌊14 · share of the traces⌋, from 12 to 26: the size in which the value is written."""


def parameter_summary(keys: Sequence[TraceKey]) -> dict[str, tuple[ValueCount, ...]]:
    """Count the values of each parameter; a parameter that is empty counts as one that is not there.

    :param keys: the traces of a cluster.
    :returns: by parameter, both in the order of the alphabet but the most frequent value first.
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

"""Values of parameters that are over-represented in a cluster.

Of the m traces of a cluster, ``count`` have a value; of all n clustered traces, ``of_all`` have it. If the
traces of the cluster were drawn at random, ``count`` would be about m · q, with q = of_all / n and the
variance m q (1 - q) (n - m) / (n - 1) of the hypergeometric distribution. A value whose count exceeds that by
more than two standard deviations is over-represented. The most surprising values are first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt

from pydantic import BaseModel

from perftrend.analysis.cluster import ValueCount

MOST_VALUES = 12
_DEVIATIONS = 2.0

Counts = Mapping[str, Sequence[ValueCount]]


class OverrepresentedValue(BaseModel):
    """A value that is more frequent in a cluster than among all traces."""

    parameter: str
    value: str
    count: int
    """Number of traces of the cluster that have it."""
    of_all: int
    """Number of all clustered traces that have it."""


def find_overrepresented(
    cluster: Counts, size: int, everything: Counts, total: int
) -> list[OverrepresentedValue]:
    """Return the over-represented values of a cluster, at most 12.

    :param cluster: the count of each value in the ``size`` traces of the cluster.
    :param everything: the count of each value in all ``total`` traces.
    """
    of_all = {(name, each.value): each.count for name, values in everything.items() for each in values}
    found = sorted(_score_overrepresented(cluster, size, of_all, total), key=lambda each: -each[0])
    return [value for _, value in found[:MOST_VALUES]]


def _score_overrepresented(
    cluster: Counts, size: int, of_all: Mapping[tuple[str, str], int], total: int
) -> Iterator[tuple[float, OverrepresentedValue]]:
    for parameter, values in cluster.items():
        for each in values:
            common = of_all[parameter, each.value]
            share = common / total
            variance = size * share * (1 - share) * (total - size) / max(total - 1, 1)
            deviations = (each.count - size * share) / sqrt(variance) if variance else 0.0
            if deviations > _DEVIATIONS:
                found = OverrepresentedValue(
                    parameter=parameter, value=each.value, count=each.count, of_all=common
                )
                yield deviations, found

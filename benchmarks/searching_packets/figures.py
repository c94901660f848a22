"""Statistics of pairs of searches: medians, the ratio of paired times, and the repeatability of each."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.searching_packets.pairs import GOALS, METHODS, Searched


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread of rates, relative to their mean; None if there are too few."""

    rates: int
    median_pps: float | None
    stdev: float | None
    """The standard deviation of a sample, with n - 1."""
    span: float | None
    """From the lowest to the highest."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """The searches of one method."""

    trials_s: float
    """The median, as the next two."""
    wall_s: float
    trials: float
    repeated: int
    """The sum, as the next one."""
    untrusted: int
    lower: Mapping[str, Spread]
    """The spread of the valid lower bounds, by goal."""
    passed_again: Mapping[str, float | None]
    """The fraction of the lower bounds that passed again, by goal; None if it is not known for any."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Seconds of perftrend's search relative to those of MLRsearch in the same pair."""

    median: float
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class Summary:
    """All statistics."""

    methods: Mapping[str, Repeated]
    ratios: Mapping[str, Ratio]
    """By ``trials_s`` and ``wall_s``."""
    noise: Spread
    """The noise of the testbed alone: the rates received at the highest rate before each search."""


def summary(found: Sequence[Searched]) -> Summary:
    """Return the summary of whole pairs, at least one."""
    by_method = {method: [each for each in found if each.method == method] for method in METHODS}
    ours, peers = by_method.values()
    return Summary(
        methods={method: _summarise_method(own) for method, own in by_method.items()},
        ratios={name: _ratio(ours, peers, name) for name in ("trials_s", "wall_s")},
        noise=spread([each.flooded_pps for each in found if each.flooded_pps is not None]),
    )


def spread(rates: Sequence[float]) -> Spread:
    """Return the spread of rates."""
    median = statistics.median(rates) if rates else None
    if len(rates) <= 1:
        return Spread(len(rates), median, None, None)
    mean = statistics.fmean(rates)
    return Spread(len(rates), median, statistics.stdev(rates) / mean, (max(rates) - min(rates)) / mean)


def _summarise_method(own: Sequence[Searched]) -> Repeated:
    bounds = {goal: [each.intervals[number] for each in own] for number, goal in enumerate(GOALS)}
    again = {
        goal: [each.passed_again[number] for each in own if each.passed_again[number] is not None]
        for number, goal in enumerate(GOALS)
    }
    return Repeated(
        trials_s=statistics.median(each.trials_s for each in own),
        wall_s=statistics.median(each.wall_s for each in own),
        trials=statistics.median(each.trials for each in own),
        repeated=sum(each.repeated for each in own),
        untrusted=sum(each.untrusted for each in own),
        lower={goal: spread([each.lower for each in of if not each.invalid]) for goal, of in bounds.items()},
        passed_again={goal: of.count(True) / len(of) if of else None for goal, of in again.items()},
    )


def _ratio(ours: Sequence[Searched], peers: Sequence[Searched], seconds: str) -> Ratio:
    """Compare pair by pair; both are in the order of the pairs."""
    of_pairs = [getattr(our, seconds) / getattr(peer, seconds) for our, peer in zip(ours, peers, strict=True)]
    return Ratio(statistics.median(of_pairs), min(of_pairs), max(of_pairs))

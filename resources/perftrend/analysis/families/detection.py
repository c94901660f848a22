"""Detection of changes that families of traces share, compared with all other traces.

A family is a set of traces that have one or two values of parameters in common. Families are found from the
parameters of the traces, without any configuration.

The values of a family are summed run by run, weighted by the precision of each trace. At each run that a
change may begin with, the average from there on is compared with the average before: Student's t, with
the variance of averages of runs that resemble each other. The largest of these statistics is a
generalized likelihood ratio. It exceeds a limit b by chance at b φ(b) of the runs (φ is the normal
density), so b follows from the number of families and the rate of false alarms over all of them.

A change of a few traces also moves the families that contain some of them. The family is named that
explains most: the ratio, less the logarithm of how many such families there are, is largest. It is
replaced by a larger one if the other traces of that one have moved, too. Its change is then subtracted,
and the search repeated.

Source: D. Siegmund and E. S. Venkatraman, "Using the Generalized Likelihood Ratio Statistic for
Sequential Detection of a Change-Point", Annals of Statistics 23 (1995), for the rate of false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.families.nights import LIMIT, Nights, autocorrelations, memory_of, weighted_medians
from perftrend.analysis.noise import normal_score
from perftrend.model import Better, Run, Samples, Series, TraceKey

if TYPE_CHECKING:
    from perftrend.analysis.reference import ReferenceFinding

Places = NDArray[np.intp]

FEWEST_TRACES = 5
"""A smaller family is hardly more evidence than its traces one by one."""
FALSE_ALARMS = 1 / 1000
"""False alarms per run, over all families together."""
LEAST_RUNS = 20
"""Runs before a change that are needed to know the noise, and runs with a value that each trace needs."""
MOST_CHANGES = 20
"""The search ends after this many changes."""
_MOST_UNEQUAL = 3.0
"""The weight of a trace is at most this multiple of the median in its family."""
_ALSO_MOVED = 2.0
"""Standard deviations by which the other traces of a larger family must have moved."""
_LEAST_SHARED = 0.5
"""Change of the typical trace of a family, relative to the average. If it is less, few traces have moved."""
_FARTHEST_TRACES, _REST_MOVED = 0.25, 1.5
"""Part of the traces, those that moved farthest, without which the others must still have moved by this many
standard deviations."""
_OWN_MEMORY = 1.5
"""Standard deviations by which the memory of a family must exceed that of all traces to be its own."""
_FEWEST_DEGREES = 3.0
_SIGMAS_95 = 1.96
RECENT_RUNS = 40
"""Changes that began earlier are not reported any more."""
_SAME_FOR_ALL = frozenset({"testbed", "experiment"})


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Traces with the same values of some parameters."""

    parameters: tuple[tuple[str, str], ...]
    """The names and values that the traces have in common; empty: all traces."""
    members: Places
    """The places of the traces, ascending."""

    def __str__(self) -> str:
        return "&".join(f"{name}={value}" for name, value in self.parameters) or "all traces"


def find_families(parameters: Sequence[Mapping[str, str]]) -> list[Family]:
    """Return the families of traces, those of one parameter first.

    A family has at least :data:`FEWEST_TRACES` traces and at most half of all: a change of more traces than
    that cannot be distinguished from the opposite change of the others. Of several descriptions of the same
    traces, the first and shortest one is used.

    :param parameters: names and values of the parameters of each trace.
    """
    found: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for place, each in enumerate(parameters):
        pairs = sorted(each.items())
        for pair in pairs:
            found.setdefault((pair,), []).append(place)
    # Pairs of values of which one is rare are rare, too, so most pairs need not be counted.
    frequent = {pair for (pair,), members in found.items() if len(members) >= FEWEST_TRACES}
    for place, each in enumerate(parameters):
        pairs = sorted(pair for pair in each.items() if pair in frequent)
        for two in combinations(pairs, 2):
            found.setdefault(two, []).append(place)
    families: dict[bytes, Family] = {}
    for names, members in found.items():
        if FEWEST_TRACES <= len(members) <= len(parameters) // 2:
            family = Family(names, np.array(members, dtype=np.intp))
            families.setdefault(family.members.tobytes(), family)
    return list(families.values())


@dataclass(frozen=True, slots=True)
class FamilyChange:
    """A change that the traces of a family share."""

    family: Family
    """Its members are places among the traces that were searched."""
    run: int
    """The first run that is different, by its place."""
    change: float
    """Relative to before and to the other traces; positive is better. -0.005: half a per cent worse."""
    low: float
    """Lower end of its 95 % interval."""
    high: float
    sigmas: float
    """How clear it is, in standard deviations; the limit depends on the number of families."""


def find_family_changes(
    values: Samples,
    parameters: Sequence[Mapping[str, str]],
    *,
    lower_is_better: NDArray[np.bool_] | None = None,
) -> list[FamilyChange]:
    """Return the changes that families of traces share, the clearest first.

    A family without parameters is a change of everything: of the machine, or of all tests.

    :param values: of each run and trace, shape (runs, traces), the newest run last; NaN for gaps. A value
        that is not above 0 is a gap.
    :param parameters: names and values of the parameters of each trace.
    :param lower_is_better: of each trace, such as of latencies; None: of none.
    """
    usable = np.where(np.isfinite(values) & (values > 0), values, np.nan)
    places = np.flatnonzero((~np.isnan(usable)).sum(axis=0) >= LEAST_RUNS)
    if len(values) <= LEAST_RUNS or not len(places):
        return []
    logarithms = np.log(usable[:, places])
    if lower_is_better is not None:
        logarithms[:, lower_is_better[places]] *= -1.0
    families = find_families([parameters[place] for place in places.tolist()])
    limit = _limit(len(families) + 1)
    found: list[FamilyChange] = []
    nights = Nights.of(logarithms)
    while len(found) < MOST_CHANGES and (change := _Search(nights, families, limit).clearest()):
        members = change.family.members
        found.append(replace(change, family=Family(change.family.parameters, places[members])))
        nights = nights.without(math.log1p(change.change), change.run, members)
    return sorted(found, key=lambda each: -abs(each.sigmas))


def _limit(families: int) -> float:
    """Return the statistic that one of the families exceeds by chance at the rate of false alarms."""
    limit = 3.0
    for _ in range(50):
        limit = math.sqrt(
            2.0 * math.log(max(families * limit / math.sqrt(2.0 * math.pi) / FALSE_ALARMS, math.e))
        )
    return limit


@dataclass(slots=True)
class _Peak:
    """The clearest change of each family, arrays of shape (families,)."""

    sigmas: Samples
    runs: NDArray[np.intp]
    """The first run that is different."""


class _Search:
    """The search in standardised values; column 0 of the sums is what all traces have in common."""

    def __init__(self, nights: Nights, families: Sequence[Family], limit: float) -> None:
        self._nights = nights
        everything = Family((), np.arange(nights.rest.shape[1], dtype=np.intp))
        self._families = [everything, *families]
        self._limit = limit
        self._limited = nights.limited()
        self._present = ~np.isnan(nights.rest)
        self._weights = [_weights(nights.scale[family.members]) for family in self._families]
        self._sums = np.stack([self._sum(place) for place in range(len(self._families))], axis=1)
        runs = len(self._sums)
        correlations, squares = autocorrelations(self._limited)
        self._shared = correlations @ squares / max(squares.sum(), np.finfo(np.float64).tiny)
        usual = memory_of(self._shared, runs).inflation(runs)
        self._inflation = np.tile(usual[:, np.newaxis], len(self._families))
        """By how much the memory of the noise increases the variance, shape (runs + 1, families)."""
        kinds = [len(family.parameters) for family in self._families]
        self._prior = np.log(np.bincount(kinds)[kinds])

    def clearest(self) -> FamilyChange | None:
        """Return the change that explains most; None if none is beyond the limit."""
        peaks = self._peaks_with_memory()
        place = self._name(peaks)
        if place is None:
            return None
        run, sigmas = int(peaks.runs[place]), float(peaks.sigmas[place])
        low, high = self._interval(place, sigmas)
        change = math.expm1(self._measure(place, run))
        return FamilyChange(self._families[place], run, change, math.expm1(low), math.expm1(high), sigmas)

    def _interval(self, place: int, clearest: float) -> tuple[float, float]:
        """Return the 95 % interval of a change, whichever run it began with: of the profile likelihood."""
        ends = []
        for run, (sigmas,) in self._statistics(np.array([place])):
            within = _SIGMAS_95**2 - (clearest**2 - sigmas**2)
            if within >= 0:
                change = self._measure(place, run)
                error = math.sqrt(within) * abs(change / sigmas)
                ends += [change - error, change + error]
        return min(ends), max(ends)

    def _sum(self, place: int) -> Samples:
        """Return the weighted sum of a family at each run, with the variance of one independent trace.

        It is NaN in runs that have values of few of the traces.
        """
        members, weights = self._families[place].members, self._weights[place]
        present = self._present[:, members]
        counts = present.sum(axis=1)
        is_usual = counts >= max(FEWEST_TRACES, float(np.median(counts)) / 2.0)
        sums = self._nights.common if not place else self._limited[:, members] @ weights
        scale = 1.0 if not place else np.sqrt(np.where(is_usual, present @ weights**2, 1.0))
        return np.where(is_usual, sums / scale, np.nan)

    def _peaks_with_memory(self) -> _Peak:
        """Return the peaks of all families; those beyond the limit have the memory of their own noise.

        The noise of a family may last longer than that of its traces: a machine that treats one driver better
        for a week. Its memory is that of the values around the change, which would otherwise count as memory.
        """
        peaks = self._peaks(np.arange(len(self._families)))
        runs = len(self._sums)
        for place in np.flatnonzero(np.abs(peaks.sigmas) > self._limit).tolist():
            start = int(peaks.runs[place])
            parts = self._sums[:start, place], self._sums[start:, place]
            around = np.nan_to_num(np.concatenate([part - np.nanmean(part) for part in parts]))
            own = autocorrelations(around[:, np.newaxis])[0][:, 0]
            if place and own[0] <= self._shared[0] + _OWN_MEMORY / math.sqrt(runs):
                continue
            longer = memory_of(own, runs).inflation(runs)
            self._inflation[:, place] = np.maximum(self._inflation[:, place], longer)
            renewed = self._peaks(np.array([place]))
            peaks.sigmas[place], peaks.runs[place] = renewed.sigmas[0], renewed.runs[0]
        return peaks

    def _peaks(self, places: NDArray[np.intp]) -> _Peak:
        peak = _Peak(np.zeros(len(places)), np.zeros(len(places), dtype=np.intp))
        for start, sigmas in self._statistics(places):
            clearer = np.abs(sigmas) > np.abs(peak.sigmas)
            peak.sigmas = np.where(clearer, sigmas, peak.sigmas)
            peak.runs = np.where(clearer, start, peak.runs)
        return peak

    def _statistics(self, places: NDArray[np.intp]) -> Iterator[tuple[int, Samples]]:
        """Yield the runs that a change may begin with, and how clear it is in each family."""
        sums, inflation = self._sums[:, places], self._inflation[:, places]
        counted, columns = ~np.isnan(sums), np.arange(len(places))
        sums = np.nan_to_num(sums)
        none = np.zeros((1, len(places)))
        totals, squares, counts = (
            np.concatenate([none, part.cumsum(axis=0)]) for part in (sums, sums**2, counted)
        )
        for start in range(LEAST_RUNS, len(sums)):
            before, after = counts[start], counts[-1] - counts[start]
            is_known = (before >= LEAST_RUNS) & (after > 0)
            before, after = np.maximum(before, 1.0), np.maximum(after, 1.0)
            mean = totals[start] / before
            step = (totals[-1] - totals[start]) / after - mean
            variance = np.maximum(squares[start] / before - mean**2, np.finfo(np.float64).tiny)
            longer = inflation[before.astype(np.intp), columns]
            # The average is estimated from the same runs, so their variance around it is too small.
            variance /= np.maximum(1.0 - longer / before, 0.3)
            variance *= inflation[after.astype(np.intp), columns] / after + longer / before
            degrees = _degrees(before, longer)
            sigmas = np.sign(step) * normal_score(step**2 / (variance * degrees), degrees)
            yield start, np.where(is_known, sigmas, 0.0)

    def _name(self, peaks: _Peak) -> int | None:
        """Return the family that explains most of the changes beyond the limit; None if there is none."""
        scores = np.where(np.abs(peaks.sigmas) > self._limit, peaks.sigmas**2 / 2.0 - self._prior, -np.inf)
        for place in map(int, np.argsort(-scores)):
            if np.isneginf(scores[place]):
                return None
            if not place:
                return place
            if self._is_shared(place, int(peaks.runs[place])):
                return self._largest(place, peaks)
        return None

    def _is_shared(self, place: int, run: int) -> bool:
        """Return whether most traces of a family have moved, and not only some of them very far."""
        members = self._families[place].members
        values = np.where(self._present[:, members], self._limited[:, members], np.nan)
        steps = _means(values[run:]) - _means(values[:run])
        steps = steps[~np.isnan(steps)]
        if len(steps) < FEWEST_TRACES:
            return False
        steps = np.sort(steps * np.sign(steps.mean()))
        rest = steps[: -math.ceil(_FARTHEST_TRACES * len(steps))]
        deviation = math.sqrt(1 / run + 1 / (len(values) - run)) / math.sqrt(len(rest))
        is_typical = float(np.median(steps)) >= _LEAST_SHARED * float(steps.mean())
        return is_typical and float(rest.mean()) >= _REST_MOVED * deviation

    def _largest(self, place: int, peaks: _Peak) -> int:
        while (larger := self._larger(place, peaks)) is not None:
            place = larger
        return place

    def _larger(self, place: int, peaks: _Peak) -> int | None:
        """Return the family that contains another one, and whose other traces have moved most, too."""
        members, sign = self._families[place].members, np.sign(peaks.sigmas[place])
        run = int(peaks.runs[place])
        moved = [
            (sign * self._statistic(np.setdiff1d(family.members, members), run), other)
            for other, family in enumerate(self._families)
            if other
            and len(family.members) > len(members)
            and np.sign(peaks.sigmas[other]) == sign
            and np.isin(members, family.members, assume_unique=True).all()
            and self._is_shared(other, run)
        ]
        most, other = max(moved, default=(0.0, 0))
        return other if most > _ALSO_MOVED else None

    def _statistic(self, members: NDArray[np.intp], run: int) -> float:
        """Return how far some traces have moved at a run, in standard deviations of independent runs."""
        sums = self._limited[:, members] @ _weights(self._nights.scale[members])
        before, after = sums[:run], sums[run:]
        deviation = max(float(before.std()), np.finfo(np.float64).tiny)
        return float((after.mean() - before.mean()) / (deviation * math.sqrt(1 / len(after) + 1 / run)))

    def _measure(self, place: int, run: int) -> float:
        """Return the change of a family at a run, as a difference of logarithms.

        It is the median over the traces, corrected by the average of what is limited around it.
        """
        if not place:
            common = self._nights.common
            return float(np.mean(common[run:]) - np.mean(common[:run]))
        members = self._families[place].members
        scale, rest = self._nights.scale[members], self._nights.compared_with_others(members)
        steps = _means(rest[run:]) - _means(rest[:run])
        known = ~np.isnan(steps)
        if not known.any():
            return 0.0
        middle = float(weighted_medians(steps[np.newaxis], 1.0 / scale)[0])
        before = np.clip(rest[:run] / scale, -LIMIT, LIMIT)
        after = np.clip((rest[run:] - middle) / scale, -LIMIT, LIMIT)
        errors = (_means(after) - _means(before)) * scale
        return middle + float(np.average(errors[known], weights=1.0 / scale[known] ** 2))


def _weights(scale: Samples) -> Samples:
    """Return the weights of traces: their precision, within limits."""
    weights = 1.0 / scale
    middle = np.median(weights)
    limited: Samples = np.clip(weights, middle / _MOST_UNEQUAL, middle * _MOST_UNEQUAL)
    return limited


def _means(values: Samples) -> Samples:
    """Return the averages of columns without gaps; NaN if there are only gaps."""
    count = (~np.isnan(values)).sum(axis=0)
    means: Samples = np.where(count > 0, np.nansum(values, axis=0) / np.maximum(count, 1), np.nan)
    return means


def _degrees(runs: Samples, inflation: Samples) -> Samples:
    """Return the degrees of freedom of a variance from runs that resemble each other."""
    independent = runs / inflation * np.where(inflation > 1.0, 1.5, 1.0)
    return np.clip(independent - 1.0, _FEWEST_DEGREES, np.maximum(runs - 1.0, _FEWEST_DEGREES))


@dataclass(frozen=True, slots=True)
class SharedChange:
    """A change that traces with common values of parameters share."""

    parameters: tuple[tuple[str, str], ...]
    """The names and values that they have in common; empty: all traces."""
    traces: tuple[TraceKey, ...]
    last_good: Run
    """The last run before the change."""
    first_changed: Run
    change: float
    """Relative to before and to all other traces; positive is better."""
    low: float
    """Lower end of its 95 % interval."""
    high: float
    is_new: bool
    """Whether it is found by the newest run and was not found without it."""
    reference: ReferenceFinding | None = None
    """What the reference build says about a change of all traces; None: nothing is known."""


def find_shared_changes(series: Sequence[Series]) -> list[SharedChange]:
    """Return the recent changes that families of traces share, the clearest first.

    :param series: of one testbed.
    """
    runs, values = values_by_run(series)
    parameters = [
        {name: value for name, value in one.key.parameters if name not in _SAME_FOR_ALL} for one in series
    ]
    lower = np.array([one.better is Better.LOWER for one in series], dtype=np.bool_)
    found = find_family_changes(values, parameters, lower_is_better=lower)
    recent = [each for each in found if each.run >= len(runs) - RECENT_RUNS]
    if not recent:
        return []
    earlier = find_family_changes(values[:-1], parameters, lower_is_better=lower)
    known = {(each.family.parameters, each.change > 0) for each in earlier}
    return [
        SharedChange(
            each.family.parameters,
            tuple(series[place].key for place in each.family.members.tolist()),
            runs[each.run - 1],
            runs[each.run],
            each.change,
            each.low,
            each.high,
            (each.family.parameters, each.change > 0) not in known,
        )
        for each in recent
    ]


def values_by_run(series: Sequence[Series]) -> tuple[list[Run], Samples]:
    """Return all runs in the order of time, and the values of all series, shape (runs, series)."""
    by_identity = {_identity(run): run for one in series for run in one.runs}
    runs = [by_identity[each] for each in sorted(by_identity)]
    place_of = {_identity(run): place for place, run in enumerate(runs)}
    values = np.full((len(runs), len(series)), np.nan)
    for column, one in enumerate(series):
        values[[place_of[_identity(run)] for run in one.runs], column] = one.samples
    return runs, values


def _identity(run: Run) -> tuple[datetime, str, int]:
    return run.started, run.job, run.build

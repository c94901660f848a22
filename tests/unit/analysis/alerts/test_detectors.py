"""Detectors: each finds a step that everybody sees, and none in a quiet trace."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis import Criteria
from perftrend.analysis.alerts import (
    Detector,
    Finding,
    FindingKind,
    FindingRule,
    Threshold,
    TraceHistory,
    changes_of,
    findings_of,
    replay_nights,
    silent_traces,
)
from perftrend.analysis.alerts.history import range_of
from perftrend.analysis.change_details import find_reported_changes
from perftrend.errors import SettingsError
from perftrend.model import Better, Direction, MeasuredCommit, Samples, SuspectRange

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
METHODS = ("mdl", "three-sigma", "step")


def place(column: int) -> MeasuredCommit:
    return MeasuredCommit(BEGIN + timedelta(days=column), f"{column:07x}")


def stepped(size: float, *, runs: int = 60, at: int = 40, seed: int = 1) -> Samples:
    """Return a trace around 100 that changes at a run."""
    samples = 100.0 * (1 + 0.003 * np.random.default_rng(seed).standard_normal(runs))
    samples[at:] *= 1 + size
    return samples


def history(*rows: Samples) -> TraceHistory:
    values = np.array(rows)
    return TraceHistory(
        traces=tuple(f"t{number}" for number in range(len(rows))),
        better=(Better.HIGHER,) * len(rows),
        values=values,
        places=tuple(place(column) for column in range(values.shape[1])),
        jobs=(frozenset({"nightly"}),) * values.shape[1],
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("size", "better", "expected"),
    [
        (-0.1, Better.HIGHER, Direction.REGRESSION),
        (0.1, Better.HIGHER, Direction.PROGRESSION),
        (0.1, Better.LOWER, Direction.REGRESSION),
    ],
)
def test_obvious_step_is_found_where_it_is(
    method: str, size: float, better: Better, expected: Direction
) -> None:
    found = changes_of(stepped(size), better=better, detector=Detector(method), minimum_change=0.05)

    assert [(40, expected)] == [(each.position, each.direction) for each in found]
    assert found[0].last_before < 40 <= found[0].first_after


@pytest.mark.parametrize("freedom", [3, 4, 100])
def test_alerts_find_what_reports_and_explore_mark(freedom: int) -> None:
    """By default; single bad runs are marked as suspected there, and are no finding."""
    random = np.random.default_rng(freedom)
    marked = suspected = 0
    for step in (0.0, -0.02, -0.1):
        samples = 100.0 * (1 + 0.01 * random.standard_t(freedom, 120))
        samples[70:] *= 1 + step
        samples[30] *= 0.5
        drawn = find_reported_changes(samples, Criteria().rule(Better.HIGHER))
        found = changes_of(samples, better=Better.HIGHER, detector=Detector(), minimum_change=0.01)

        assert [each.position for each in drawn.changes] == sorted(each.position for each in found)
        marked, suspected = marked + len(drawn.changes), suspected + len(drawn.suspected)
    assert marked
    assert suspected


@pytest.mark.parametrize("method", METHODS)
def test_quiet_trace_has_no_change(method: str) -> None:
    samples = stepped(0.0)

    assert () == changes_of(samples, better=Better.HIGHER, detector=Detector(method), minimum_change=0.03)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("samples", [np.empty(0), np.full(5, np.nan), np.array([1.0])])
def test_trace_without_values_has_no_change(method: str, samples: Samples) -> None:
    assert () == changes_of(samples, better=Better.HIGHER, detector=Detector(method), minimum_change=0.0)


def test_interval_and_certainty_are_those_of_the_step() -> None:
    (found,) = changes_of(stepped(-0.1), better=Better.HIGHER, detector=Detector(), minimum_change=0.01)

    assert found.low < found.after - found.before < found.high < 0
    assert found.confidence > 0.999


@pytest.mark.parametrize(
    "options",
    [
        {"method": "oracle"}, {"step": "waltz"}, {"formula": "x"}, {"window": 3}, {"history": 1},
        {"radius": 1}, {"cutoff": float("nan")},
    ],
)  # fmt: skip
def test_detector_that_means_nothing_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        Detector(**options)  # type: ignore[arg-type]


def test_range_goes_from_the_last_good_commit_to_the_first_changed_one() -> None:
    samples = stepped(-0.1)
    samples[38:40] = np.nan

    (found,) = findings_of(history(samples), 0, detector=Detector(), minimum_change=0.01)

    assert (FindingKind.REGRESSION, place(37), place(40)) == (
        found.kind, found.range.last_good, found.range.first_changed,
    )  # fmt: skip
    assert found.near.last_good < found.range.last_good
    assert found.near.first_changed > found.range.first_changed


def test_columns_of_one_moment_are_not_told_apart() -> None:
    places = [place(0), place(1), place(1), place(2)]

    assert SuspectRange(place(0), place(1)) == range_of(places, 1, 2)
    assert SuspectRange(places[0], places[3]) == range_of([place(0), place(0), place(0), place(2)], 0, 1)


@pytest.mark.parametrize(
    ("threshold", "passes"),
    [
        (Threshold(0.1), True), (Threshold(0.11), False), (Threshold(0.1, 0.9), True),
        (Threshold(0.1, 0.99), False),
    ],
)  # fmt: skip
def test_threshold_of_size_and_certainty(threshold: Threshold, passes: bool) -> None:
    where = SuspectRange(place(0), place(1))

    assert passes is threshold.passes(
        Finding(FindingKind.REGRESSION, "a", where, where, 10.0, 9.0, confidence=0.95)
    )


def test_unknown_certainty_is_too_little_and_silence_needs_none() -> None:
    where = SuspectRange(place(0), place(1))

    assert not Threshold(0.1, 0.5).passes(Finding(FindingKind.REGRESSION, "a", where, where, 10.0, 1.0))
    assert Threshold(0.1, 0.5).passes(Finding(FindingKind.SILENCE, "a", where, where))


NIGHTLY, WEEKLY = frozenset({"nightly"}), frozenset({"weekly"})
BOTH = NIGHTLY | WEEKLY
HOLE = np.nan


@pytest.mark.parametrize(
    ("values", "jobs", "found"),
    [
        ([1, 1, HOLE, HOLE], [NIGHTLY] * 4, [(0, 1, 3)]),
        ([1, 1, 1, HOLE], [NIGHTLY] * 4, []),
        ([HOLE] * 4, [NIGHTLY] * 4, []),
        ([1, HOLE, HOLE, 1], [NIGHTLY] * 4, []),
        ([1, HOLE, HOLE, HOLE], [WEEKLY, NIGHTLY, NIGHTLY, NIGHTLY], []),
        ([1, HOLE, HOLE, HOLE], [WEEKLY, NIGHTLY, WEEKLY, WEEKLY], [(0, 0, 3)]),
        ([1, 1, HOLE, HOLE, HOLE], [WEEKLY, NIGHTLY | WEEKLY, NIGHTLY, NIGHTLY, WEEKLY], []),
        # The weekly run is of a commit that the nightly one measured, too.
        ([1, *[HOLE] * 3, 1, HOLE, HOLE], [BOTH, *[NIGHTLY] * 3, BOTH, NIGHTLY, NIGHTLY], []),
        ([1, *[HOLE] * 3, 1, HOLE, HOLE], [BOTH, *[NIGHTLY] * 3, BOTH, WEEKLY, BOTH], [(0, 4, 6)]),
        ([HOLE, HOLE, 1, HOLE, HOLE], [NIGHTLY, NIGHTLY, BOTH, NIGHTLY, NIGHTLY], []),
        ([1, 1, 1, HOLE, HOLE], [BOTH, NIGHTLY, NIGHTLY, NIGHTLY, NIGHTLY], [(0, 2, 4)]),
    ],
)
def test_silence_is_counted_in_runs_of_the_jobs_of_a_trace(
    values: list[float], jobs: list[frozenset[str]], found: list[tuple[int, int, int]]
) -> None:
    assert found == silent_traces(np.array([values]), jobs, runs=2)


def test_no_runs_are_no_silence() -> None:
    assert [] == silent_traces(np.empty((3, 0)), [], runs=1)


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.integers(1, 4))
def test_trace_is_silent_after_as_many_runs_without_a_value(there: list[bool], runs: int) -> None:
    values = np.where(there, 1.0, np.nan)[np.newaxis]
    since = next((number for number, value in enumerate(reversed(there)) if value), None)

    found = silent_traces(values, [NIGHTLY] * len(there), runs=runs)

    assert (since is not None and since >= runs) == bool(found)


RULE = FindingRule(
    Detector(),
    Threshold(0.03),
    frozenset({FindingKind.REGRESSION, FindingKind.PROGRESSION}),
    recent_runs=30,
    silent_runs=3,
)


def test_replay_tells_each_change_once_and_not_before_it_happened() -> None:
    nights = list(replay_nights(RULE, history(stepped(-0.1), stepped(-0.08, seed=2), stepped(0)), nights=30))

    told = [(night.night, len(findings)) for night in nights for _, findings in night.new]
    assert 30 == len(nights)
    assert 2 == sum(number for _, number in told) + sum(night.joined for night in nights)
    assert min(night for night, _ in told) >= place(40)


def test_replay_tells_silence_on_the_night_that_makes_it_one() -> None:
    samples = stepped(0.0)
    samples[50:53] = np.nan

    nights = list(replay_nights(RULE, history(samples, stepped(0.0)), nights=20))

    assert [place(52)] == [night.night for night in nights if night.new]
    assert [place(53)] == [night.night for night in nights if night.closed]


def test_replay_knows_nothing_of_later_nights() -> None:
    """What a night says does not depend on how many nights follow it."""
    whole = history(stepped(-0.1), stepped(0.05, at=50, seed=3))
    known = [(night.night, night.new) for night in replay_nights(RULE, whole, nights=60)][:55]

    assert known == [(night.night, night.new) for night in replay_nights(RULE, whole.until(55), nights=55)]


def test_mute_trace_is_not_told() -> None:
    mute = FindingRule(Detector(), Threshold(0.03), RULE.kinds, 30, thresholds={"t0": None})

    assert not any(night.new for night in replay_nights(mute, history(stepped(-0.1)), nights=30))


def test_commit_that_makes_thirty_noisy_tests_worse_is_one_item() -> None:
    noise = np.random.default_rng(7)
    rows = [100 * (1 + 0.007 * noise.standard_normal(80)) for _ in range(30)]
    for row in rows:
        row[60:] *= 0.95

    nights = list(replay_nights(RULE, history(*rows), nights=25))

    (found,) = [findings for night in nights for _, findings in night.new]
    assert 30 == len(found) + sum(night.joined for night in nights)
    assert 0 == sum(night.closed for night in nights)

from __future__ import annotations

import math

import numpy as np
import pytest

from perftrend.analysis import Partition, changes, partition
from perftrend.analysis.reportable_changes import (
    PERHAPS_OUTLIER,
    ReportingRule,
    as_change,
    counts,
    findings,
    has_been_reported,
    sight,
)
from perftrend.analysis.sequential import DetectorState, Vigilance
from perftrend.analysis.significance import Significance
from perftrend.model import Better, Change, Direction, Group

STEADY = [100.0, 100.4, 99.6, 100.2, 99.8, 100.1, 99.9, 100.0, 100.3, 99.7]

RULE = ReportingRule(Better.HIGHER, outliers=False)
BLIND = ReportingRule(Better.HIGHER, outliers=False, significance=Significance(minimum_change=1.0))
BY_PARTITION = ReportingRule(Better.HIGHER, outliers=False, vigilance=Vigilance(false_alarms_per_1000=1e-9))


def last_change(samples: list[float]) -> Change:
    return changes(partition(samples), Better.HIGHER)[-1]


def known(samples: list[float], *, rule: ReportingRule = RULE, new_runs: int = 1) -> bool:
    return has_been_reported(np.array(samples), last_change(samples), rule=rule, new_runs=new_runs)


def noise(count: int, *, seed: int = 3) -> list[float]:
    """Return runs around 100 with a deviation of 1."""
    return np.random.default_rng(seed).normal(100.0, 1.0, count).tolist()


@pytest.mark.parametrize(
    ("better", "directions"),
    [
        (Better.HIGHER, [Direction.REGRESSION, Direction.PROGRESSION]),
        (Better.LOWER, [Direction.PROGRESSION, Direction.REGRESSION]),
    ],
)
def test_direction_follows_what_is_better(better: Better, directions: list[Direction]) -> None:
    found = changes(partition([100.0] * 5 + [50.0] * 5 + [80.0] * 5), better)

    assert directions == [change.direction for change in found]
    assert [(5, 100.0, 50.0), (10, 50.0, 80.0)] == [
        (change.position, change.before, change.after) for change in found
    ]


def test_new_deviation_at_the_old_average_is_no_change() -> None:
    groups = (Group(0, 5, 10.0, 0.1, 0.0), Group(5, 10, 10.0, 4.0, 0.0))

    assert () == changes(Partition(groups, 0.0), Better.HIGHER)


def test_change_at_the_newest_run_is_news() -> None:
    assert not known([*STEADY, 80.0])


def test_change_is_known_a_run_later() -> None:
    assert known([*STEADY, 80.0, 80.2])


def test_change_that_no_earlier_analysis_could_see_is_news() -> None:
    """Steps of 2.5 % in noise of 1 %: it takes some runs until they are certain."""
    wide = [100.0, 101.2, 98.8, 100.6, 99.4, 101.0, 99.0, 100.3, 99.7, 100.9, 99.1, 100.0]
    samples = [*wide, 97.4, 97.0, 97.7, 97.2, 97.5, 97.1, 97.6, 97.3]
    first = next(stop for stop in range(13, len(samples) + 1) if len(partition(samples[:stop]).groups) > 1)

    assert first > 13
    assert 12 == last_change(samples[:first]).position
    assert not known(samples[:first], rule=BY_PARTITION)


def test_change_that_vanished_and_came_back_is_known() -> None:
    """A run of 97.5 stands out, the next one hides it, and four more bring it back."""
    samples = [*STEADY, 97.5, 99.5, 97.45, 97.6, 97.5, 97.4]

    assert [1, 0, 1] == [
        len(changes(partition(samples[:stop]), Better.HIGHER)) for stop in (11, 12, len(samples))
    ]
    assert 10 == last_change(samples).position
    assert known(samples, new_runs=4)


def test_second_drop_soon_after_the_first_is_news() -> None:
    samples = [*STEADY, 80.0, 60.0]

    assert 11 == last_change(samples).position
    assert not known(samples)


def test_recovery_is_not_mistaken_for_the_drop_before_it() -> None:
    samples = [*STEADY, 80.0, 100.0, 100.1]

    assert 11 == last_change(samples).position
    assert known(samples)
    assert not known(samples, new_runs=2)


def test_runs_analysed_together_are_all_new() -> None:
    assert not known([*STEADY, 80.0, 80.2, 79.9], new_runs=3)
    assert known([*STEADY, 80.0, 80.2, 79.9], new_runs=2)


@pytest.mark.parametrize(("trend", "same"), [(80.05, True), (60.0, False)])
def test_start_that_moves_by_a_run_is_the_same_change_if_the_trend_is_the_same(
    trend: float, same: bool
) -> None:
    """Yesterday's analysis began the new group, at 82, with the run at 84; today's does not."""
    samples = np.array([*STEADY, 84.0, 80.0, trend])
    yesterday = changes(partition(samples[:-1]), Better.HIGHER)
    today = Change(11, 98.5, trend, Direction.REGRESSION)

    assert [(10, 82.0)] == [(change.position, change.after) for change in yesterday]
    assert same == has_been_reported(samples, today, rule=RULE)


def test_empty_positions_do_not_make_a_change_news() -> None:
    samples = [*STEADY, math.nan, 80.0, math.nan, math.nan, 80.2]

    assert known(samples)


def test_small_drop_is_sighted_before_the_partition_has_it_and_told_once() -> None:
    """By 1.5 deviations: the partition needs dozens of runs for it."""
    samples = np.array(noise(40) + [value - 1.5 for value in noise(15, seed=4)])
    news = []
    for stop in range(41, samples.size + 1):
        found = findings(samples[:stop], RULE)
        sighting = sight(samples[:stop], found, RULE)
        seen = as_change(sighting)
        assert () == found.steps
        if seen and counts(sighting, RULE.significance):
            news.append(not has_been_reported(samples[:stop], seen, rule=RULE, sighted=True))

    assert len(news) > 1
    assert [True, *[False] * (len(news) - 1)] == news


def test_change_that_was_sighted_is_known_when_the_partition_finds_it() -> None:
    samples = noise(40) + [value - 2.5 for value in noise(40, seed=4)]
    sizes = range(41, len(samples) + 1)
    sighted = next(
        size
        for size in sizes
        if sight(np.array(samples[:size]), findings(np.array(samples[:size]), RULE), RULE).state
        is DetectorState.CHANGED
    )
    found = next(size for size in sizes if len(partition(samples[:size]).groups) > 1)

    assert sighted < found
    assert known(samples[:found])


def test_sighting_that_goes_on_is_news_again() -> None:
    """Known is a drop to 97; at 94 the trend has moved on by more than half of the step."""
    samples = np.array(noise(30) + [value - 3 for value in noise(4, seed=5)] + [94.0] * 3)
    lower = Change(34, 100.0, 94.0, Direction.REGRESSION)
    same = Change(33, 100.0, 97.2, Direction.REGRESSION)

    assert has_been_reported(samples[:35], same, rule=RULE, sighted=True)
    assert not has_been_reported(samples[:35], lower, rule=RULE, sighted=True)


def test_watching_begins_after_the_last_confirmed_change() -> None:
    dropped = np.array([*noise(20), *(value - 20 for value in noise(3, seed=4))])

    assert [0, 0, 20] == [findings(dropped[:stop], RULE).confirmed for stop in (21, 22, 23)]


def test_a_single_bad_run_does_not_begin_the_watch_anew() -> None:
    samples = np.array([*noise(20), 60.0, *noise(8, seed=4)])
    found = findings(samples, RULE)

    assert [20, 21] == [step.position for step in found.steps]
    assert 0 == found.confirmed


def test_too_small_a_sighting_does_not_count() -> None:
    samples = np.array(noise(40) + [value - 4 for value in noise(6, seed=4)])
    sighting = sight(samples, findings(samples, BLIND), BLIND)

    assert DetectorState.CHANGED is sighting.state
    assert counts(sighting, Significance(minimum_change=0.02))
    assert not counts(sighting, Significance(minimum_change=0.1))


def test_last_run_off_is_doubted_unless_it_is_the_first_and_far() -> None:
    rule = ReportingRule(Better.HIGHER, outliers=True)
    clean = findings(np.array([*noise(30), 60.0]), rule)
    small = findings(np.array([*noise(30), 94.5]), rule)
    bad = findings(np.array([*noise(10), 60.0, *noise(30), 60.0]), rule)
    back = findings(np.array([*noise(30), 60.0, *noise(3, seed=4)]), rule)

    assert ("",) == clean.doubts
    assert (PERHAPS_OUTLIER,) == small.doubts == bad.doubts
    assert ((), True) == (back.steps, math.isnan(back.values[30]))


def test_way_back_from_a_single_bad_run_is_no_progression() -> None:
    """The newest run is still below the level before the bad one."""
    found = findings(np.array([*noise(30), 60.0, 85.0]), ReportingRule(Better.HIGHER, outliers=True))

    assert [(30, ""), (31, PERHAPS_OUTLIER)] == [
        (step.position, doubt) for step, doubt in zip(found.steps, found.doubts, strict=True)
    ]

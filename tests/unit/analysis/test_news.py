from __future__ import annotations

import math

import numpy as np
import pytest

from perftrend.analysis import Partition, changes, partition
from perftrend.analysis.news import told
from perftrend.model import Better, Change, Direction, Group

STEADY = [100.0, 100.4, 99.6, 100.2, 99.8, 100.1, 99.9, 100.0, 100.3, 99.7]


def last_change(samples: list[float]) -> Change:
    return changes(partition(samples), Better.HIGHER)[-1]


def known(samples: list[float], **options: int) -> bool:
    return told(np.array(samples), last_change(samples), better=Better.HIGHER, **options)


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
    assert not known(samples[:first])


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
    assert same == told(samples, today, better=Better.HIGHER)


def test_empty_positions_do_not_make_a_change_news() -> None:
    samples = [*STEADY, math.nan, 80.0, math.nan, math.nan, 80.2]

    assert known(samples)

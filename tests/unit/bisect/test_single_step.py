"""The side of a change that a commit is on, by values and by failures, or undecided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from perftrend.bisect import Adaptive, BisectState
from perftrend.bisect.single_step import CommitSide, SideVerdict, judge, range_around
from perftrend.model import BuildMeasurement, MetricSamples
from tests.unit.bisect.world import World

OLD, COMMIT, NEW = "c0", "c1", "c2"


def judged(
    *levels: Mapping[str, float] | float,
    noise: float = 0.01,
    known: Sequence[BuildMeasurement] = (),
    most: int = 60,
    against: list[str] | None = None,
) -> tuple[SideVerdict, World]:
    """Judge the second of three builds, of which each has these levels; a test that is missing fails.

    :param against: gets the other commit of the pair that each measurement is made in.
    """
    by_test = [each if isinstance(each, Mapping) else {"t": each} for each in levels]
    world = World(dict(zip((OLD, COMMIT, NEW), by_test, strict=True)), noise=noise)
    state = BisectState(
        range_around(OLD, COMMIT, NEW), dict.fromkeys((OLD, COMMIT, NEW), 0.0), measured=tuple(known)
    )
    strategy = Adaptive(maximum_measurements=most)
    while not isinstance(step := judge(state, strategy), SideVerdict):
        state = state.with_measured(world.measure(step.commit), step.against)
        if against is not None:
            against.append(step.against)
    return step, world


@pytest.mark.parametrize("size", [0.9, 1.1, 0.5, 3.0])
def test_commit_is_on_the_side_whose_level_it_has(size: float) -> None:
    """Whichever direction the change has."""
    before, _ = judged(100, 100, 100 * size)
    after, _ = judged(100, 100 * size, 100 * size)

    assert (CommitSide.OLD, CommitSide.NEW) == (before.side, after.side)
    assert min(before.confidence, after.confidence) >= 0.99


def test_more_is_measured_where_the_change_is_small_beside_the_noise() -> None:
    clear, few = judged(100, 100, 80)
    close, many = judged(100, 100, 97)

    assert [CommitSide.OLD, CommitSide.OLD] == [clear.side, close.side]
    assert len(few.measured) < len(many.measured) <= 60


def test_ends_that_agree_judge_nothing() -> None:
    """And they say how small a difference would have shown."""
    found, world = judged(100, 100, 100, noise=0.005)

    assert CommitSide.NONE is found.side
    assert 0 < found.smallest_visible["t"] < 0.05
    assert COMMIT not in world.measured


def test_ends_that_have_not_been_told_apart_in_time_judge_nothing() -> None:
    found, world = judged(100, 100, 98.5, most=4)

    assert (CommitSide.NONE, "4 measurements were made, and no commit is sure enough") == (
        found.side,
        found.reason,
    )
    assert COMMIT not in world.measured


def test_commit_in_doubt_is_on_no_side_after_the_most_measurements() -> None:
    found, world = judged(100, 97.0, 94, noise=0.02, most=12)

    assert CommitSide.UNKNOWN is found.side
    assert 12 == len(world.measured)


@pytest.mark.parametrize(
    ("middle", "side"), [(95, "new"), (92, "new"), (98, "old"), (110, "old"), (80, "new")]
)
def test_commit_that_differs_from_both_ends_is_new_unless_the_larger_change_follows(
    middle: float, side: str
) -> None:
    assert side == judged(100, middle, 90, noise=0.001)[0].side


def test_commit_half_way_is_never_old_however_noise_falls() -> None:
    """Commits of one level that were judged differently would have git name one of them."""
    found = [judged(100, 90 + shift, 81, noise=0.005)[0] for shift in (-0.1, 0.0, 0.1)]

    assert [(CommitSide.NEW, "it differs from both ends")] * 3 == [(each.side, each.reason) for each in found]


def test_test_that_fails_at_the_new_end_has_changed() -> None:
    works, fails = {"t": 100.0}, dict[str, float]()

    assert CommitSide.OLD is judged(works, works, fails)[0].side
    assert CommitSide.NEW is judged(works, fails, fails)[0].side
    assert CommitSide.OLD is judged(fails, fails, works)[0].side
    assert CommitSide.NEW is judged(fails, works, works)[0].side


def test_commit_that_fails_alone_is_on_no_side_and_is_tried_twice() -> None:
    found, world = judged({"t": 100}, {}, {"t": 80})

    assert (CommitSide.UNKNOWN, "t fails, and with neither end") == (found.side, found.reason)
    assert 2 == world.measured.count(COMMIT)


def test_other_tests_judge_a_commit_with_which_one_fails() -> None:
    found, _ = judged({"t": 100, "u": 50}, {"t": 80}, {"t": 80, "u": 50})

    assert CommitSide.NEW is found.side


def test_ends_that_both_fail_judge_nothing() -> None:
    found, world = judged({}, {"t": 100}, {})

    assert (CommitSide.NONE, "no test has a value at either end of the range") == (found.side, found.reason)
    assert COMMIT not in world.measured


def test_what_is_known_already_is_not_measured_again() -> None:
    against: list[str] = []
    _, world = judged(100, 90, 90, against=against)
    again = World(world.levels, noise=world.noise)
    known = [
        replace(again.measure(commit), against=other)
        for commit, other in zip(world.measured, against, strict=True)
    ]

    _, nothing = judged(100, 90, 90, known=known)

    assert [] == nothing.measured


def test_known_values_from_before_a_drift_do_not_mislead() -> None:
    """Two days ago the machine was a tenth faster, when the ends alone were measured."""
    world = World({OLD: {"t": 110}, COMMIT: {"t": 110}, NEW: {"t": 99}}, noise=0.005)
    known = [earlier(world.measure(commit)) for commit in (OLD, NEW, NEW, OLD)]

    found, _ = judged(100, 100, 90, noise=0.005, known=known)

    assert CommitSide.OLD is found.side


def earlier(measured: BuildMeasurement) -> BuildMeasurement:
    days = measured.started - measured.started.replace(hour=0)
    return replace(measured, started=measured.started - 2 * days, finished=measured.finished - 2 * days)


def test_value_that_is_no_number_is_a_failure() -> None:
    known = [
        replace(
            World({OLD: {"t": 100}}).measure(OLD),
            commit=commit,
            values={"t": MetricSamples((float("nan"),))},
            failed={},
        )
        for commit in (OLD, NEW)
    ]

    assert CommitSide.NONE is judged({}, {}, {}, known=known)[0].side


def test_ends_without_a_test_in_common_judge_nothing_although_the_commit_was_measured() -> None:
    world = World({OLD: {"t": 100}, COMMIT: {"t": 100}, NEW: {"u": 100}})
    known = [replace(world.measure(commit), failed={}) for commit in (OLD, COMMIT, NEW)]

    assert CommitSide.NONE is judged({}, {}, {}, known=known)[0].side

"""The state of a bisection if a command fails as a whole, or tests appear and disappear, and the next builds.

The commits that will probably be built next are those that the strategy itself would choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest

from perftrend.bisect import (
    Adaptive,
    BisectSession,
    CsitHalving,
    MeasureStep,
    Strategy,
    Suspicion,
    load,
)
from perftrend.bisect.state import BisectState, CommitRange, RangeCommit, likely
from perftrend.model import BuildMeasurement, MetricSamples
from tests.unit.bisect.world import World, line, stepped

MOMENT = datetime(2026, 3, 2, tzinfo=UTC)
RANGE = CommitRange("0" * 40, (RangeCommit("1" * 40, ("0" * 40,)), RangeCommit("2" * 40, ("1" * 40,))))

STRATEGIES = (CsitHalving(), Adaptive())


def measured(commit: int, *tests: str, failed: Mapping[str, str] | None = None) -> BuildMeasurement:
    values = {test: MetricSamples((100.0, 101.0)) for test in tests}
    return BuildMeasurement(str(commit) * 40, MOMENT, MOMENT, values, failed or {})


def state(*all_of_them: BuildMeasurement) -> BisectState:
    known = BisectState(RANGE)
    for each in all_of_them:
        known = known.with_measured(each)
    return known


def failures(known: BisectState) -> list[Mapping[str, str]]:
    return [each.failed for each in known.measured]


def test_command_that_fails_as_a_whole_fails_each_test_whichever_was_measured_first() -> None:
    works, fails = measured(0, "one", "two"), measured(2, failed={"command": "exit 2"})
    each = {"one": "exit 2", "two": "exit 2"}

    assert [{}, each] == failures(state(works, fails))
    assert [each, {}] == failures(state(fails, works))
    assert {"one", "two"} == state(fails, works).compared


def test_failure_of_a_known_test_stays_its_own() -> None:
    known = state(measured(0, "one", "two"), measured(2, failed={"two": "no route"}))

    assert [{}, {"two": "no route"}] == failures(known)


def test_command_that_never_worked_keeps_its_name() -> None:
    known = state(measured(0, failed={"command": "exit 2"}), measured(2, failed={"command": "exit 2"}))

    assert 2 * [{"command": "exit 2"}] == failures(known)
    assert {"command"} == known.compared


def test_only_tests_that_were_tried_at_both_ends_are_compared() -> None:
    known = state(measured(0, "one", "gone"), measured(1, "one", "gone", "new"), measured(2, "one", "new"))

    assert {"one"} == known.compared
    assert frozenset() == state(measured(0, "one")).compared


def known(world: World, *measured: str, size: int = 16) -> BisectState:
    """Return what is known when old and new are built, and some commits measured."""
    state = BisectState(line(size)).with_built("c0", 600.0).with_built(f"c{size}", 600.0)
    for commit in measured:
        state = state.with_built(commit, 600.0).with_measured(world.measure(commit))
    return state


@pytest.mark.parametrize("measured", [(), ("c0",)])
def test_while_an_end_is_measured_the_middle_is_expected(measured: tuple[str, ...]) -> None:
    state = known(World(stepped(16, {5: 0.8})), *measured)
    step = CsitHalving().next(state)
    assert isinstance(step, MeasureStep)

    assert "c8" == next(likely(CsitHalving(), state, step))


def test_while_the_middle_is_measured_those_of_both_halves_are_expected() -> None:
    state = known(World(stepped(16, {5: 0.8}), noise=0.01), "c0", "c16").with_built("c8", 600.0)

    assert {"c4", "c12"} == set(islice(likely(CsitHalving(), state, MeasureStep("c8", "")), 2))


@pytest.mark.parametrize(("guilty", "expected"), [("c3", "c4"), ("c13", "c12")])
def test_half_that_is_believed_to_hold_the_change_comes_first(guilty: str, expected: str) -> None:
    state = known(World(stepped(16, {5: 0.8}), noise=0.01), "c0", "c16").with_built("c8", 600.0)
    belief = (Suspicion((), 0.1), Suspicion((guilty,), 0.9))

    assert expected == next(likely(CsitHalving(), state, MeasureStep("c8", "", belief)))


def test_run_of_what_is_built_already_is_looked_beyond() -> None:
    """The ends are measured several times before a commit between is asked for."""
    world = World(stepped(16, {5: 0.8}), noise=0.01)
    strategy = CsitHalving(repeats=3)
    state = known(world, "c0", "c0")

    assert "c8" == next(likely(strategy, state, MeasureStep("c0", "")))


def test_nothing_is_expected_where_nothing_is_left_to_build() -> None:
    state = known(World(stepped(1, {1: 0.8})), "c0", size=1)

    assert [] == list(likely(CsitHalving(), state, MeasureStep("c1", "")))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_test_that_fails_at_an_end_is_no_obstacle(strategy: Strategy) -> None:
    levels = stepped(16, {})
    for index in range(6, 17):
        levels[f"c{index}"] = {}
    state = known(World(levels, noise=0.01), *["c0", "c16"] * 4).with_built("c8", 600.0)

    assert set(likely(strategy, state, MeasureStep("c8", "")))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_asked_for_was_expected(strategy: Strategy, tmp_path: Path) -> None:
    """With a change that is plain to see, each commit between was among the two expected before."""
    world = World(stepped(32, {11: 0.8}), noise=0.002)
    expected: list[set[str]] = []
    session = BisectSession(
        tmp_path / "session",
        line(32),
        strategy,
        build=world.build,
        measure=world.measure,
        expect=lambda commits: expected.append(set(islice(commits, 2))),
    )

    session.run()

    before = {name: len(world.measured[: world.measured.index(name)]) for name in world.built}
    surprises = [name for name in world.built[2:] if name not in set().union(*expected[: before[name]])]
    assert len(world.built) > 4
    assert [] == surprises


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_who_expects_changes_nothing(strategy: Strategy, tmp_path: Path) -> None:
    heard: list[str] = []

    def expect(commits: Iterator[str]) -> None:
        heard.extend(islice(commits, 2))

    for name, listener in (("heard", expect), ("not", lambda _: None)):
        world = World(stepped(12, {5: 0.8}), noise=0.002, broken={"c6", "c7"})
        build, measure = world.build, world.measure
        BisectSession(
            tmp_path / name, line(12), strategy, build=build, measure=measure, expect=listener
        ).run()

    assert heard
    assert load(tmp_path / "heard") == load(tmp_path / "not")
    assert (tmp_path / "heard").read_bytes() == (tmp_path / "not").read_bytes()

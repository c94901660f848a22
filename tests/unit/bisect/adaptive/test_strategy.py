import math
import zlib
from dataclasses import replace
from datetime import timedelta
from functools import partial
from math import nan
from pathlib import Path

import numpy as np
import pytest

from perftrend import errors
from perftrend.bisect import (
    Adaptive,
    BisectOutcome,
    BisectSession,
    BisectState,
    CommitRange,
    CsitHalving,
    MeasureStep,
    OutcomeKind,
    Strategy,
    load,
)
from perftrend.bisect.simulator import (
    HistoryModel,
    SimulatedHistory,
    SimulatedNoise,
    SimulatedTestbed,
)
from perftrend.bisect.simulator import bisect as simulate
from perftrend.bisect.state import RangeCommit
from perftrend.model import Better, BuildMeasurement, Direction, MetricSamples
from tests.unit.bisect.world import START, World, line, names, stepped

approx = partial(pytest.approx, rel=0.01, nan_ok=True)


def bisected(world: World, asked: CommitRange, file: Path, **options: float) -> BisectOutcome:
    strategy = Adaptive(**options)  # type: ignore[arg-type]
    return BisectSession(file / "session", asked, strategy, build=world.build, measure=world.measure).run()


@pytest.mark.parametrize("culprit", [1, 20, 32])
def test_change_is_found_with_its_size_and_confidence(culprit: int, tmp_path: Path) -> None:
    outcome = bisected(World(stepped(32, {culprit: 0.95}), noise=0.01), line(32), tmp_path)

    (found,) = outcome.culprits
    effect = found.effects["t"]
    assert (OutcomeKind.FOUND, names([culprit])) == (outcome.kind, found.commits)
    assert found.confidence >= 0.99
    assert effect.low <= -0.05 <= effect.high
    assert effect.before == pytest.approx(100, rel=0.02)
    assert effect.after == pytest.approx(95, rel=0.02)
    assert effect.direction(Better.HIGHER) is Direction.REGRESSION
    assert effect.direction(Better.LOWER) is Direction.PROGRESSION


def test_size_is_that_of_the_pairs_if_only_the_parent_was_slow() -> None:
    """All values together also fit a change of -22 %: the parent was slow, the commit fast."""
    noise, strategy, state = np.random.default_rng(3), Adaptive(), BisectState(line(24))
    while isinstance(step := strategy.next(state), MeasureStep):
        number = len(state.measured)
        level = 10.0 * (1.25 if int(step.commit[1:]) >= 21 else 1.0) * (1.6 if 6 <= number <= 16 else 1.0)
        value = MetricSamples((level * (1 + 0.004 * noise.standard_normal()),), unit="ms")
        at = START + timedelta(seconds=number)
        state = state.with_measured(
            BuildMeasurement(step.commit, at, at, {"t": value}, {}, against=step.against)
        )

    (found,) = step.culprits
    effect = found.effects["t"]
    assert names([21]) == found.commits
    assert 0.2 < effect.low < 0.25 < effect.high < 0.3
    assert effect.relative == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize(("runs", "ends"), [(12, True), (20, False)])
def test_ends_are_measured_again_where_a_difference_was_luck(runs: int, ends: bool) -> None:
    """And as often as if nothing between had been measured; then it is given up."""
    world = World({"c0": {"t": 100.0}, "c4": {"t": 100.0}, "c8": {"t": 100.0}}, noise=0.01)
    state = BisectState(line(8), dict.fromkeys(("c0", "c4", "c8"), 600.0))
    for commit in ("c0", "c8") * runs + ("c4",):
        state = state.with_measured(world.measure(commit))

    step = Adaptive().next(state)

    if ends:
        assert isinstance(step, MeasureStep)
        assert ("c0", "that nothing changed") == (step.commit, step.reason[:20])
    else:
        assert isinstance(step, BisectOutcome)
        assert step.kind is OutcomeKind.NO_DIFFERENCE


def test_nothing_is_named_where_nothing_changed(tmp_path: Path) -> None:
    world = World(stepped(32, {}), noise=0.01)

    outcome = bisected(world, line(32), tmp_path)

    assert outcome.kind is OutcomeKind.NO_DIFFERENCE
    assert not outcome.culprits
    assert 0.005 < outcome.smallest_visible["t"] < 0.03
    assert set(world.built) == {"c0", "c32"}


def test_commits_that_do_not_build_are_told_with_the_one_after_them(tmp_path: Path) -> None:
    world = World(stepped(32, {11: 0.9}), noise=0.01, broken={"c10", "c11", "c20"})

    outcome = bisected(world, line(32), tmp_path)

    assert [names([10, 11, 12])] == [each.commits for each in outcome.culprits]


def test_each_of_several_changes_is_told_without_the_others(tmp_path: Path) -> None:
    """They stand close together: what was found first must not take a share of the second."""
    outcome = bisected(World(stepped(32, {7: 0.5, 9: 1.3}), noise=0.01), line(32), tmp_path)

    found = {each.commits: each.effects["t"] for each in outcome.culprits}
    assert {names([7]), names([9])} == set(found)
    assert found[names([7])].low < -0.5 < found[names([7])].high < -0.48
    assert 0.26 < found[names([9])].low < 0.3 < found[names([9])].high


@pytest.mark.parametrize("sizes", [(0.93, 0.85), (0.9, 1.06)])
def test_two_changes_are_both_found_the_larger_first(sizes: tuple[float, float], tmp_path: Path) -> None:
    steps = dict(zip([22, 7] if sizes[0] > sizes[1] else [7, 22], sizes, strict=True))
    larger = min(steps, key=lambda index: steps[index])

    outcome = bisected(World(stepped(32, steps), noise=0.007), line(32), tmp_path)

    assert [names([larger]), names([29 - larger])] == [each.commits for each in outcome.culprits]


def test_changes_that_cancel_each_other_are_found_by_a_look_inside(tmp_path: Path) -> None:
    world = World(stepped(32, {5: 0.9, 20: 1 / 0.9}), noise=0.01)

    outcome = bisected(world, line(32), tmp_path, inside=True)

    assert {names([5]), names([20])} == {each.commits for each in outcome.culprits}


def test_look_inside_ends_where_nothing_changed(tmp_path: Path) -> None:
    world = World(stepped(32, {}), noise=0.01)

    outcome = bisected(world, line(32), tmp_path, inside=True)

    assert outcome.kind is OutcomeKind.NO_DIFFERENCE
    assert ["c0", "c32", "c8", "c16", "c24"] == world.built


def test_no_more_changes_are_looked_for_than_asked(tmp_path: Path) -> None:
    world = World(stepped(32, {7: 0.9, 22: 0.8}), noise=0.005)

    assert len(bisected(world, line(32), tmp_path, maximum_changes=1).culprits) == 1


def test_failure_of_a_test_is_a_change(tmp_path: Path) -> None:
    levels = stepped(32, {})
    for index in range(19, 33):
        levels[f"c{index}"] = {}

    outcome = bisected(World(levels, noise=0.01), line(32), tmp_path)

    effect = outcome.culprits[0].effects["t"]
    assert names([19]) == outcome.culprits[0].commits
    assert effect.before == pytest.approx(100, rel=0.02)
    assert math.isnan(effect.after)


def test_test_that_works_again_has_the_levels_right_before_and_after_each_change(tmp_path: Path) -> None:
    levels = stepped(32, {25: 0.8})
    for index in range(11, 21):
        levels[f"c{index}"] = {}

    outcome = bisected(World(levels, noise=0.002), line(32), tmp_path, inside=True)

    found = {each.commits: each.effects["t"] for each in outcome.culprits}
    assert {
        names([11]): (approx(100), approx(nan)),
        names([21]): (approx(nan), approx(100)),
        names([25]): (approx(100), approx(80)),
    } == {commits: (effect.before, effect.after) for commits, effect in found.items()}


def test_tests_are_told_apart_by_how_probably_they_are_affected(tmp_path: Path) -> None:
    levels = {name: {"slower": level["t"], "same": 50.0} for name, level in stepped(32, {9: 0.94}).items()}

    (found,) = bisected(World(levels, noise=0.01), line(32), tmp_path).culprits

    assert names([9]) == found.commits
    assert found.effects["slower"].probability > 0.95
    assert found.effects["same"].probability < 0.2


def merged(guilty: str) -> tuple[CommitRange, World]:
    r"""Return c0 - a1 - … - a8 - m - a9, with b1 … b6 from a2 into m, and a slow commit."""
    shape = {"a1": ["c0"], "a2": ["a1"]}
    shape |= {f"b{n}": [f"b{n - 1}" if n > 1 else "a2"] for n in range(1, 7)}
    shape |= {f"a{n}": [f"a{n - 1}"] for n in range(3, 9)}
    shape |= {"m": ["a8", "b6"], "a9": ["m"]}
    asked = CommitRange("c0", tuple(RangeCommit(name, tuple(parents)) for name, parents in shape.items()))
    history = asked.history
    slow = 1 << history.index(guilty)
    levels = {name: {"t": 90.0 if history.reachable_from(name) & slow else 100.0} for name in ["c0", *shape]}
    return asked, World(levels, noise=0.01)


@pytest.mark.parametrize("guilty", ["a5", "b1", "b3", "m"])
def test_guilty_commit_of_a_merged_history_is_found(guilty: str, tmp_path: Path) -> None:
    asked, world = merged(guilty)

    assert [(guilty,)] == [each.commits for each in bisected(world, asked, tmp_path).culprits]


def test_merge_is_guilty_as_a_whole_where_only_the_mainline_is_asked(tmp_path: Path) -> None:
    asked, world = merged("b3")

    outcome = bisected(world, replace(asked, first_parent=True), tmp_path)

    assert [("m",)] == [each.commits for each in outcome.culprits]


def test_same_state_has_the_same_next_step_however_often_it_was_killed(tmp_path: Path) -> None:
    world = World(stepped(16, {5: 0.95}), noise=0.01)
    bisected(world, line(16), tmp_path)

    state = load(tmp_path / "session")

    strategy = Adaptive()
    for count in range(4, len(state.measured)):
        before = replace(state, measured=state.measured[:count])
        known = {each.commit for each in before.measured}
        before = replace(before, built={name: state.built[name] for name in state.built if name in known})
        assert state.steps[count] == replace(strategy.next(before), belief=state.steps[count].belief)


def test_measurements_end_with_what_is_known(tmp_path: Path) -> None:
    world = World(stepped(64, {30: 0.98}), noise=0.01)

    outcome = bisected(world, line(64), tmp_path, maximum_measurements=12)

    assert outcome.kind is OutcomeKind.UNDECIDED
    assert len(world.measured) == 12
    assert sum(each.probability for each in outcome.belief) == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("strategy", [Adaptive(), CsitHalving()])
def test_nothing_is_said_without_a_value(strategy: Strategy, tmp_path: Path) -> None:
    world = World({f"c{index}": {} for index in range(9)})

    outcome = BisectSession(tmp_path / "s", line(8), strategy, build=world.build, measure=world.measure).run()

    assert outcome.kind is OutcomeKind.UNDECIDED
    assert len(world.measured) == 2


def test_range_of_one_commit_needs_its_ends_alone(tmp_path: Path) -> None:
    outcome = bisected(World(stepped(1, {1: 0.9}), noise=0.01), line(1), tmp_path)

    assert [names([1])] == [each.commits for each in outcome.culprits]


def test_all_commits_between_that_do_not_build_are_suspected(tmp_path: Path) -> None:
    world = World(stepped(5, {3: 0.9}), noise=0.01, broken={"c1", "c2", "c3", "c4"})

    outcome = bisected(world, line(5), tmp_path)

    assert [names([1, 2, 3, 4, 5])] == [each.commits for each in outcome.culprits]


def test_run_far_off_is_named_and_harmless(tmp_path: Path) -> None:
    class Unlucky(World):
        def measure(self, commit: str) -> BuildMeasurement:
            measured = super().measure(commit)
            if len(self.measured) != 6:
                return measured
            half = {
                t: replace(s, samples=tuple(x / 2 for x in s.samples)) for t, s in measured.values.items()
            }
            return replace(measured, values=half)

    outcome = bisected(Unlucky(stepped(32, {20: 0.93}), noise=0.01), line(32), tmp_path)

    assert {"t": (5,)} == outcome.outliers
    assert [names([20])] == [each.commits for each in outcome.culprits]


def test_only_run_of_a_commit_is_not_left_out_unconfirmed() -> None:
    """As measured on a loaded machine: there is a change in c1, and the run of old looks like an accident."""
    levels = {0: 3832, **dict.fromkeys(range(1, 5), 2500), **dict.fromkeys(range(5, 14), 1150)}
    runs = [
        (0, 3832), (13, 1840), (6, 1155), (3, 2595), (6, 1076), (3, 2416), (5, 1248), (4, 2545), (10, 975),
        (12, 1834), (11, 1253),
    ]  # fmt: skip
    state = BisectState(line(13), {f"c{number}": 1.0 for number, _ in runs})
    for index, (number, level) in enumerate(runs):
        started = START + timedelta(seconds=5 * index)
        spread = 0.16 if number == 11 else 0.02
        samples = tuple(level * (1 + spread * part) for part in (-1, -0.5, 0, 0.3, 1.2))
        ended = started + timedelta(seconds=4)
        state = state.with_measured(
            BuildMeasurement(f"c{number}", started, ended, {"t": MetricSamples(samples)}, {})
        )

    world = World({f"c{number}": {"t": level} for number, level in levels.items()}, noise=0.05)
    strategy = Adaptive(build_s=1.0, measure_s=4.0, maximum_changes=2)
    while isinstance(step := strategy.next(state), MeasureStep):
        state = state.with_measured(world.measure(step.commit), step.against)

    assert {("c1",), ("c5",)} == {each.commits for each in step.culprits}


@pytest.mark.parametrize("level", [0.0, 2.0])
def test_value_that_collapses_is_a_change_like_others(level: float, tmp_path: Path) -> None:
    levels = stepped(16, {})
    for index in range(6, 17):
        levels[f"c{index}"] = {"t": level}

    outcome = bisected(World(levels, noise=0.01), line(16), tmp_path)

    (found,) = outcome.culprits
    assert names([6]) == found.commits
    assert found.effects["t"].direction(Better.HIGHER) is Direction.REGRESSION


@pytest.mark.parametrize(
    "options", [{"confidence": 1.0}, {"confidence": 0.5}, {"maximum_measurements": 0}, {"maximum_changes": 0}]
)
def test_options_without_a_meaning_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(errors.SettingsError, match=next(iter(options))):
        Adaptive(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [0, 1, 14])
def test_range_without_a_change_is_measured_until_large_changes_are_excluded(number: int) -> None:
    """With two speeds, measurements of old at one and of new at the other permit a change of 60 %."""
    noise = SimulatedNoise(within=0.4, between=0.3, modes=100 * math.log(1.6), low=0.45, phase=3.5)
    history = SimulatedHistory(HistoryModel(changes=(), noise=noise), (zlib.crc32(b"none-speeds"), 0, number))

    outcome, state = simulate(Adaptive(), SimulatedTestbed(history))

    assert outcome.kind is OutcomeKind.NO_DIFFERENCE
    assert outcome.smallest_visible["test 1"] < 0.02
    assert len(state.measured) <= 50

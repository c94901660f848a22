"""The pairs that are measured before a commit is named, and the evidence that a name needs."""

import math
from dataclasses import replace

import numpy as np
import pytest

from perftrend.bisect import (
    Adaptive,
    BisectOutcome,
    BisectState,
    CommitRange,
    MeasureStep,
    OutcomeKind,
)
from perftrend.bisect.adaptive.confirmation import (
    FEWEST_PAIRS,
    MOST_PAIRS,
    Confirmation,
    ConfirmationStatus,
    begin,
    confirmations,
)
from perftrend.bisect.adaptive.posterior import test_data as taken_apart
from perftrend.bisect.simulator import (
    HistoryModel,
    SimulatedHistory,
    SimulatedNoise,
    SimulatedTestbed,
    bisect,
)
from perftrend.bisect.state import RangeCommit
from perftrend.model import BuildMeasurement, MetricSamples
from tests.unit.bisect.world import World, line, stepped

TWO_SPEEDS = SimulatedNoise(within=0.4, between=0.3, modes=47.0, low=0.45, phase=3.5)


class Switching(World):
    """Each sample is at one of two speeds, whichever build is measured."""

    def measure(self, commit: str) -> BuildMeasurement:
        random = np.random.default_rng(len(self.measured))
        measured = super().measure(commit)
        values = {
            test: MetricSamples(
                tuple(sample / (1.6 if random.random() < 0.5 else 1) for sample in each.samples)
            )
            for test, each in measured.values.items()
        }
        return replace(measured, values=values)


def tried(
    world: World, pairs: int, parent: str = "c4", candidate: str = "c5", *, best: bool = True
) -> Confirmation:
    """Measure a candidate and its parent in pairs, after each end three times.

    :param best: whether the best samples count as well as the averages.
    """
    state = BisectState(line(8))
    for commit in ("c0", "c8") * 3:
        state = state.with_measured(world.measure(commit))
    commit = begin(parent, candidate)
    for _ in range(2 * pairs):
        other = parent if commit == candidate else candidate
        state = state.with_measured(world.measure(commit), other)
        data = [each if best else replace(each, best=None) for each in taken_apart(state, {})]
        (found,) = confirmations(state, data, 0.99)
        commit = found.next
    return found


def test_change_is_confirmed_by_pairs_alone() -> None:
    found = tried(World(stepped(8, {5: 0.9}), noise=0.01), 9)

    assert (ConfirmationStatus.CONFIRMED, 9) == (found.status, found.pairs)
    assert found.probability > 0.99
    assert ["c5"] == [f"c{at + 1}" for at in range(8) if found.changed >> at & 1]


@pytest.mark.parametrize(
    ("best", "status"), [(True, ConfirmationStatus.CONFIRMED), (False, ConfirmationStatus.UNDER_WAY)]
)
def test_best_samples_confirm_what_averages_hide(best: bool, status: ConfirmationStatus) -> None:
    """Each sample is at one of two speeds, 1.6 apart: that moves an average by more than the change does."""
    found = tried(Switching(stepped(8, {5: 0.95}), noise=0.002, samples=9), 14, best=best)

    assert status is found.status


def test_nothing_is_confirmed_by_fewer_pairs_however_clear_they_are() -> None:
    found = tried(World(stepped(8, {5: 0.5}), noise=0.001), FEWEST_PAIRS - 1)

    assert ConfirmationStatus.UNDER_WAY is found.status
    assert 0 < found.remaining < 20


def test_suspicion_that_pairs_do_not_bear_out_is_refuted() -> None:
    """The ends differ by a tenth, c4 and c5 by nothing."""
    found = tried(World(stepped(8, {7: 0.9}), noise=0.01), 8)

    assert ConfirmationStatus.REFUTED is found.status


class Broken(World):
    """A second test fails in every build."""

    def measure(self, commit: str) -> BuildMeasurement:
        return replace(super().measure(commit), failed={"broken": "it crashed"})


def test_test_that_fails_in_every_build_does_not_prevent_a_refutation() -> None:
    found = tried(Broken(stepped(8, {7: 0.9}), noise=0.01), 8)

    assert {"broken"} < set(found.tests)
    assert ConfirmationStatus.REFUTED is found.status


def test_pairs_that_show_neither_leave_it_open_until_more_are_permitted() -> None:
    found = tried(World(stepped(8, {5: 0.9, 7: 1 / 0.93}), noise=0.12), MOST_PAIRS)

    assert ConfirmationStatus.OPEN is found.status
    assert ConfirmationStatus.UNDER_WAY is replace(found, maximum_pairs=2 * MOST_PAIRS).status


def test_limits_are_no_part_of_what_a_session_records() -> None:
    assert Adaptive().options == Adaptive(maximum_measurements=9, continued=2).options


class Misleading(World):
    """The first measurements of the new commit are slow; later ones are not."""

    def measure(self, commit: str) -> BuildMeasurement:
        measured = super().measure(commit)
        if commit == "c0" or len(self.measured) > 8:
            return measured
        values = {
            test: MetricSamples(tuple(0.95 * sample for sample in each.samples))
            for test, each in measured.values.items()
        }
        return replace(measured, values=values)


def test_refuted_suspicion_does_not_make_sure_that_nothing_changed() -> None:
    world = Misleading(stepped(1, {}), noise=0.01)
    state = BisectState(line(1))
    while isinstance(step := Adaptive().next(state), MeasureStep):
        state = state.with_measured(world.measure(step.commit), step.against)

    assert OutcomeKind.FOUND is not step.kind
    assert all(each.probability < 1 for each in step.belief)
    assert not step.reason.endswith("is 1")


def test_both_builds_of_a_pair_come_first_as_often() -> None:
    first = [begin("parent", f"candidate {number}") for number in range(400)]

    assert 160 < first.count("parent") < 240


def test_pair_is_begun_as_soon_as_a_commit_is_suspected_and_goes_on_until_it_is_decided() -> None:
    world = World(stepped(8, {5: 0.9}), noise=0.01)
    state, steps = BisectState(line(8)), []
    while isinstance(step := Adaptive().next(state), MeasureStep):
        steps.append(step)
        state = state.with_measured(world.measure(step.commit), step.against)

    paired = [step for step in steps if step.against]
    assert {("c4", "c5"), ("c5", "c4")} == {(step.commit, step.against) for step in paired}
    assert len(paired) >= 2 * FEWEST_PAIRS
    assert not any(step.against for step in steps[: len(steps) - len(paired)])
    assert isinstance(step, BisectOutcome)
    assert [("c5",)] == [each.commits for each in step.culprits]
    assert 0.99 < step.culprits[0].confidence < 1


def test_pairs_with_commits_of_other_ranges_count_for_nothing() -> None:
    world = World(stepped(8, {}), noise=0.01)
    state = (
        BisectState(line(8))
        .with_measured(world.measure("c0"))
        .with_measured(world.measure("c8"), "elsewhere")
    )

    assert () == confirmations(state, taken_apart(state, {}), 0.99)


def test_pairs_of_two_branches_count_for_nothing() -> None:
    """A session of an earlier version may have such pairs: what differs may be a change of either branch."""
    shape = {"a": ["c0"], "b": ["c0"], "m": ["a", "b"]}
    forked = CommitRange("c0", tuple(RangeCommit(name, tuple(parents)) for name, parents in shape.items()))
    world = World({name: {"t": 100.0} for name in ("c0", *shape)}, noise=0.01)
    state = BisectState(forked).with_measured(world.measure("a"), "b").with_measured(world.measure("m"), "b")

    (found,) = confirmations(state, taken_apart(state, {}), 0.99)

    assert {"b", "m"} == {found.parent, found.candidate}


@pytest.mark.parametrize("change", [0.0, 100 * math.log(1.25)])
def test_two_speeds_of_a_machine_make_nobody_guilty(change: float) -> None:
    """Measurements differ by 60 % for no reason, for some in a row."""
    outcomes = []
    for seed in range(8):
        model = HistoryModel(size=24, changes=(change,) if change else (), noise=TWO_SPEEDS)
        history = SimulatedHistory(model, (seed,))
        outcome, _ = bisect(Adaptive(), SimulatedTestbed(history))
        named = {commit for culprit in outcome.culprits for commit in culprit.commits}
        assert named <= history.culprits.keys()
        outcomes.append(outcome.kind)

    assert outcomes.count(OutcomeKind.FOUND if change else OutcomeKind.NO_DIFFERENCE) >= 7
    assert not change or OutcomeKind.NO_DIFFERENCE not in outcomes


def test_who_runs_out_of_measurements_learns_what_the_machine_does() -> None:
    model = HistoryModel(size=24, changes=(10.0,), noise=TWO_SPEEDS)

    outcome, _ = bisect(Adaptive(maximum_measurements=14), SimulatedTestbed(SimulatedHistory(model, (3,))))

    assert OutcomeKind.UNDECIDED is outcome.kind
    assert (
        "14 measurements were made on a machine that seems to switch between two speeds, 1.6"
        in outcome.reason
    )


def test_shown_suspicions_sum_to_at_most_one() -> None:
    world = World(stepped(16, {4: 0.9, 11: 0.93}), noise=0.01)
    state = BisectState(line(16))
    while isinstance(step := Adaptive().next(state), MeasureStep):
        assert sum(each.probability for each in step.belief) <= 1 + 1e-9
        state = state.with_measured(world.measure(step.commit), step.against)

    assert sum(each.probability for each in step.belief) <= 1 + 1e-9


def test_builds_that_differ_for_no_reason_are_not_named() -> None:
    """Code lies elsewhere in memory: each build has a level of its own, however often it is measured."""
    named = []
    for seed in range(6):
        model = HistoryModel(
            size=24, changes=(6.0,), noise=SimulatedNoise(within=0.1, between=0.1, layout=0.5)
        )
        history = SimulatedHistory(model, (seed,))
        outcome, _ = bisect(Adaptive(), SimulatedTestbed(history))
        found = {commit for culprit in outcome.culprits for commit in culprit.commits}
        assert found <= history.culprits.keys()
        named.append(bool(found))

    assert named.count(True) >= 5


def test_name_needs_as_much_by_all_measurements_as_by_its_pairs() -> None:
    """All measurements together give a commit 99.4 % here, and its pairs 99.7 %. It changed nothing."""
    history = SimulatedHistory(
        HistoryModel(changes=(), noise=SimulatedNoise(layout=0.5)), (0x60F135DB, 0, 127)
    )

    outcome, _ = bisect(Adaptive(maximum_measurements=110), SimulatedTestbed(history))

    assert (OutcomeKind.UNDECIDED, ()) == (outcome.kind, outcome.culprits)

"""Simulated histories, and the testbed that builds and measures them."""

import math
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.bisect import BisectSession, CsitHalving, OutcomeKind
from perftrend.bisect.simulator import (
    HistoryModel,
    SimulatedBuild,
    SimulatedHistory,
    SimulatedNoise,
    SimulatedTestbed,
    Walk,
    bisect,
)
from perftrend.errors import BuildError, SettingsError
from perftrend.model import BuildMeasurement

MODELS = st.builds(
    HistoryModel,
    size=st.integers(3, 60),
    changes=st.sampled_from([(), (3.0,), (5.0, -4.0)]),
    broken=st.sampled_from([0.0, 0.1, 0.5]),
    branches=st.sampled_from([0.0, 0.3, 0.9]),
)

QUIET = SimulatedNoise(within=0.1, between=0.1)
CALM = HistoryModel(size=16, changes=(8.0,), noise=QUIET)


@given(model=MODELS, seed=st.integers(0, 10_000))
def test_new_contains_all_commits_and_all_changes(model: HistoryModel, seed: int) -> None:
    simulated = SimulatedHistory(model, (seed,))
    history = simulated.range.history

    assert model.size == len(history.commits) == history.ancestors[-1].bit_count()
    assert sum(model.changes) == pytest.approx(simulated.change(history.new))
    assert simulated.change(history.old) == 0
    assert sorted(model.changes) == sorted(simulated.culprits.values())


@given(model=MODELS, seed=st.integers(0, 10_000))
def test_ends_build_and_others_as_rarely_as_asked(model: HistoryModel, seed: int) -> None:
    simulated = SimulatedHistory(model, (seed,))
    history = simulated.range.history

    assert not {history.old, history.new} & simulated.broken
    assert bool(model.broken) >= bool(simulated.broken)
    assert len(simulated.broken) >= model.broken * (model.size - 1)


@given(model=MODELS, seed=st.integers(0, 10_000))
def test_commits_of_a_smallest_set_are_in_the_same_buildable_ones(model: HistoryModel, seed: int) -> None:
    """By definition, commit by commit."""
    simulated = SimulatedHistory(model, (seed,))
    history = simulated.range.history
    contents = {
        commit: set(history.hashes(history.reachable_from(commit)))
        for commit in history.commits
        if commit not in simulated.broken
    }
    within = {
        commit: frozenset(each for each, content in contents.items() if commit in content)
        for commit in history.commits
    }

    for commit in history.commits[:: max(1, model.size // 5)]:
        expected = [each for each in history.commits if within[each] == within[commit]]
        assert expected == list(simulated.smallest_set(commit))


def test_history_without_branches_is_a_line() -> None:
    simulated = SimulatedHistory(HistoryModel(size=20), (1,))

    assert all(each.parents == (before.hash,) for before, each in pairwise(simulated.range.commits))


def test_history_with_branches_has_merges() -> None:
    simulated = SimulatedHistory(HistoryModel(size=100, branches=0.3), (1,))

    assert sum(len(each.parents) == 2 for each in simulated.range.commits) >= 5


def test_commits_do_not_build_in_stretches() -> None:
    """Of those that do not build most have a neighbour that does not, too."""
    simulated = SimulatedHistory(HistoryModel(size=1000, changes=(), broken=0.1), (1,))
    names = simulated.range.history.commits
    broken = [name in simulated.broken for name in names]
    followed = sum(one and other for one, other in pairwise(broken))

    assert 100 <= sum(broken) <= 130
    assert followed > 0.6 * sum(broken)


def test_streams_of_random_numbers_do_not_meet() -> None:
    """A key that is continued by zeros would be the same stream."""
    simulated = SimulatedHistory(HistoryModel(), (1,))
    keys = [("layout", 1), ("layout", 1, 0), ("measurement", 1, 0), ("measurement", 1, 0, 1), ("drift", 0)]
    drawn = {key: simulated.random(key[0], *key[1:]).random() for key in keys}  # type: ignore[arg-type]

    assert drawn["layout", 1] == drawn["layout", 1, 0]
    assert len(keys) - 1 == len(set(drawn.values()))


def test_layout_of_a_commit_stays_and_is_its_own() -> None:
    simulated = SimulatedHistory(HistoryModel(noise=SimulatedNoise(layout=0.5)), (1,))
    old, *_, new = simulated.range.old, *simulated.range.history.commits

    assert simulated.layout(old, 0) == simulated.layout(old, 0)
    layouts = {simulated.layout(old, 0), simulated.layout(new, 0), simulated.layout(old, 1)}
    assert len({*layouts, simulated.layout(old, 0, variant=1)}) == 4


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"size": 1, "changes": (1.0, 2.0)}, "size"),
        ({"size": 0, "changes": ()}, "size"),
        ({"tests": ()}, "tests"),
        ({"broken": 1.0}, "broken"),
        ({"branches": -0.1}, "branches"),
    ],
)
def test_history_that_cannot_be_is_refused_by_name(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        HistoryModel(**wrong)


def measured(testbed: SimulatedTestbed, commit: str) -> BuildMeasurement:
    return testbed.measure(SimulatedBuild(commit, 0.0))


def level(found: BuildMeasurement, test: str = "test 1") -> float:
    samples = found.values[test].samples
    return sum(100 * math.log(sample) for sample in samples) / len(samples)


def test_measured_difference_of_old_and_new_is_that_of_the_changes() -> None:
    history = SimulatedHistory(HistoryModel(changes=(8.0, -3.0), noise=QUIET, tests=(1.0, -2.0)), (1,))
    testbed = SimulatedTestbed(history)

    old, new = (measured(testbed, commit) for commit in (history.range.old, history.range.history.new))

    assert pytest.approx(5.0, abs=0.7) == level(new) - level(old)
    assert pytest.approx(-10.0, abs=0.7) == level(new, "test 2") - level(old, "test 2")


def test_noise_of_a_commit_does_not_depend_on_what_was_measured_before() -> None:
    history = SimulatedHistory(CALM, (1,))
    first, second = SimulatedTestbed(history), SimulatedTestbed(history)
    old, new = history.range.old, history.range.history.new

    one = [measured(first, commit) for commit in (old, new, old)]
    other = [measured(second, commit) for commit in (old, old, new)]

    assert [one[0].values, one[1].values, one[2].values] == [
        other[0].values,
        other[2].values,
        other[1].values,
    ]
    assert one[0].values != one[2].values


def test_layouts_of_a_commit_are_measured_in_turn() -> None:
    noise = SimulatedNoise(within=0.0, between=0.0, layout=1.0, variants=2)
    testbed = SimulatedTestbed(SimulatedHistory(HistoryModel(noise=noise), (1,)))

    found = [measured(testbed, testbed.history.range.old) for _ in range(4)]

    assert [0, 1, 0, 1] == [each.variant for each in found]
    assert [True, False] == [level(found[0]) == level(found[at]) for at in (2, 1)]


@pytest.mark.parametrize("unvaried", [0.0, 0.5, 1.0])
def test_variants_have_a_part_of_the_layout_in_common(unvaried: float) -> None:
    noise = SimulatedNoise(layout=2.0, variants=2, unvaried=unvaried)
    history = SimulatedHistory(HistoryModel(size=600, noise=noise), (1,))

    drawn = np.array(
        [[history.layout(each, 0, at) for at in (0, 1)] for each in history.range.history.commits]
    )

    assert [2.0, 2.0] == pytest.approx(drawn.std(axis=0).tolist(), rel=0.1)
    assert unvaried == pytest.approx(np.corrcoef(drawn.T)[0, 1], abs=0.1)


def test_steps_take_their_time() -> None:
    history = SimulatedHistory(CALM, (1,))
    testbed = SimulatedTestbed(history, build_s=300.0, measure_s=60.0)

    found = testbed.measure(testbed.build(history.range.old))

    assert timedelta(seconds=60) == found.finished - found.started
    assert testbed.clock_s == 360


def test_drift_moves_what_is_measured_later() -> None:
    history = SimulatedHistory(HistoryModel(changes=(), noise=QUIET, drifts=(Walk(5.0),)), (1,))
    testbed = SimulatedTestbed(history)

    early = measured(testbed, history.range.old)
    testbed.clock_s += 30 * 24 * 3600
    late = measured(testbed, history.range.old)

    assert abs(level(late) - level(early)) > 5


def test_tests_fail_from_a_commit_on() -> None:
    history = SimulatedHistory(HistoryModel(changes=(-math.inf,), tests=(1.0, 0.0), noise=QUIET), (1,))
    testbed = SimulatedTestbed(history)
    old, new = (measured(testbed, commit) for commit in (history.range.old, history.range.history.new))

    assert {"test 1", "test 2"} == old.values.keys()
    assert ({"test 2"}, {"test 1"}) == (new.values.keys(), new.failed.keys())


def test_what_does_not_build_says_so_and_takes_as_long() -> None:
    history = SimulatedHistory(HistoryModel(changes=(), broken=0.3), (1,))
    testbed = SimulatedTestbed(history)

    with pytest.raises(BuildError):
        testbed.build(min(history.broken))

    assert testbed.clock_s == testbed.build_s


def test_session_ends_as_the_bisection_without_a_file(tmp_path: Path) -> None:
    history = SimulatedHistory(HistoryModel(size=16, changes=(8.0,), noise=QUIET, broken=0.2), (1,))
    testbed, other = SimulatedTestbed(history), SimulatedTestbed(history)
    session = BisectSession(
        tmp_path / "session",
        history.range,
        CsitHalving(),
        build=testbed.build,
        measure=testbed.measure,
    )

    outcome, state = bisect(CsitHalving(), other)

    assert session.run() == outcome
    assert (testbed.built, testbed.measured) == (other.built, other.measured)
    assert (OutcomeKind.FOUND, set(testbed.measured)) == (
        outcome.kind,
        {each.commit for each in state.measured},
    )

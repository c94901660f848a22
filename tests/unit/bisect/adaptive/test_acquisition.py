import math
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from perftrend.bisect import BisectState
from perftrend.bisect.adaptive.acquisition import (
    Costs,
    MeasurementPlan,
    _gain,
    choose,
    choose_for_layouts,
    predict,
)
from perftrend.bisect.adaptive.candidates import Suspects
from perftrend.bisect.adaptive.noise_model import VARIED_LAYOUTS
from perftrend.bisect.adaptive.posterior import Belief, test_data
from perftrend.bisect.simulator import HistoryModel, SimulatedHistory, SimulatedNoise, SimulatedTestbed
from perftrend.model import BuildMeasurement
from tests.unit.bisect.world import START, line


@pytest.mark.parametrize(
    ("distance", "bits"), [(0.0, 0.0), (0.1, 0.0018), (1.0, 0.161), (2.0, 0.486), (4.0, 0.913), (400.0, 1.0)]
)
def test_information_about_one_of_two_levels(distance: float, bits: float) -> None:
    """The capacity of a channel with two levels and normal noise, by numerical integration."""
    (gain,) = _gain(np.full((1, 2), 0.5), np.array([[0.0, distance]]), np.full((1, 2), 0.25), noise=0.75)

    assert bits == pytest.approx(gain / math.log(2), rel=0.15, abs=1e-4)


@given(some.lists(some.floats(0.01, 1), min_size=2, max_size=5), some.floats(0, 1e3))
def test_information_is_at_most_what_is_unknown(shares: list[float], distance: float) -> None:
    weights = np.array([shares]) / sum(shares)
    means = distance * np.arange(len(shares), dtype=float)[np.newaxis]

    (gain,) = _gain(weights, means, np.zeros_like(means), noise=1.0)

    assert 0 <= gain <= -(weights * np.log(weights)).sum() + 1e-9


def test_costs_are_those_of_the_steps_so_far() -> None:
    run = BuildMeasurement("c0", START, START + timedelta(seconds=20))
    state = replace(BisectState(line(3)), built={"c0": 300.0, "c1": 1.0, "c3": 400.0}, measured=(run,))

    assert Costs(300.0, 20.0) == Costs.of(state, Costs())
    assert Costs(600.0, 50.0) == Costs.of(BisectState(line(3)), Costs())
    assert Costs(400.0, 20.0).considered_build_s == 20.0


def test_side_that_was_measured_once_is_measured_again() -> None:
    """One run of old is like nothing before, until there are more of it."""
    model = HistoryModel(
        size=2, noise=SimulatedNoise(within=0.4, between=0.3, modes=47.0, low=0.45, phase=3.5)
    )
    history = SimulatedHistory(model, (5,))
    testbed = SimulatedTestbed(history)
    old, (first, new) = history.range.old, history.range.history.commits
    builds = {commit: testbed.build(commit) for commit in (old, first, new)}
    state = BisectState(history.range, built=dict.fromkeys(builds, 0.0))
    for commit in (old, *[first, new] * 10):
        state = state.with_measured(testbed.measure(builds[commit]))
    data = test_data(state, {})
    suspects = Suspects.of(state.history, [each.commit for each in state.measured], ())
    belief = Belief(data, suspects)
    belief.held = np.array([0.9, 0.1])

    assert old == choose(state, belief, Costs()).commit


def test_another_layout_of_a_commit_has_more_information_than_a_known_one() -> None:
    noise = SimulatedNoise(within=0.2, between=0.2, layout=1.0, variants=2)
    history = SimulatedHistory(HistoryModel(size=8, noise=noise), (5,))
    testbed = SimulatedTestbed(history)
    commits = history.range.history.commits
    state = BisectState(history.range, built=dict.fromkeys(commits, 0.0))
    for commit in (history.range.old, *commits):
        build = testbed.build(commit)
        for _ in range(1 if commit == commits[3] else 2):
            state = state.with_measured(testbed.measure(build))
    suspects = Suspects.of(state.history, [each.commit for each in state.measured], ())
    belief = Belief(test_data(state, {}), suspects)
    [test] = belief.tests
    assert test.evidence is not None
    view = test.evidence.views[list(VARIED_LAYOUTS).index((0.01, 1.0))]
    both = [commits[2], commits[3]]
    inside = np.array([suspects.inside(commit) for commit in both])
    plan = MeasurementPlan(both, inside, np.ones(2), np.zeros(2, np.bool_), np.array([0, 1]))

    known, other = predict(belief, test, view, plan).variances[:, 0]

    assert other > 2 * known


@pytest.mark.parametrize(
    ("runs", "layout", "chosen"),
    [
        ({0: 4, 2: 4, 4: 1, 6: 4, 8: 4}, 2.0, 4),  # The one that was measured least.
        ({0: 4, 2: 4, 4: 4, 6: 4, 8: 4}, 2.0, 3),  # Enough runs of these: another build.
        ({0: 4, 2: 4, 4: 4, 6: 4, 8: 4}, 0.0, 0),  # Layouts that hardly differ take more runs of each.
        (dict.fromkeys(range(9), 4), 2.0, None),
    ],
)
def test_layouts_are_learned_from_builds_with_enough_runs(
    runs: dict[int, int], layout: float, chosen: int | None
) -> None:
    noise = SimulatedNoise(within=0.5, between=0.5, layout=layout, variants=2)
    history = SimulatedHistory(HistoryModel(size=8, changes=(20.0,), noise=noise), (5,))
    testbed = SimulatedTestbed(history)
    commits = [history.range.old, *history.range.history.commits]
    state = BisectState(history.range, built=dict.fromkeys(commits, 0.0))
    for number, times in runs.items():
        build = testbed.build(commits[number])
        for _ in range(times):
            state = state.with_measured(testbed.measure(build))
    suspects = Suspects.of(state.history, [each.commit for each in state.measured], ())
    belief = Belief(test_data(state, {}), suspects)

    found = choose_for_layouts(state, belief, int(np.argmax(belief.held)))

    assert (None if chosen is None else commits[chosen]) == found

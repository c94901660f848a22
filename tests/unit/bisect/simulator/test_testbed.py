import math
from datetime import timedelta
from pathlib import Path

import pytest

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
from perftrend.errors import BuildError
from perftrend.model import BuildMeasurement

QUIET = SimulatedNoise(within=0.1, between=0.1)
CALM = HistoryModel(size=16, changes=(8.0,), noise=QUIET)


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

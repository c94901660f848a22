from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.change_evidence import MINIMUM_HISTORY, ChangeShape
from perftrend.analysis.sequential import (
    QUIET,
    DetectorState,
    SuspectedChange,
    Vigilance,
    monitor,
    replay,
)
from perftrend.errors import SettingsError
from perftrend.model import Better, Direction, Samples

NAN = math.nan


def noise(runs: int, *, seed: int = 0, deviation: float = 1.0) -> Samples:
    return np.random.default_rng(seed).normal(100.0, deviation, runs)


def described(found: SuspectedChange) -> tuple[DetectorState, int, int, float]:
    return found.state, found.position, found.runs, found.after


def watched(samples: Samples, **options: object) -> SuspectedChange:
    return monitor(samples, better=Better.HIGHER, **options)  # type: ignore[arg-type]


def test_small_drop_is_seen_after_some_runs_where_it_began() -> None:
    """A drop of two sigmas at run 60."""
    samples = noise(80)
    samples[60:] -= 2.0
    found = watched(samples)

    assert (DetectorState.CHANGED, Direction.REGRESSION) == (found.state, found.direction)
    assert 60 == pytest.approx(found.position, abs=2)
    assert found.runs == 80 - found.position
    assert found.before - found.after == pytest.approx(2.0, abs=0.7)


def test_which_direction_is_bad_belongs_to_the_trace() -> None:
    samples = noise(80)
    samples[60:] += 3.0

    assert Direction.PROGRESSION is monitor(samples, better=Better.HIGHER).direction
    assert Direction.REGRESSION is monitor(samples, better=Better.LOWER).direction


def test_far_newest_run_of_a_calm_trace_is_a_change_with_the_second_one() -> None:
    samples = noise(60)
    samples[-2:] = 90.0

    assert (DetectorState.SUSPECTED, 58, 1, 90.0) == described(watched(samples[:-1]))
    assert (DetectorState.CHANGED, 58, 2, 90.0) == described(watched(samples))


def test_far_newest_run_is_a_change_at_once_after_many_runs_without_one() -> None:
    samples = noise(300)
    samples[-1] = 90.0

    assert (DetectorState.CHANGED, 299, 1, 90.0) == described(watched(samples))


@pytest.mark.parametrize("factor", [0.01, 0.1, 0.5, 1.5, 10.0, 100.0])
def test_persistent_change_is_seen_as_early_however_large_it_is(factor: float) -> None:
    samples = noise(63)
    samples[60:] *= factor
    first, _, third = (watched(samples[:stop]) for stop in (61, 62, 63))

    assert [DetectorState.SUSPECTED, DetectorState.CHANGED] == [first.state, third.state]


def test_far_newest_run_of_a_trace_with_outliers_is_suspected() -> None:
    samples = noise(60)
    samples[20] = 88.0
    samples[-1] = 90.0

    found = watched(samples)

    assert (DetectorState.SUSPECTED, Direction.REGRESSION, 59, 1) == (
        found.state,
        found.direction,
        found.position,
        found.runs,
    )


def test_suspicion_becomes_a_change_when_the_next_runs_agree() -> None:
    samples = noise(65)
    samples[20] = 88.0
    samples[59:] = 90.0, 90.5, 89.5, 90.0, 90.0, 89.5
    states = [each.state for each in replay(samples, better=Better.HIGHER)[58:]]

    assert DetectorState.QUIET is states[0]
    assert DetectorState.SUSPECTED is states[1]
    assert DetectorState.CHANGED in states[2:]


def test_suspicion_is_dropped_when_the_next_run_is_back() -> None:
    samples = noise(61)
    samples[20] = 88.0
    samples[59] = 90.0

    assert DetectorState.SUSPECTED is watched(samples[:60]).state
    assert QUIET == watched(samples)


def test_outliers_do_not_hide_a_small_drop() -> None:
    samples = noise(90)
    samples[60:] -= 2.0
    samples[[10, 30, 65, 75]] = 60.0, 140.0, 140.0, 55.0

    found = watched(samples)

    assert (DetectorState.CHANGED, Direction.REGRESSION) == (found.state, found.direction)
    assert found.after == pytest.approx(98.0, abs=0.8)


def test_last_run_ten_percent_off_is_never_quiet() -> None:
    """At 1 % noise and in 300 histories, a third of them with outliers."""
    rng = np.random.default_rng(8)
    for index in range(300):
        samples = rng.normal(100.0, 1.0, 60)
        if index % 3 == 0:
            samples[rng.integers(0, 58, 2)] += rng.choice([-30.0, 30.0], 2)
        samples[-1] -= 10.0

        assert DetectorState.QUIET is not watched(samples).state


def test_false_alarms_and_suspicions_come_as_often_as_stated(*, thorough: bool) -> None:
    """25 quiet traces of 60 + 200 runs: 5 false alarms and 35 suspicions are stated."""
    rng, factor = np.random.default_rng(12), 2 if thorough else 1
    states = [
        each.state
        for _ in range(25 * factor)
        for each in replay(rng.normal(100.0, 1.0, 260), better=Better.HIGHER)[60:]
    ]

    assert 1 <= states.count(DetectorState.CHANGED) / factor <= 10
    assert 20 <= states.count(DetectorState.SUSPECTED) / factor <= 50


@pytest.mark.parametrize("memory", [0.0, 0.5])
def test_runs_that_resemble_the_one_before_raise_no_more_alarms(memory: float) -> None:
    """In 100 quiet traces of 100 runs: without regard for the memory, 24 would end in an alarm."""
    rng = np.random.default_rng(3)
    alarms = 0
    for _ in range(100):
        samples = rng.normal(0.0, 1.0, 100)
        for run in range(1, 100):
            samples[run] += memory * samples[run - 1]
        alarms += monitor(samples, better=Better.HIGHER).state is DetectorState.CHANGED

    assert alarms <= 4


@pytest.mark.parametrize("distance", [2.0, 4.0])
def test_modes_that_last_for_a_week_raise_few_alarms(distance: float) -> None:
    """In 200 quiet traces of 100 runs: without regard for the memory, 59 and 107 would end in an alarm.

    At a false alarm in 1,000 runs, 3 to 4 of 100 such traces end in one, since it stands for some weeks.
    """
    rng = np.random.default_rng(4)
    alarms = 0
    for _ in range(200):
        modes = np.cumsum(rng.random(100) < 1 / 7) % 2
        samples = rng.normal(0.0, 1.0, 100) - distance * modes
        alarms += monitor(samples, better=Better.HIGHER).state is DetectorState.CHANGED

    assert alarms <= 8


def test_rows_of_low_runs_are_waited_for_where_low_runs_are_frequent() -> None:
    """Every eighth run is low by chance, as on a machine of two modes: three in a row may be, too."""
    samples = noise(90)
    samples[3:80:8] -= 10.0
    samples[83:] -= 10.0
    states = [monitor(samples[:stop], better=Better.HIGHER).state for stop in range(84, 91)]

    assert [DetectorState.SUSPECTED] * 3 == states[:3]
    assert DetectorState.CHANGED is states[-1]


def test_more_vigilance_sees_earlier() -> None:
    samples = noise(120, seed=3)
    samples[60:] -= 1.0

    def first(rate: float) -> int:
        states = [
            each.state
            for each in replay(samples, better=Better.HIGHER, vigilance=Vigilance(false_alarms_per_1000=rate))
        ]
        return states[60:].index(DetectorState.CHANGED)

    assert first(20.0) < first(0.01)


def test_drift_is_named_when_it_has_gone_on_for_a_while() -> None:
    samples = noise(100)
    samples[50:] -= 0.2 * np.arange(1, 51)

    assert ChangeShape.DRIFT is watched(samples).shape


def test_evidence_begins_after_the_last_confirmed_change() -> None:
    samples = noise(120)
    samples[:60] += 20.0

    assert 60 == watched(samples).position
    assert QUIET == watched(samples, since=60)


def test_replay_confirms_a_change_and_begins_anew() -> None:
    """Down by five sigmas at run 60, and up again by as much at run 100."""
    samples = noise(130)
    samples[60:100] -= 5.0
    found = replay(samples, better=Better.HIGHER)
    confirmed = [each for each in found if each.confirmed]

    assert 130 == len(found)
    assert [Direction.REGRESSION, Direction.PROGRESSION] == [each.direction for each in confirmed]
    assert [60, 100] == [each.position for each in confirmed]


def test_lone_bad_run_does_not_begin_the_evidence_anew() -> None:
    """A run 30 sigmas off, and three runs later a small drop that is still found."""
    samples = noise(90)
    samples[60] -= 30.0
    samples[64:] -= 2.0
    found = replay(samples, better=Better.HIGHER)

    assert (DetectorState.SUSPECTED, 1, False) == (found[60].state, found[60].runs, found[60].confirmed)
    assert QUIET == found[61]
    assert [62] == [pytest.approx(each.position, abs=4) for each in found if each.confirmed][:1]


def test_short_history_is_quiet() -> None:
    samples = np.array([100.0] * MINIMUM_HISTORY)
    samples[-1] = 1.0

    assert QUIET == watched(samples)
    assert QUIET == watched(np.empty(0))


def test_runs_without_a_value_keep_their_positions() -> None:
    samples = noise(80)
    samples[60:] -= 4.0
    gaps = np.full(160, NAN)
    gaps[::2] = samples

    assert 2 * watched(samples).position == watched(gaps).position
    assert watched(samples).runs == watched(gaps).runs


def test_equal_runs_are_quiet_and_the_first_other_one_is_seen() -> None:
    flat = np.full(40, 0.1)

    assert QUIET == watched(flat)
    flat[-2:] = 0.05
    assert (DetectorState.CHANGED, 38) == (watched(flat).state, watched(flat).position)


@given(
    st.lists(st.sampled_from([1.0, 1.01, 1.02, 1.5, 2.0, 7.0, 100.0, 0.0, -3.0, NAN]), max_size=30),
    st.integers(min_value=0, max_value=30),
)
def test_whatever_the_runs_are_something_is_said_of_one_of_them(values: list[float], since: int) -> None:
    samples = np.array(values)
    found = watched(samples, since=since)

    if found.state is DetectorState.QUIET:
        assert QUIET == found
    else:
        assert since <= found.position < samples.size
        assert np.isfinite([samples[found.position], found.before, found.after]).all()
        assert 1 <= found.runs <= samples.size - found.position


@given(st.integers(min_value=0, max_value=10**6), st.floats(min_value=-6.0, max_value=6.0))
def test_unit_and_origin_do_not_matter(seed: int, shift: float) -> None:
    samples = np.round(noise(50, seed=seed) * 256)
    samples[40:] += round(shift * 256)
    plain, other = watched(samples), watched(8 * samples + 4096)

    assert (plain.state, plain.position, plain.runs) == (other.state, other.position, other.runs)


@given(st.integers(min_value=0, max_value=10**6), st.floats(min_value=0.0, max_value=6.0))
def test_turned_values_of_a_turned_trace_say_the_same(seed: int, shift: float) -> None:
    samples = noise(50, seed=seed)
    samples[40:] -= shift
    plain = monitor(samples, better=Better.HIGHER)
    turned = monitor(-samples, better=Better.LOWER)

    assert (plain.state, plain.direction, plain.runs) == (turned.state, turned.direction, turned.runs)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("false_alarms_per_1000", 0.0),
        ("suspicions_per_1000", 501.0),
        ("false_alarms_per_1000", NAN),
        ("regressions", 1.0),
    ],
)
def test_rate_without_a_meaning_is_refused(name: str, value: float) -> None:
    with pytest.raises(SettingsError, match=f"{name} is {value}; give a"):
        Vigilance(**{name: value})

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis import Pattern, name_patterns
from perftrend.analysis.change_details import detail_steps, detail_suspected_change, is_distinct_from
from perftrend.analysis.reportable_changes import ReportingRule, findings, sight
from perftrend.model import Better, Change, Direction

RULE = ReportingRule(Better.HIGHER, outliers=False)
DROP = Change(10, 100.0, 90.0, Direction.REGRESSION)


def noise(count: int, *, seed: int = 3) -> list[float]:
    return np.random.default_rng(seed).normal(100.0, 1.0, count).tolist()


def test_sighted_change_is_as_sure_as_its_runs_let_it_be() -> None:
    samples = np.array(noise(40) + [value - 2 for value in noise(10, seed=4)])
    found = findings(samples, RULE)
    change = detail_suspected_change(found, sight(samples, found, RULE))

    assert change is not None
    assert Direction.REGRESSION is change.direction
    assert 0.9 < change.confidence < 1
    assert -3 < change.effect_size < -1
    assert change.last_before is not None
    assert change.first_after is not None
    assert change.last_before < 40 <= change.first_after


def test_quiet_trace_has_nothing_to_tell() -> None:
    samples = np.array(noise(40))
    found = findings(samples, RULE)

    assert detail_suspected_change(found, sight(samples, found, RULE)) is None
    assert ((), ()) == detail_steps(samples, found, RULE)


@pytest.mark.parametrize(
    ("step", "same"),
    [
        (DROP, True),
        (Change(12, 99.0, 91.0, Direction.REGRESSION), True),
        (Change(13, 100.0, 90.0, Direction.REGRESSION), False),
        (Change(10, 90.0, 100.0, Direction.PROGRESSION), False),
    ],
)
def test_sighting_near_a_step_in_its_direction_is_that_step(step: Change, same: bool) -> None:
    assert same != is_distinct_from(DROP, (step,))


def test_change_that_noise_explained_is_not_told_as_vanished() -> None:
    """With two runs the partition had a step, of 13 %, that so few runs cannot tell from noise."""
    samples = np.array([106.1, 92.3, 101.3, 98.3, 98.6, 99.4, 93.9, 99.3, 97.4, 110.0])
    named = name_patterns(samples, better=Better.HIGHER)
    _, vanished = detail_steps(samples, findings(samples, RULE), RULE)

    assert Pattern.VANISHED in {each.pattern for each in named}
    assert () == vanished


@given(
    st.lists(st.floats(50.0, 150.0), min_size=1, max_size=30), st.sampled_from(list(Better)), st.booleans()
)
def test_each_step_has_a_pattern_and_lies_between_its_runs(
    rates: list[float], better: Better, outliers: bool
) -> None:
    rule = ReportingRule(better, outliers=outliers)
    samples = np.array(rates)
    found = findings(samples, rule)
    steps, _ = detail_steps(samples, found, rule)

    assert [step.position for step in found.steps] == [step.position for step in steps]
    for step in steps:
        assert step.pattern
        assert step.last_before is not None
        assert step.first_after is not None
        assert 0 <= step.last_before < step.first_after < samples.size
        assert not step.confidence > 1

import math

import numpy as np
import pytest

from perftrend.bisect.adaptive.evidence import Hypotheses
from perftrend.bisect.adaptive.posterior import Failures

STEPS = np.array([[0, 0, 1, 1], [0, 0, 0, 1]], np.float64)
PRIOR = Hypotheses(
    math.log(0.3), np.log(np.full(2, 0.3)), np.log(np.full(1, 0.1)), np.array([0]), np.array([1])
)


def test_failures_from_one_commit_on_speak_for_it() -> None:
    """By hand: the first success has 0.8, the next 1.08/1.1; the first failure 0.2, the next 1.02/1.1."""
    likelihood = Failures(np.array([0.0, 0.0, 1.0, 1.0]), STEPS).likelihood(PRIOR)

    works, fails = 0.8 * 1.08 / 1.1, 0.2 * 1.02 / 1.1
    assert works * 0.02 / 2.1 * 1.02 / 3.1 == pytest.approx(math.exp(likelihood.none))
    assert works * fails == pytest.approx(math.exp(likelihood.one[0]))
    assert works * 0.02 / 2.1 * 0.2 == pytest.approx(math.exp(likelihood.one[1]))
    assert works * 0.2 * 0.2 == pytest.approx(math.exp(likelihood.two[0]))


def test_next_failure_is_expected_where_there_were_some() -> None:
    none, before, after = Failures(np.array([0.0, 0.0, 1.0, 1.0]), STEPS).rates(STEPS)

    assert 2.02 / 4.1 == pytest.approx(none)
    assert [0.02 / 2.1, 1.02 / 3.1] == pytest.approx(before.tolist())
    assert [2.02 / 2.1, 1.02 / 1.1] == pytest.approx(after.tolist())

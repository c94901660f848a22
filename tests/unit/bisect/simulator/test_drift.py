import math

import numpy as np
import pytest

from perftrend.bisect.simulator import Jumps, Swing, Walk

HOUR, DAY = 60, 24 * 60


def test_walk_of_four_hours_strays_twice_as_far_as_one_of_one() -> None:
    random = np.random.default_rng(1)
    walks = np.array([Walk(0.5).levels(4 * HOUR, random) for _ in range(2000)])

    assert pytest.approx(0.5, rel=0.06) == walks[:, HOUR - 1].std()
    assert pytest.approx(1.0, rel=0.06) == walks[:, -1].std()


def test_swing_comes_back_after_its_period() -> None:
    levels = Swing(2.0, period_h=3.0).levels(DAY, np.random.default_rng(1))

    assert levels[: 3 * HOUR] == pytest.approx(levels[3 * HOUR : 6 * HOUR])
    assert pytest.approx(2.0, abs=0.01) == levels.max()
    assert pytest.approx(-2.0, abs=0.01) == levels.min()


def test_swings_have_different_phases() -> None:
    random = np.random.default_rng(1)
    first = [Swing().levels(1, random)[0] for _ in range(20)]

    assert len(set(first)) == 20


def test_jumps_are_as_frequent_and_as_large_as_asked() -> None:
    steps = np.diff(Jumps(3.0, every_h=4.0).levels(400 * DAY, np.random.default_rng(1)))
    jumps = steps[steps != 0]

    assert pytest.approx(400 * 6, rel=0.1) == jumps.size
    assert pytest.approx(3.0, rel=0.1) == math.sqrt((jumps**2).mean())

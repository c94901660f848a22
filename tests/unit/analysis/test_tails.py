from __future__ import annotations

import numpy as np
import pytest

from perftrend.analysis.noise import tail_scores
from perftrend.model import Samples


def normal(runs: int) -> Samples:
    return np.random.default_rng(5).normal(100.0, 2.0, runs)


def score(history: Samples, distance: float) -> float:
    """Return what a newest run so far above the median is worth."""
    values = np.append(history, np.median(history) + distance)
    return float(tail_scores(values, history.size)[-1])


def test_runs_of_normal_noise_are_worth_their_distance() -> None:
    values = normal(300)

    assert tail_scores(values, 300) == pytest.approx((values - np.median(values)) / 2.0, abs=0.35)


def test_far_run_is_worth_less_where_tails_are_heavy() -> None:
    heavy = 100.0 + 2.0 * np.random.default_rng(6).standard_t(3, 300)

    assert score(normal(300), 12.0) > 4.0
    assert score(heavy, 12.0) < 3.0


def test_far_run_is_worth_more_the_longer_there_was_none() -> None:
    scores = [score(normal(runs), 20.0) for runs in (15, 60, 300)]

    assert sorted(scores) == scores
    assert scores[0] < 3.6
    assert scores[2] > 4.0


def test_newest_runs_do_not_judge_themselves() -> None:
    history = normal(60)
    alone = score(history, 20.0)
    pair = tail_scores(np.concatenate([history, [120.0, 120.0]]), 60)

    assert alone == pytest.approx(pair[-1], abs=0.3)


def test_equal_runs_say_nothing_of_their_noise() -> None:
    values = np.array([5.0, 5.0, 5.0, 5.0, 4.0])

    assert values.tolist() == tail_scores(values, 4).tolist()

"""The evidence of a change if the noise may have any distribution."""

import numpy as np
import pytest

from perftrend.analysis.comparison.observations import Levels, Observation, levels
from perftrend.bisect.adaptive import noise_model
from perftrend.bisect.adaptive.noise_model import Density


def of_two_speeds(steps: np.ndarray, size: float, seed: int = 1) -> Levels:
    """Return measurements at one of two speeds, 1.6 apart, with a change of some per cent."""
    random = np.random.default_rng(seed)
    y = -47 * (random.random(steps.size) < 0.45) + 0.4 * random.standard_normal(steps.size) + size * steps
    values = 1000 * np.exp(y / 100)
    return levels([Observation(0, float(at), (float(value),)) for at, value in enumerate(values)])


def test_change_shows_through_noise_that_is_ten_times_as_large() -> None:
    random = np.random.default_rng(2)
    steps = (random.random((4, 40)) < 0.5).astype(np.float64)

    found = Density(of_two_speeds(steps[2], 5.0), steps, np.empty((0, 40)))

    assert 2 == int(np.argmax(found.one))
    assert found.one[2] > found.none + 5
    assert found.one[[0, 1, 3]].max() < found.none
    size = found.size(2)
    assert size.quantile(0.01) < 5 < size.quantile(0.99)
    assert size.mean == pytest.approx(5, abs=0.5)


def test_nothing_is_seen_without_a_change() -> None:
    steps = (np.random.default_rng(2).random((4, 40)) < 0.5).astype(np.float64)

    found = Density(of_two_speeds(steps[2], 0.0), steps, np.empty((0, 40)))

    assert found.one.max() < found.none
    assert found.at_least(3.0).max() < 0.1
    assert 0.5 <= found.upper_limit(np.ones(4)) < 3
    assert found.at_least(0.0) == pytest.approx(1)


def test_change_that_was_found_is_taken_out() -> None:
    steps = (np.random.default_rng(2).random((3, 60)) < 0.5).astype(np.float64)
    measured = of_two_speeds(steps[0], 25.0)
    measured = levels(
        [
            Observation(0, float(at), (float(1000 * np.exp((y + 8 * step) / 100)),))
            for at, (y, step) in enumerate(zip(measured.y, steps[1], strict=True))
        ]
    )

    found = Density(measured, steps, steps[[0]])

    assert 1 == int(np.argmax(found.one))
    assert found.size(1).mean == pytest.approx(8, abs=1)


def test_two_speeds_are_recognised_and_one_is_not() -> None:
    steps = np.zeros((1, 40))
    two = Density(of_two_speeds(steps[0], 0.0), steps, np.empty((0, 40)))
    random = np.random.default_rng(1)
    values = [Observation(0, float(at), (float(each),)) for at, each in enumerate(random.normal(100, 20, 40))]
    one = Density(levels(values), steps, np.empty((0, 40)))

    assert two.apart(None) == pytest.approx(47, abs=1)
    assert one.apart(None) is None


def of_starts(starts: str, change: float = 1.0) -> Density:
    """Return the evidence of starts of the old commit, O or o, and of the new one, N or n; o, n: slow."""
    random = np.random.default_rng(1)
    values = [1000 / (1.6 if start.islower() else 1) * (change if start in "Nn" else 1) for start in starts]
    observations = [
        Observation(0, float(at), tuple(value * np.exp(0.004 * random.standard_normal(5))))
        for at, value in enumerate(values)
    ]
    steps = np.array([[float(start in "Nn") for start in starts]])
    return Density(levels(observations), steps, np.empty((0, len(starts))))


def test_slow_start_before_a_change_and_fast_one_after_it_are_no_rise() -> None:
    """At the fast speed, the new level is 20 % above that of the old commit at the slow speed."""
    size = of_starts("ONONOoononooNONONONONnooNNO", change=0.75).size(0)

    assert size.mean == pytest.approx(100 * np.log(0.75), abs=0.2)
    assert -29.3 < size.quantile(0.025) < size.quantile(0.975) < -28.2


def test_large_change_may_hide_if_only_the_old_commit_was_slow() -> None:
    one_sided, both_sided = of_starts("ONNOONNOONNoo"), of_starts("ONNOONnon")

    assert one_sided.hides_large_change(np.ones(1))
    assert one_sided.upper_limit(np.ones(1)) > 40
    assert not both_sided.hides_large_change(np.ones(1))
    assert both_sided.upper_limit(np.ones(1)) < 3


def test_change_is_no_second_speed() -> None:
    steps = (np.random.default_rng(2).random((1, 40)) < 0.5).astype(np.float64)
    values = 1000 * np.exp((25 * steps[0] + np.random.default_rng(3).normal(0, 0.4, 40)) / 100)
    observations = [Observation(0, float(at), (float(each),)) for at, each in enumerate(values)]

    found = Density(levels(observations), steps, np.empty((0, 40)))

    assert found.apart(None) is not None
    assert found.apart(0) is None


def test_one_value_says_nothing() -> None:
    found = Density(of_two_speeds(np.ones(1), 0.0), np.ones((1, 1)), np.empty((0, 1)))

    assert found.one == pytest.approx([found.none])


def test_values_are_predicted_alike_one_by_one_and_all_at_once() -> None:
    """What is remembered of the values before is as good as new, however many there are."""
    steps = (np.random.default_rng(2).random((1, 1050)) < 0.5).astype(np.float64)
    measured = of_two_speeds(steps[0], 5.0)
    several = measured.without(range(30, 1050))

    one_by_one = [
        Density(measured.without(range(count, 1050)), steps[:, :count], np.empty((0, count)))
        for count in range(1, 31)
    ]
    noise_model._cache.clear()
    at_once = Density(several, steps[:, :30], np.empty((0, 30)))

    assert at_once.one.tolist() == one_by_one[-1].one.tolist()
    all_of_them = Density(measured, steps, np.empty((0, 1050)))
    assert all_of_them.one[0] > all_of_them.none


def test_sizes_between_those_of_the_grid_are_weighed_like_these() -> None:
    steps = (np.random.default_rng(2).random((2, 40)) < 0.5).astype(np.float64)
    found = Density(of_two_speeds(steps[0], 5.0), steps, np.empty((0, 40)))

    for step in (*steps, np.zeros(40), np.ones(40)):
        assert found._of_sizes(step, noise_model.DIFFERENCES) == pytest.approx(found._by_width(step))


def test_one_more_value_in_a_long_search_is_one_step_for_each_class(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = (np.random.default_rng(4).random((12, 111)) < 0.5).astype(np.float64)
    measured = of_two_speeds(steps[0], 5.0)
    Density(measured.without([110]), steps[:, :110], np.empty((0, 110)))
    computed = []
    added = noise_model._increment
    monkeypatch.setattr(noise_model, "_increment", lambda y, step: computed.append(step) or added(y, step))

    Density(measured, steps, np.empty((0, 111)))

    assert sorted({len(step) for step in computed}) == [111]
    assert len(computed) == 13, "twelve classes, and no change"

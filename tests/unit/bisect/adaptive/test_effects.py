from collections.abc import Mapping
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pytest

from perftrend.analysis.comparison.distributions import Mixture
from perftrend.analysis.comparison.paired_test import PairedEvidence
from perftrend.bisect import BisectState
from perftrend.bisect.adaptive import effects
from perftrend.bisect.adaptive.candidates import Suspects
from perftrend.bisect.adaptive.posterior import Belief, test_data
from perftrend.model import BuildMeasurement, MetricSamples
from tests.unit.bisect.world import START, line


def known(levels: Mapping[int, float | None], *, times: int, noise: float = 0.001) -> list[Belief]:
    """Measure commits of c0 … c8 in turn; one without a level fails."""
    random = np.random.default_rng(1)
    state = BisectState(line(8))
    for at, (number, level) in enumerate([*levels.items()] * times):
        started = START + timedelta(minutes=at)
        values, failed = {}, {"t": "no packet came back"}
        if level is not None:
            middle = level * (1 + noise * random.standard_normal())
            values, failed = {"t": MetricSamples((middle * (1 - noise), middle, middle * (1 + noise)))}, {}
        state = state.with_measured(
            BuildMeasurement(f"c{number}", started, started + timedelta(seconds=50), values, failed)
        )
    suspects = Suspects.of(state.history, [each.commit for each in state.measured], ())
    data = test_data(state, {})
    beliefs = [Belief(data, suspects)]
    while len(beliefs) <= 3 and (found := beliefs[-1].find_suspect(0.99)) is not None:
        beliefs.append(Belief(data, suspects, (*beliefs[-1].found, found)))
    return beliefs


def test_change_that_matters_is_at_least_a_third_of_the_one_that_was_found() -> None:
    """The last commits hold another one for sure, nobody knows which of them."""
    small = known({0: 100.0, 3: 100.0, 4: 90.0, 8: 88.0}, times=40, noise=0.01)
    large = known({0: 100.0, 3: 100.0, 4: 90.0, 8: 84.0}, times=4)

    assert [1, 1] == [len(beliefs[-1].found) for beliefs in (small, large)]
    assert small[-1].none < 0.01
    assert large[-1].none < 0.02
    assert effects.further_change_probability(small) < 0.01
    assert effects.further_change_probability(large) > 0.98


def test_change_that_is_plain_to_see_matters_beside_a_larger_one() -> None:
    """It is less than a third of the other, and many times the noise, or next to nothing itself."""
    plain = known({0: 100.0, 3: 100.0, 4: 90.0, 8: 88.0}, times=4)
    slight = known({0: 100.0, 3: 100.0, 4: 90.0, 8: 89.5}, times=4)

    assert plain[-1].none < 0.02
    assert slight[-1].none < 0.3
    assert effects.further_change_probability(plain) > 0.95
    assert effects.further_change_probability(slight) < 0.01


def test_nothing_is_left_where_everything_was_measured() -> None:
    level = {**dict.fromkeys(range(4), 100.0), **dict.fromkeys(range(4, 9), 90.0)}

    assert effects.further_change_probability(known(level, times=3)) < 0.003


def test_beside_a_failure_only_what_is_like_it_matters() -> None:
    fails = {0: 100.0, 2: 99.5, 3: 99.5, 4: None, 8: None}

    beliefs = known(fails, times=4)

    assert [[4]] == [[int(each.split("c")[1]) for each in _found(beliefs)]]
    assert effects.further_change_probability(beliefs) < 0.01


def test_more_measurements_show_smaller_changes() -> None:
    levels = {0: 100.0, 3: 100.0, 4: 90.0, 8: 90.0}

    few, many = (
        effects.smallest_further_visible(known(levels, times=times, noise=0.01)) for times in (3, 30)
    )

    assert 0.005 < many["t"] < few["t"] / 2 < 0.1


def test_nothing_is_seen_among_failures() -> None:
    assert not effects.smallest_further_visible(known({0: 100.0, 1: None, 8: None}, times=4))


def _found(beliefs: list[Belief]) -> list[str]:
    last = beliefs[-1]
    return [last.suspects.history.hashes(last.suspects.classes[each])[-1] for each in last.found]


@pytest.mark.parametrize(("affected", "needed"), [(0.9, 1.0), (0.1, 0.7)])
def test_pairs_alone_decide_only_if_the_noise_of_an_affected_test_is_of_any_kind(
    affected: float, needed: float
) -> None:
    of_any_kind = SimpleNamespace(affected=np.array([affected]), density=object())
    usual = SimpleNamespace(affected=np.array([0.9]), density=None)
    belief = SimpleNamespace(
        tests=[of_any_kind, usual], held=np.array([0.7]), effect_probability=lambda test: test.affected
    )

    assert needed == Belief.by_all_builds(belief, 0)


@pytest.mark.parametrize(
    ("by_pairs", "interval"),
    [
        ((-9.0, -8.0, -7.0), (-8.0, -3.02)),
        ((-7.0, -5.0, -3.0), (-4.98, -3.02)),
        ((3.0, 4.0, 5.0), (-4.98, 4.0)),
    ],
)
def test_interval_reaches_from_all_builds_to_those_of_the_pairs_if_they_disagree(
    by_pairs: tuple[float, float, float], interval: tuple[float, float]
) -> None:
    by_all = Mixture(np.ones(1), np.array([-4.0]), np.array([0.5]))
    low, median, high = by_pairs
    shown = PairedEvidence(log_e=6.0, pairs=11, median=median, low=low, high=high, claimed=1.0)

    assert interval == pytest.approx(effects._interval(by_all, shown), abs=0.01)
    assert (-4.98, -3.02) == pytest.approx(effects._interval(by_all, None), abs=0.01)

from __future__ import annotations

import math

import numpy as np
import pytest

from perftrend.analysis.change_details import NamedChange, Pattern, name_patterns
from perftrend.errors import SettingsError
from perftrend.model import Better, Direction, Samples

NAN = math.nan


def calm(runs: int = 80, *, deviation: float = 0.5, seed: int = 3) -> Samples:
    return np.random.default_rng(seed).normal(100.0, deviation, runs)


def named(samples: Samples, **options: int) -> tuple[NamedChange, ...]:
    return name_patterns(samples, better=Better.HIGHER, **options)


def patterns(samples: Samples, **options: int) -> list[tuple[Pattern, int]]:
    return [(each.pattern, each.change.position) for each in named(samples, **options)]


def test_step_of_ten_sigmas_is_ordinary_and_seen_in_its_first_run() -> None:
    samples = calm()
    samples[70:] -= 5.0

    assert [(Pattern.ORDINARY, 70)] == patterns(samples)
    assert (70, 79) == (named(samples)[0].first_seen, named(samples)[0].last_seen)


def test_step_of_less_than_three_sigmas_is_small_and_seen_later() -> None:
    samples = calm()
    samples[60:] -= 1.0

    (found,) = named(samples)

    assert Pattern.SMALL is found.pattern
    assert 60 == pytest.approx(found.change.position, abs=2)
    assert found.first_seen > 61


def test_one_bad_run_is_reverted_both_ways() -> None:
    samples = calm()
    samples[70] -= 20.0

    assert [(Pattern.REVERTED, 70), (Pattern.REVERTED, 71)] == patterns(samples)


def test_new_level_after_a_short_one_is_no_revert() -> None:
    """From 100 to 80 and, three runs later, to 60."""
    samples = calm()
    samples[70:73] -= 20.0
    samples[73:] -= 40.0

    assert [Pattern.ORDINARY, Pattern.ORDINARY] == [pattern for pattern, _ in patterns(samples)]


def test_return_after_weeks_is_no_revert() -> None:
    samples = calm()
    samples[60:72] -= 20.0

    assert [(Pattern.ORDINARY, 60), (Pattern.ORDINARY, 72)] == patterns(samples)


def test_change_that_later_runs_do_not_support_has_vanished() -> None:
    """The runs from 60 on begin low by chance; those that follow are as before."""
    samples = calm(deviation=1.0, seed=9)
    samples[60:62] = 96.0, 96.2
    samples[62:] = np.random.default_rng(1).normal(100.0, 1.5, 18)
    found = named(samples)

    assert [Pattern.VANISHED] == [each.pattern for each in found]
    assert found[0].last_seen < 79
    assert Direction.REGRESSION is found[0].change.direction


def test_large_step_that_was_found_late_says_so() -> None:
    """3.5 sigmas at run 30, whose first two runs happen to be high: only run 33 makes it certain."""
    samples = calm(40, deviation=2.0, seed=13)
    samples[30:] -= 7.0

    (found,) = named(samples, analyses=12)

    assert (Pattern.LATE, 30, 33) == (found.pattern, found.change.position, found.first_seen)


def test_what_was_known_before_the_repeated_analyses_is_not_late() -> None:
    samples = calm()
    samples[30:] -= 5.0

    assert [(Pattern.ORDINARY, 30)] == patterns(samples, analyses=5)


def test_runs_without_a_value_are_not_counted() -> None:
    samples = calm()
    samples[70] -= 20.0
    gaps = np.full(160, NAN)
    gaps[::2] = samples

    assert [(Pattern.REVERTED, 140), (Pattern.REVERTED, 142)] == patterns(gaps)


def test_quiet_and_empty_traces_have_no_change_to_name() -> None:
    assert () == named(np.full(20, 7.0))
    assert () == named(np.array([NAN, NAN]))


def test_no_analysis_is_refused() -> None:
    with pytest.raises(SettingsError, match="analyses is 0; give at least 1"):
        named(calm(), analyses=0)

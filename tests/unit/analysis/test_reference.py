"""What a reference build says about a change of the product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from perftrend.analysis import evaluate
from perftrend.analysis.families import SharedChange
from perftrend.analysis.families.nights import NoiseOfNights, simulate
from perftrend.analysis.reference import (
    Blame,
    ReferenceTrend,
    estimate_shift,
    explain_shared_changes,
    judge_by_reference,
    reference_trends,
)
from perftrend.model import (
    REFERENCE,
    Better,
    Outcome,
    Result,
    Run,
    Samples,
    Series,
    Status,
    TraceKey,
    Verdict,
)

START = datetime(2026, 3, 1, 2, tzinfo=UTC)
HISTORY = 30
Judge = Callable[..., Verdict]


def series(
    values: Samples, name: str, *, hour: int, unit: str = "pps", better: Better = Better.HIGHER
) -> Series:
    """Return a trace of a night each; those of the reference build are measured first, at hour 0."""
    key = TraceKey.of(testbed="2n-clx", test=name, metric="mrr").of_experiment("" if hour else REFERENCE)
    moments = [START + timedelta(days=night, hours=hour) for night in range(values.size)]
    runs = tuple(Run("2n-clx", "nightly", at + 1, moment, moment) for at, moment in enumerate(moments))
    results = tuple(Result(key, unit, better, Status.PASS, value=float(value)) for value in values)
    return Series(key, unit, better, runs, values, results)


def judged(product: float, testbed: float, *, later: int = 1, better: Better = Better.HIGHER) -> Verdict:
    """Judge a test in the newest run, after drops of the product and of the testbed."""
    rng = np.random.default_rng(1)
    quiet = NoiseOfNights(least=0.005, usual=0.005, most=0.005, common=0.002)
    values, _ = simulate(rng, traces=4, runs=HISTORY + later, noise=quiet)
    values[HISTORY:] *= 1 - testbed
    values[HISTORY:, 0] *= 1 - product
    unit = "pps"
    if better is Better.LOWER:
        values, unit = 1 / values, "us"
    test = series(values[:, 0], "ip4", hour=1, unit=unit, better=better)
    own = [series(values[:, at], f"ref{at}", hour=0, unit=unit, better=better) for at in (1, 2, 3)]
    return judge_by_reference(evaluate(test, run=test.runs[-1]), reference_trends([test, *own]))


@pytest.mark.parametrize("better", list(Better))
def test_what_the_reference_build_does_as_well_is_the_testbed(better: Better) -> None:
    verdict = judged(0.0, 0.1, better=better)

    assert Outcome.TESTBED is verdict.outcome
    assert verdict.reason.endswith("%): the testbed, not a commit")
    assert "the reference build changed as well (-" in verdict.reason


@pytest.mark.parametrize("better", list(Better))
def test_what_the_reference_build_does_not_is_the_product(better: Better) -> None:
    verdict = judged(0.1, 0.0, better=better)

    assert Outcome.REGRESSION is verdict.outcome
    assert "; the reference build did not (-" in verdict.reason


def test_larger_change_than_that_of_the_reference_build_remains_a_regression() -> None:
    verdict = judged(0.15, 0.05)

    assert Outcome.REGRESSION is verdict.outcome
    assert "the testbed, not a commit" not in verdict.reason


def test_regression_of_the_reference_build_itself_is_that_of_the_testbed() -> None:
    values = np.r_[np.full(HISTORY, 10.0) + np.tile([0.01, -0.01], HISTORY // 2), 9.0]
    own = series(values, "ref", hour=0)

    verdict = judge_by_reference(evaluate(own, run=own.runs[-1]), {})

    assert Outcome.TESTBED is verdict.outcome
    assert verdict.reason.endswith("the reference build is the same: the testbed has changed")


def test_reference_build_that_was_replaced_says_nothing() -> None:
    values = np.r_[np.full(HISTORY, 10.0) + np.tile([0.01, -0.01], HISTORY // 2), 9.0]
    own = series(values, "ref", hour=0)
    runs = tuple(
        replace(run, versions={"device": "v2" if at == HISTORY else "v1"}) for at, run in enumerate(own.runs)
    )
    replaced = replace(own, runs=runs)
    verdict = judge_by_reference(evaluate(replaced, run=runs[-1]), {})
    (trend,) = reference_trends([replaced]).values()

    assert Outcome.REGRESSION is verdict.outcome
    assert verdict.reason.endswith("the reference build was replaced")
    assert [runs[-1].started] == list(trend.moments)


def test_without_a_reference_after_the_change_nothing_is_said() -> None:
    verdict = judged(0.1, 0.0)
    own = series(np.full(HISTORY, 10.0), "ref", hour=0)
    bare = replace(verdict, reason="lower")

    assert bare is judge_by_reference(bare, reference_trends([own]))
    assert bare is judge_by_reference(bare, {})


@pytest.mark.parametrize(
    ("hours", "testbed", "outcome"),
    [
        (-1, 0.1, Outcome.TESTBED),
        (-12, 0.1, Outcome.TESTBED),
        (-1, 0.0, Outcome.REGRESSION),
        (-12, 0.0, Outcome.REGRESSION),
    ],
)
def test_reference_build_may_be_measured_at_any_time_of_the_day(
    hours: int, testbed: float, outcome: Outcome
) -> None:
    """Half a day before the product, it shows that the testbed has changed, but not that it has not."""
    rng = np.random.default_rng(1)
    values, _ = simulate(rng, traces=2, runs=HISTORY + 1, noise=NoiseOfNights(least=0.005, most=0.005))
    values[HISTORY:] *= 0.9
    values[HISTORY:, 1] /= 0.9 / (1 - testbed)
    own = series(values[:, 1], "ref", hour=0)
    runs = tuple(replace(run, started=run.started + timedelta(hours=1 + hours)) for run in own.runs)
    test = series(values[:, 0], "ip4", hour=1)

    verdict = judge_by_reference(
        evaluate(test, run=test.runs[-1]), reference_trends([replace(own, runs=runs)])
    )

    assert outcome is verdict.outcome
    assert (hours == -1 and not testbed) == ("the reference build did not" in verdict.reason)


def test_traces_of_another_unit_say_nothing() -> None:
    verdict = replace(judged(0.1, 0.0), reason="lower")
    own = series(np.full(HISTORY + 1, 10.0), "ref", hour=0, unit="us", better=Better.LOWER)

    assert "lower" == judge_by_reference(verdict, reference_trends([own])).reason


def test_earlier_analysis_knows_only_the_runs_until_then() -> None:
    own = series(np.full(HISTORY, 10.0), "ref", hour=0)
    (trend,) = reference_trends([own]).values()

    assert 10 == len(trend.until(own.runs[9].started).moments)


@pytest.mark.parametrize(
    ("testbed", "blame", "words"),
    [
        (0.02, Blame.TESTBED, "the testbed, not a commit"),
        (0.0, Blame.PRODUCT, "the reference build did not"),
    ],
)
def test_change_of_all_traces_is_explained(testbed: float, blame: Blame, words: str) -> None:
    rng = np.random.default_rng(2)
    values, _ = simulate(rng, traces=5, runs=HISTORY + 4, noise=NoiseOfNights(common=0.001))
    values[HISTORY:] *= 1 - testbed
    own = [series(values[:, at], f"ref{at}", hour=0) for at in range(5)]
    runs = series(values[:, 0], "ip4", hour=1).runs
    change = SharedChange((), (), runs[HISTORY - 1], runs[HISTORY], -0.02, -0.022, -0.018, True)
    family = replace(change, parameters=(("path", "ip4"),))

    found, other = explain_shared_changes([change, family], reference_trends(own))

    assert found.reference
    assert (blame, None) == (found.reference.blame, other.reference)
    assert words in str(found.reference)


def test_gaps_and_values_without_a_logarithm_are_left_out() -> None:
    values = np.random.default_rng(3).normal(10.0, 0.1, (HISTORY, 1))
    values[3], values[4] = np.nan, 0.0
    moments = [START + timedelta(days=night) for night in range(HISTORY)]

    trend = ReferenceTrend.of(moments, values, lower_is_better=False)
    shift = estimate_shift(moments, trend.common, moments[20], moments[21])

    assert np.isnan(trend.common[[3, 4]]).all()
    assert shift
    assert shift.interval[0] < 0 < shift.interval[1]
    assert estimate_shift(moments, trend.common, moments[5], moments[21]) is None

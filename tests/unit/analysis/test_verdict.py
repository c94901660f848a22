from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis import Criteria, Method, Significance, Vigilance, evaluate, evaluate_all
from perftrend.errors import SettingsError
from perftrend.model import (
    Better,
    Direction,
    Outcome,
    Result,
    Run,
    Samples,
    Series,
    Status,
    TraceKey,
    Verdict,
)

DATA = Path(__file__).parents[2] / "data"
REAL_CHANGES = (10, 17, 63, 72)
START = datetime(2024, 1, 1, tzinfo=UTC)
MPPS = 1e6
NAN = math.nan

STEADY = [0.312, 0.313, 0.311, 0.3125, 0.3115, 0.312, 0.3124, 0.3116]


def job_run(build: int, *, job: str = "trending") -> Run:
    started = START + timedelta(days=build)
    return Run("1n-veth", job, build, started, started + timedelta(hours=1))


def result(key: TraceKey, value: float, **fields: object) -> Result:
    plain = Result(key, "pps", Better.HIGHER, Status.PASS, (value,), value)
    return replace(plain, **fields)  # type: ignore[arg-type]


def trace(
    rates: list[float], *, better: Better = Better.HIGHER, name: str = "ip4", first: int = 1, **newest: object
) -> Series:
    """Return a series of rates in Mpps, one run a day; ``newest`` is said of the newest result."""
    key = TraceKey.of(test=name)
    results = [result(key, rate * MPPS) for rate in rates]
    samples = np.array(rates) * MPPS
    if newest:
        results[-1] = replace(results[-1], **newest)  # type: ignore[arg-type]
        samples[-1] = samples[-1] if results[-1].usable else NAN
    runs = tuple(job_run(first + index) for index in range(len(rates)))
    return Series(key, "pps", better, runs, samples, tuple(results))


def verdict(rates: list[float], *, better: Better = Better.HIGHER, **criteria: object) -> Verdict:
    series = trace(rates, better=better)
    return evaluate(series, run=series.runs[-1], criteria=Criteria(**criteria))  # type: ignore[arg-type]


def test_run_like_those_before_is_normal() -> None:
    found = verdict([*STEADY, 0.3121])

    assert Outcome.NORMAL is found.outcome
    assert "unchanged from the trend of 9 runs (0.312 Mpps)" == found.reason


def test_slower_run_is_a_regression() -> None:
    found = verdict([*STEADY, 0.234])

    assert (Outcome.REGRESSION, 1) == (found.outcome, found.runs)
    assert "25.0 % below the trend of the 8 runs before (0.312 Mpps)" == found.reason
    assert found.trend == pytest.approx(0.234 * MPPS)
    assert found.long_term_change == pytest.approx(-0.25)


def test_return_after_a_slow_run_is_a_progression_unless_bad_runs_are_separated() -> None:
    apart = verdict([*STEADY, 0.234, 0.312])
    found = verdict([*STEADY, 0.234, 0.312], outliers=False)

    assert (Outcome.NORMAL, (), [8]) == (
        apart.outcome,
        apart.changes,
        [each.position for each in apart.bad_runs],
    )

    assert Outcome.PROGRESSION is found.outcome
    assert "33.3 % above the trend of the 1 run before (0.234 Mpps)" == found.reason
    assert [Direction.REGRESSION, Direction.PROGRESSION] == [change.direction for change in found.changes]


def in_pairs(series: Series, spread: float) -> Series:
    """Return the same runs, each of two trials so far below and above its average."""
    return replace(
        series,
        results=tuple(
            replace(each, samples=(each.value * (1 - spread), each.value * (1 + spread)))
            for each in series.results
        ),
    )


def test_trials_that_differ_hide_a_small_step_of_their_averages() -> None:
    series = in_pairs(trace([*STEADY, 0.303, 0.3025, 0.3032, 0.3028]), spread=0.1)

    found = {
        trials: evaluate(series, run=series.runs[-1], criteria=Criteria(outliers=False, trials=trials))
        for trials in (False, True)
    }

    assert {False: [8], True: []} == {
        trials: [change.position for change in one.changes] for trials, one in found.items()
    }


def test_groups_of_trials_begin_and_end_with_runs() -> None:
    """The trials of each run lie on two levels, which flat samples would be cut between."""
    series = in_pairs(trace([*STEADY, 0.2, 0.2, 0.2]), spread=0.02)

    found = evaluate(series, run=series.runs[-1], criteria=Criteria(outliers=False, trials=True))

    assert [(0, 8), (8, 11)] == [(group.start, group.stop) for group in found.groups]
    assert 0.2 * MPPS == pytest.approx(found.trend)
    assert 0 == pytest.approx(found.groups[1].stdev)
    assert [(8, "ordinary")] == [(change.position, change.pattern) for change in found.changes]


def test_trials_of_a_run_that_is_not_valid_enter_no_group() -> None:
    series = in_pairs(trace([*STEADY, 0.2], invalid="no link"), spread=0.02)

    found = evaluate(series, run=series.runs[-1], criteria=Criteria(outliers=False, trials=True))

    assert (Outcome.NOT_VALID, [(0, 8)]) == (
        found.outcome,
        [(group.start, group.stop) for group in found.groups],
    )


def test_trials_and_separated_bad_runs_exclude_each_other() -> None:
    series = in_pairs(trace(STEADY), spread=0.02)

    with pytest.raises(SettingsError, match="need one value for each run"):
        evaluate(series, run=series.runs[-1], criteria=Criteria(trials=True))


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize(
    ("rate", "better", "outcome"),
    [
        (0.2, Better.HIGHER, Outcome.REGRESSION),
        (0.4, Better.HIGHER, Outcome.PROGRESSION),
        (0.2, Better.LOWER, Outcome.PROGRESSION),
        (0.4, Better.LOWER, Outcome.REGRESSION),
    ],
)
def test_what_is_better_decides_what_a_rise_is(
    method: Method, rate: float, better: Better, outcome: Outcome
) -> None:
    assert outcome is verdict([*STEADY, rate], better=better, method=method).outcome


def test_regression_is_told_once() -> None:
    slow = [0.234, 0.2345, 0.2335, 0.2342, 0.2338]
    outcomes = [verdict([*STEADY, *slow[:count]]).outcome for count in range(1, 6)]

    assert [Outcome.REGRESSION, *[Outcome.NORMAL] * 4] == outcomes


NOISY = [0.300, 0.306, 0.294, 0.303, 0.297, 0.305, 0.295, 0.301, 0.299, 0.304, 0.296, 0.300]
SLOW = [0.285, 0.288, 0.282, 0.286, 0.284, 0.287, 0.283, 0.285, 0.286, 0.284]


def test_change_that_the_partition_finds_late_is_told_then_and_once() -> None:
    blind = Vigilance(false_alarms_per_1000=1e-9)
    found = [verdict([*NOISY, *SLOW[:count]], vigilance=blind) for count in range(1, len(SLOW) + 1)]
    (told,) = [count for count, each in enumerate(found) if each.outcome is not Outcome.NORMAL]

    assert told > 0
    assert Outcome.REGRESSION is found[told].outcome
    assert (
        "4.9 % below the trend of the 12 runs before (0.3 Mpps), found late: since trending/13"
        == found[told].reason
    )


def test_small_change_is_told_once_as_soon_as_the_evidence_suffices() -> None:
    """The partition needs all of the runs to see a drop of one deviation, if they suffice."""
    generator = np.random.default_rng(11)
    rates = (0.3 * generator.normal(1, 0.01, 80)).tolist()
    rates[60:] = [rate - 0.0045 for rate in rates[60:]]
    found = [verdict(rates[:count], outliers=False) for count in range(61, 81)]
    news = [count for count, each in enumerate(found) if each.outcome is not Outcome.NORMAL]

    assert 1 == len(news)
    first = found[news[0]]
    assert Outcome.REGRESSION is first.outcome
    assert 1 == len(first.groups)
    assert "below the average of the" in first.reason
    (change,) = first.changes
    assert ("small", Direction.REGRESSION) == (change.pattern, change.direction)
    assert change.last_before is not None
    assert change.first_after is not None
    assert change.last_before < change.position <= change.first_after


def test_every_change_of_the_partition_carries_what_is_known_of_it() -> None:
    (change,) = verdict([*STEADY, 0.234, 0.2345]).changes

    assert ("ordinary", 7, 8, False) == (
        change.pattern,
        change.last_before,
        change.first_after,
        change.drift,
    )
    assert change.confidence > 0.999
    assert change.effect_size < -50


def test_newest_run_that_lies_off_is_suspected_and_normal() -> None:
    """Three deviations below: too little to be told, too much to say nothing."""
    rates = (0.3 * np.random.default_rng(5).normal(1, 0.01, 60)).tolist()
    found = verdict([*rates, 0.2905])

    assert Outcome.NORMAL is found.outcome
    assert found.suspected is not None
    assert (60, Direction.REGRESSION) == (found.suspected.position, found.suspected.direction)
    assert found.reason.endswith("; suspected: the next runs decide")


@pytest.mark.parametrize(
    ("bad", "slow", "expected"),
    [
        (0.249, 0.125, ["normal", "regression", "normal"]),
        (0.125, 0.125, ["normal", "normal", "regression"]),
        (0.374, 0.125, ["normal", "regression", "normal"]),
    ],
    ids=["a smaller one", "one as far off", "one on the other side"],
)
def test_slow_runs_are_a_regression_although_one_was_bad_before(
    bad: float, slow: float, expected: list[str]
) -> None:
    """After one so far off, two in a row may be bad by chance, three may not; a smaller one says nothing."""
    rates = [*STEADY[:3], bad, *STEADY[3:], *STEADY, slow, slow * 1.005, slow * 0.995]
    found = [verdict(rates[: last + 1]).outcome.value for last in range(len(rates) - 3, len(rates))]

    assert expected == found


def test_where_bad_runs_are_told_apart_the_next_runs_decide_about_a_bad_one() -> None:
    rates = (0.3 * np.random.default_rng(6).normal(1, 0.005, 60)).tolist()
    rates[20] = rates[41] = 0.25
    outcomes = [verdict([*rates, *[0.25] * count], outliers=True).outcome for count in (1, 2, 3, 4)]

    assert Outcome.NORMAL is outcomes[0]
    assert 1 == outcomes.count(Outcome.REGRESSION)
    assert 1 == len(verdict([*rates, 0.25, 0.3, 0.3], outliers=True).groups)


@pytest.mark.parametrize("seed", [0, 19, 54, 131, 234])
def test_bad_run_does_not_confirm_a_small_change_of_the_runs_before(seed: int) -> None:
    """The newest eleven runs are 0.7 % lower. A single run was bad long before, so another one may be."""
    rates = np.random.default_rng(seed).normal(20.92, 0.14, 100)
    rates[40], rates[-11:] = 14.7, rates[-11:] - 0.15
    bad = verdict([*rates.tolist(), 18.24])
    after = verdict([*rates.tolist(), 18.24, 20.9])

    assert [Outcome.NORMAL] * 2 == [bad.outcome, after.outcome]
    assert "may be an outlier: the next runs decide" in bad.reason


@pytest.mark.parametrize("seed", range(5))
def test_two_bad_runs_in_a_row_are_no_small_change(seed: int) -> None:
    """Every tenth run or so is 6 % lower, so two in a row are a matter of time. Four of them are a level."""
    rates = np.random.default_rng(seed).normal(10.0, 0.1, 120)
    rates[[5, 17, 22, 34, 47, 58, 63, 79, 91, 104, 113]] -= 0.6
    newest = [9.4, 9.35, 9.38, 9.42]

    two, four = (verdict([*rates.tolist(), *newest[:count]]) for count in (2, 4))

    assert [Outcome.NORMAL, Outcome.REGRESSION] == [two.outcome, four.outcome]
    assert "may be an outlier: the next runs decide" in two.reason


def test_slow_drift_is_called_so() -> None:
    """A fifth of a deviation a run, since run 45; a step of the same size is none."""
    noise = np.random.default_rng(7).normal(0, 0.003, 70)
    drift = np.concatenate([np.zeros(45), 0.0006 * np.arange(1, 26)])
    step = np.concatenate([np.zeros(45), np.full(25, 0.0078)])

    def called_drift(course: Samples) -> bool:
        rates = (0.3 - course + noise).tolist()
        return any(change.drift for size in range(46, 71, 4) for change in verdict(rates[:size]).changes)

    assert called_drift(drift)
    assert not called_drift(step)


def test_change_that_was_told_and_is_gone_is_shown_as_vanished() -> None:
    """A run of 97.5 stands out; with the next one, at 99.5, it makes no group of its own."""
    steady = [100.0, 100.4, 99.6, 100.2, 99.8, 100.1, 99.9, 100.0, 100.3, 99.7]
    told, later = verdict([*steady, 97.5]), verdict([*steady, 97.5, 99.5])

    assert (Outcome.REGRESSION, ()) == (told.outcome, told.vanished)
    assert (Outcome.NORMAL, ()) == (later.outcome, later.changes)
    assert [(10, "vanished")] == [(change.position, change.pattern) for change in later.vanished]


def test_first_run_has_nothing_to_be_compared_with() -> None:
    for method in Method:
        found = verdict([0.3], method=method)

        assert (Outcome.NORMAL, "the first run: nothing to compare with yet") == (found.outcome, found.reason)


def test_second_run_is_doubted_unless_the_step_is_obvious() -> None:
    doubted = verdict([0.300, 0.270])

    assert Outcome.NORMAL is doubted.outcome
    assert (
        "10.0 % below the trend of the 1 run before (0.3 Mpps), too few runs to distinguish it from noise"
        == doubted.reason
    )
    assert 1 == len(doubted.changes)
    assert Outcome.REGRESSION is verdict([0.300, 0.150]).outcome


def test_small_change_is_shown_but_normal() -> None:
    found = verdict([0.3] * 20 + [0.2985])

    assert (Outcome.NORMAL, 1) == (found.outcome, len(found.changes))
    assert (
        "0.5 % below the trend of the 20 runs before (0.3 Mpps), less than the 1 % that counts"
        == found.reason
    )
    sharp = verdict([0.3] * 20 + [0.2985], significance=Significance(minimum_change=0.001))
    assert Outcome.REGRESSION is sharp.outcome


@pytest.mark.parametrize("noise", [0.01, 0.02, 0.03])
@pytest.mark.parametrize("size", [2, 3, 5, 9, 30])
def test_pure_noise_is_almost_never_told(noise: float, size: int, *, thorough: bool) -> None:
    """Seeded: by description length alone up to 300 of 1,000 would be told."""
    generator = np.random.default_rng(17)
    # A verdict repeats all analyses since the first run, so long series take the most time.
    rates = 0.3 * generator.normal(1.0, noise, (250 if thorough else min(40, 400 // size), size))
    alarms = [row for row in rates if verdict(row.tolist()).outcome is not Outcome.NORMAL]

    assert len(alarms) <= len(rates) // 250


def test_three_sigma_compares_with_the_range_of_the_window() -> None:
    """The eight runs before: average 0.312, deviation 0.000627; three of them reach to 0.3139."""
    inside = verdict([*STEADY, 0.3138], method="three-sigma")
    above = verdict([*STEADY, 0.3140], method="three-sigma")

    assert (Outcome.NORMAL, Outcome.PROGRESSION) == (inside.outcome, above.outcome)
    assert (
        "0.6 % above the trimmed average of the 8 runs before (0.312 Mpps), outside its range of 3 sigma, "
        "0.3101 Mpps to 0.3139 Mpps" == above.reason
    )
    assert [8] == [change.position for change in above.changes]


def test_three_sigma_says_nothing_of_three_runs() -> None:
    found = verdict([0.3, 0.3, 0.3, 0.1], method="three-sigma")

    assert (Outcome.NORMAL, ()) == (found.outcome, found.changes)
    assert "only 3 runs before: three sigma needs 4" == found.reason


def test_three_sigma_finds_equal_runs_normal() -> None:
    assert Outcome.NORMAL is verdict([0.1] * 10, method="three-sigma").outcome


@pytest.mark.parametrize(
    ("newest", "outcome", "reason"),
    [
        ({"status": Status.FAIL, "message": "no link on port 1"}, Outcome.FAILED, "no link on port 1"),
        ({"status": Status.FAIL}, Outcome.FAILED, "the test failed without a message"),
        ({"invalid": "generator below 95 %"}, Outcome.NOT_VALID, "generator below 95 %"),
        ({"value": NAN}, Outcome.NOT_VALID, "the run has no value that may enter the trend"),
        ({"status": Status.SKIP, "message": "no peer"}, Outcome.MISSING, "skipped: no peer"),
    ],
)
def test_run_without_a_value_says_why_and_keeps_the_trend(
    newest: dict[str, object], outcome: Outcome, reason: str
) -> None:
    series = trace([*STEADY, 0.1], **newest)
    found = evaluate(series, run=series.runs[-1])

    assert (outcome, reason, 8) == (found.outcome, found.reason, found.runs)
    assert found.trend == pytest.approx(0.312 * MPPS)
    assert 9 == found.moving_median.size


def test_gap_between_two_runs_changes_nothing() -> None:
    assert Outcome.REGRESSION is verdict([*STEADY, NAN, NAN, 0.234]).outcome
    assert Outcome.NORMAL is verdict([*STEADY, 0.234, NAN, 0.2342]).outcome


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("rates", [[0.0] * 6, [-0.3] * 6, [NAN] * 5 + [0.3]])
def test_strange_but_steady_series_are_normal(method: Method, rates: list[float]) -> None:
    assert Outcome.NORMAL is verdict(rates, method=method).outcome


def test_drop_to_zero_and_back_is_told() -> None:
    assert Outcome.REGRESSION is verdict([*STEADY, 0.0]).outcome
    back = verdict([*STEADY, 0.0, 0.312], outliers=False)
    assert (Outcome.PROGRESSION, "above the trend of the 1 run before (0 Mpps)") == (
        back.outcome,
        back.reason,
    )


@given(
    st.lists(
        st.one_of(st.floats(allow_nan=False, allow_infinity=False, width=32), st.just(NAN)),
        min_size=1,
        max_size=24,
    ),
    st.sampled_from(list(Method)),
    st.sampled_from(list(Better)),
    st.booleans(),
)
def test_every_series_has_a_verdict(
    rates: list[float], method: Method, better: Better, outliers: bool
) -> None:
    found = verdict(rates, better=better, method=method, outliers=outliers)

    assert found.reason
    assert (Outcome.NOT_VALID is found.outcome) == math.isnan(rates[-1])


def test_run_evaluates_what_it_has_and_names_what_it_lacks() -> None:
    present = trace([0.3, 0.3, 0.3])
    gone = trace([0.2, 0.2], name="l2")
    retired = trace([0.4], name="old")
    verdicts = evaluate_all([present, gone, retired], run=job_run(3))

    assert [(present, Outcome.NORMAL), (gone, Outcome.MISSING)] == [
        (each.series, each.outcome) for each in verdicts
    ]
    assert "no result in trending/3, though the test was expected" == verdicts[1].reason
    assert verdicts[1].trend == pytest.approx(0.2 * MPPS)


def test_cycles_of_a_node_that_the_device_no_longer_has_are_not_missing() -> None:
    rate = trace([0.3, 0.3, 0.3])
    gone = replace(trace([30.0, 30.0]), key=TraceKey.of(test="ip4", metric="cycles_ip4-lookup"))

    assert [rate] == [each.series for each in evaluate_all([rate, gone], run=job_run(3))]


def test_listed_traces_are_expected_instead_of_those_of_the_previous_run() -> None:
    present = trace([0.3, 0.3, 0.3])
    unselected = trace([0.2, 0.2], name="l2")
    never = TraceKey.of(test="never")
    verdicts = evaluate_all([present, unselected], run=job_run(3), expected={present.key, never})

    assert [(present.key, Outcome.NORMAL), (never, Outcome.MISSING)] == [
        (each.series.key, each.outcome) for each in verdicts
    ]
    assert () == verdicts[1].groups


def test_threshold_of_a_trace_decides_for_it_alone() -> None:
    usual, tolerant = trace([*STEADY, 0.29]), trace([*STEADY, 0.29], name="l2")
    verdicts = evaluate_all([usual, tolerant], run=job_run(9), minimum_changes={tolerant.key: 0.1})

    assert [Outcome.REGRESSION, Outcome.NORMAL] == [each.outcome for each in verdicts]
    assert verdicts[1].reason.endswith("less than the 10 % that counts")
    assert [8] == [change.position for change in verdicts[1].changes]


def test_another_job_on_the_testbed_expects_nothing_of_this_one() -> None:
    nightly = trace([0.3, 0.3])
    weekly = replace(trace([0.2], name="weekly", first=2), runs=(job_run(2, job="weekly"),))

    assert [nightly.key] == [
        each.series.key
        for each in evaluate_all([replace(nightly, runs=(job_run(1), job_run(3))), weekly], run=job_run(3))
    ]


@pytest.mark.parametrize(
    ("outliers", "told"), [(False, (10, 11, 15, 61, 71)), (True, REAL_CHANGES)], ids=["plain", "default"]
)
def test_real_series_tells_its_changes_when_they_happen(outliers: bool, told: tuple[int, ...]) -> None:
    """Throughput of a database, night after night: a bad one (10) and the return.

    Then the drop by an eighth (15), the rise by three percent (61) and the one by a sixth (71).
    """
    data = json.loads((DATA / "tigerbeetle_throughput.json").read_text())
    rates = [value / MPPS for _, value in data["samples"][:90]]
    outcomes = [verdict(rates[: last + 1], outliers=outliers).outcome for last in range(90)]

    assert told == tuple(last for last, outcome in enumerate(outcomes) if outcome is not Outcome.NORMAL)


@pytest.mark.parametrize(
    ("criteria", "message"),
    [
        (
            {"method": "three-sigmas"},
            "no method of analysis is named 'three-sigmas'; did you mean 'three-sigma'",
        ),
        ({"window": 3}, "window is 3; give at least 4"),
        ({"week_runs": 0}, "week_runs is 0; give at least 1"),
        ({"new_runs": 0}, "new_runs is 0; give at least 1"),
        ({"formula": "mdl"}, "no description length formula is named 'mdl'"),
    ],
)
def test_criterion_without_meaning_is_refused(criteria: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Criteria(**criteria)  # type: ignore[arg-type]

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from perftrend.analysis import WEEK_RUNS_ONE_TESTBED, Compliance, Partition, compliance
from perftrend.analysis.compliance import compliance_of, series_known_at
from perftrend.errors import SettingsError
from perftrend.model import Better, Group, Run, Series, TraceKey

START = datetime(2024, 1, 1, tzinfo=UTC)
NAN = math.nan


def standing(
    levels: list[tuple[float, int]],
    *,
    better: Better = Better.HIGHER,
    days: float = 1.0,
    week_runs: int = 10,
) -> Compliance:
    """Return the metrics of groups given as (trend, runs), one run every so many days."""
    groups, position = [], 0
    for mean, size in levels:
        groups.append(Group(position, position + size, mean, 0.0, 0.0))
        position += size
    samples = np.repeat([mean for mean, _ in levels], [size for _, size in levels])
    times = [START + timedelta(days=days * index) for index in range(position)]
    return compliance(Partition(tuple(groups), 0.0), samples, times=times, better=better, week_runs=week_runs)


def test_last_trend_and_runs_are_those_of_the_last_group() -> None:
    found = standing([(100.0, 20), (90.0, 7)])

    assert (90.0, 7) == (found.trend, found.runs)


def test_progression_within_the_last_week_is_a_positive_change() -> None:
    """Reference: the trend of 10 runs ago, 100; (110 - 100) / 100."""
    assert standing([(100.0, 20), (110.0, 5)]).long_term_change == pytest.approx(0.10)


def test_progression_to_less_than_there_was_before_is_a_negative_change() -> None:
    """Reference: the best trend of three months, 120; (108 - 120) / 120."""
    assert standing([(120.0, 20), (90.0, 20), (108.0, 3)]).long_term_change == pytest.approx(-0.10)


@pytest.mark.parametrize(("runs", "change"), [(10, 0.10), (11, 0.0)])
def test_week_ago_is_the_tenth_run_before_the_last(runs: int, change: float) -> None:
    """With 10 runs in the last group, the run 10 before the last is the last of the old group."""
    assert standing([(100.0, 20), (110.0, runs)]).long_term_change == pytest.approx(change)


@pytest.mark.parametrize(("runs", "change"), [(5, 0.10), (6, 0.0)])
def test_week_of_one_testbed_has_five_runs(runs: int, change: float) -> None:
    found = standing([(100.0, 20), (110.0, runs)], week_runs=WEEK_RUNS_ONE_TESTBED)

    assert found.long_term_change == pytest.approx(change)


@pytest.mark.parametrize(("runs", "change"), [(180, -0.5), (181, 0.0)])
def test_three_months_are_no_more_than_180_runs(runs: int, change: float) -> None:
    """Two runs a day: 180 runs ago comes before 180 days ago."""
    assert standing([(200.0, 50), (100.0, runs)], days=0.5).long_term_change == pytest.approx(change)


@pytest.mark.parametrize(("runs", "change"), [(90, -0.5), (91, 0.0)])
def test_three_months_are_no_more_than_180_days(runs: int, change: float) -> None:
    """A run every two days: 180 days ago is 90 runs ago."""
    assert standing([(200.0, 50), (100.0, runs)], days=2.0).long_term_change == pytest.approx(change)


def test_where_180_days_have_fewer_runs_than_a_week_the_week_is_taken() -> None:
    """One run a month: 180 days ago is 6 runs ago, but a week ago is 10 runs ago, at 80."""
    found = standing([(500.0, 5), (80.0, 5), (90.0, 8)], days=30.0)

    assert found.long_term_change == pytest.approx(0.125)


def test_short_history_is_compared_with_its_earliest_trend() -> None:
    assert standing([(100.0, 2), (300.0, 2), (150.0, 2)]).long_term_change == pytest.approx(0.5)


def test_lower_is_better_compares_with_the_lowest_trend() -> None:
    found = standing([(10.0, 20), (30.0, 20), (15.0, 3)], better=Better.LOWER)

    assert found.long_term_change == pytest.approx(0.5)


def test_one_sample_has_a_trend_and_no_change() -> None:
    assert Compliance(7.0, 1, 0.0) == standing([(7.0, 1)])


def test_runs_without_a_value_are_not_counted() -> None:
    """The ten runs before the last are samples: the empty positions do not shorten the week."""
    samples = np.array([100.0] * 20 + [110.0, NAN] * 5)
    found = Partition((Group(0, 20, 100.0, 0, 0), Group(20, 29, 110.0, 0, 0)), 0.0)
    times = [START + timedelta(days=index) for index in range(30)]
    result = compliance(found, samples, times=times, better=Better.HIGHER)

    assert 5 == result.runs
    assert result.long_term_change == pytest.approx(0.10)


def test_reference_of_zero_gives_no_change() -> None:
    assert math.isnan(standing([(0.0, 20), (5.0, 3)]).long_term_change)


def test_no_sample_has_no_metrics() -> None:
    found = compliance(Partition((), 0.0), np.array([NAN]), times=[START], better=Better.HIGHER)

    assert (0, True, True) == (found.runs, math.isnan(found.trend), math.isnan(found.long_term_change))


def series_of(values: list[float]) -> Series:
    """Return a trace with one run a day, each of one hour."""
    runs = tuple(
        Run(
            "1n-test", "nightly", build, START + timedelta(days=build), START + timedelta(days=build, hours=1)
        )
        for build in range(len(values))
    )
    return Series(TraceKey.of(test="t"), "pps", Better.HIGHER, runs, np.array(values))


def test_analysis_time_forgets_what_came_later() -> None:
    """On day 22 nobody knew of the progression of day 25, nor that day 20 began a regression."""
    series = series_of([100.0, 101.0, 99.0, 100.0] * 5 + [50.0] * 5 + [120.0, 121.0, 119.0] * 5)

    then = compliance_of(series, as_of=START + timedelta(days=22, hours=2))
    now = compliance_of(series)

    assert (pytest.approx(50.0), 3) == (then.trend, then.runs)
    assert (pytest.approx(120.0), 15) == (now.trend, now.runs)
    assert then.long_term_change == pytest.approx(-0.5)


def test_run_is_known_when_it_has_finished() -> None:
    series = series_of([1.0, 2.0, 3.0])

    assert 2 == len(series_known_at(series, START + timedelta(days=2, minutes=59)).runs)
    assert [1.0, 2.0, 3.0] == series_known_at(series, START + timedelta(days=2, hours=1)).samples.tolist()
    assert not series_known_at(series, START).runs


def test_before_the_first_run_there_is_no_standing() -> None:
    found = compliance_of(series_of([1.0]), as_of=START - timedelta(days=1))

    assert math.isnan(found.trend)


def test_analysis_time_without_a_time_zone_is_refused() -> None:
    with pytest.raises(SettingsError, match="2024-01-09T00:00:00 has no time zone; write"):
        series_known_at(series_of([1.0]), datetime(2024, 1, 9))  # noqa: DTZ001

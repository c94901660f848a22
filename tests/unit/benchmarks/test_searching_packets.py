"""The benchmark of searches on a testbed: its figures by hand, and the whole of it on the simulated one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.search.methods import MLRSEARCH
from benchmarks.searching_packets import __main__ as command
from benchmarks.searching_packets.figures import Spread, spread, summary
from benchmarks.searching_packets.pairs import OURS, Searched, nightly_parameters, searches
from perftrend.measure import lock, specification
from perftrend.measure.testbed import Testbed
from perftrend.measurement import Interval, Trial

CALM = {"critical_pps": "8e6", "jitter": "0"}


@pytest.fixture(autouse=True)
def _lock_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(lock.HELD, "simulated")


def searched(pair: int, method: str, **changed: object) -> Searched:
    plain = Searched(
        pair=pair,
        method=method,
        trials_s=10.0,
        wall_s=12.0,
        trials=5,
        repeated=0,
        untrusted=0,
        intervals=(Interval(99.0, 100.0), Interval(109.0, 110.0)),
        passed_again=(True, True),
        flooded_pps=120.0,
    )
    return replace(plain, **changed)  # type: ignore[arg-type]


def test_spread_by_hand() -> None:
    """Deviations of -2, 0 and 2 of 100: a variance of 8 / 2."""
    found = spread([102.0, 98.0, 100.0])

    assert (3, 100.0) == (found.rates, found.median_pps)
    assert (pytest.approx(0.02), pytest.approx(0.04)) == (found.stdev, found.span)


@pytest.mark.parametrize(("rates", "median_pps"), [([], None), ([5.0], 5.0)])
def test_too_few_rates_have_no_spread(rates: list[float], median_pps: float | None) -> None:
    assert Spread(len(rates), median_pps, None, None) == spread(rates)


def test_times_are_compared_within_each_pair() -> None:
    """Ratios of 1/2, 1 and 2; those of the medians would be 4/4."""
    times = [(2.0, 4.0), (4.0, 4.0), (8.0, 4.0)]
    found = [
        searched(pair, method, trials_s=seconds)
        for pair, of in enumerate(times)
        for method, seconds in sorted(zip((OURS, MLRSEARCH), of, strict=True), reverse=bool(pair % 2))
    ]
    ratio = summary(found).ratios["trials_s"]

    assert (1.0, 0.5, 2.0) == (ratio.median, ratio.lowest, ratio.highest)


def test_what_is_not_known_enters_no_figure() -> None:
    none = Interval(5.0, 100.0, "loss at the minimum rate")
    found = [
        searched(1, OURS),
        searched(1, MLRSEARCH, flooded_pps=None),
        searched(2, OURS, intervals=(none, Interval(105.0, 106.0)), passed_again=(None, False)),
        searched(2, MLRSEARCH, passed_again=(None, None)),
    ]
    whole = summary(found)

    assert Spread(1, 99.0, None, None) == whole.methods[OURS].lower["ndr"]
    assert 107.0 == whole.methods[OURS].lower["pdr"].median_pps
    assert {"ndr": 1.0, "pdr": 0.5} == whole.methods[OURS].passed_again
    assert 1.0 == whole.methods[MLRSEARCH].passed_again["ndr"]
    assert 3 == whole.noise.rates
    assert summary(found[2:]).methods[MLRSEARCH].passed_again["ndr"] is None


def test_both_search_the_same_device_and_take_turns_in_going_first() -> None:
    with Testbed(specification.load("simulated"), device_options=CALM) as testbed:
        found = list(searches(testbed, pairs=2, frame="64B", device_options={"acl_rules": "0"}))

    assert [(1, OURS), (1, MLRSEARCH), (2, MLRSEARCH), (2, OURS)] == [
        (each.pair, each.method) for each in found
    ]
    for each in found:
        assert all(
            of.lower <= rate <= of.upper for of, rate in zip(each.intervals, (8e6, 8e6 / 0.995), strict=True)
        )
        assert (True, True) == each.passed_again
        assert (0, 0) == (each.repeated, each.untrusted)
        assert pytest.approx(8e6) == each.flooded_pps


def test_what_the_nightly_tests_look_for() -> None:
    with Testbed(specification.load("simulated")) as testbed:
        testbed.start_device({})
        testbed.use("1518B")
        parameters = nightly_parameters(testbed)

    assert pytest.approx(2 * 10e9 / 8 / 1538) == parameters.maximum_pps
    assert (20e3, 1.0, 30.0) == (
        parameters.minimum_pps, parameters.initial_duration_s, parameters.final_duration_s,
    )  # fmt: skip


def test_trials_that_cannot_be_trusted_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each trial comes out well the second time, but never at the highest rate."""
    with Testbed(specification.load("simulated"), attempts=2, device_options=CALM) as testbed:
        trial = testbed.generator.trial
        turn = iter(range(10**6))

        def every_other(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
            made = trial(rate_pps, duration_s, fail_above)
            flooded = rate_pps == testbed.maximum_pps
            return replace(made, invalid="too slow" if flooded or next(turn) % 2 == 0 else "")

        monkeypatch.setattr(testbed.generator, "trial", every_other)
        monkeypatch.setattr("perftrend.measure.trial_validity._PAUSE_S", 0.0)
        ours, peer = searches(testbed, pairs=1, frame="64B", device_options={})

    for each in (ours, peer):
        assert each.flooded_pps is None
        assert each.trials == each.repeated
        # Each search begins by a trial at the highest rate.
        assert 1 == each.untrusted


def test_table_tells_every_search_and_both_methods(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == command.main(["--testbed", "simulated", "--searches", "1"])

    printed = capsys.readouterr().out
    assert "simulated True" in printed.splitlines()[0]
    assert 2 == printed.count("pair  1")
    assert f"relative to {MLRSEARCH}: median " in printed
    assert "the testbed alone" in printed


def test_json_is_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == command.main(["--testbed", "simulated", "--searches", "2", "--json"])

    about, *rows, whole = map(json.loads, capsys.readouterr().out.splitlines())
    assert ("simulated", True, "20") == (about["testbed"], about["simulated"], about["acl_rules"])
    assert [1, 1, 2, 2] == [row["pair"] for row in rows]
    assert {OURS, MLRSEARCH} == whole["methods"].keys()
    assert 4 == whole["noise"]["rates"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (["--searches", "0"], "--searches is 0; give at least 1"),
        (["--frame", "64"], "'64' is unknown; did you mean '64B'"),
        (["--acl-rules", "-1"], "acl_rules='-1'"),
        (["--testbed", "simulatd"], "'simulatd' is unknown; did you mean 'simulated'"),
    ],
)
def test_wrong_option_is_refused_by_name(
    wrong: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 2 == command.main(["--testbed", "simulated", *wrong])
    assert told in capsys.readouterr().err

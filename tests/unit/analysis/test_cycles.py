"""The parts of a device that explain why a test became slower."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from perftrend.analysis import evaluate
from perftrend.analysis.cycles import explain_by_cycles
from perftrend.model import Better, Outcome, Result, Run, Samples, Series, Status, TraceKey, Verdict

START = datetime(2026, 3, 1, 2, tzinfo=UTC)
NIGHTS = 30
USUAL = {"dpdk-input": 62.0, "ip4-lookup": 30.0, "ip4-rewrite": 28.0}


def series(metric: str, values: Samples) -> Series:
    key = TraceKey.of(testbed="2n-clx", test="64b-1c-ip4-ndrpdr", metric=metric)
    unit, better = ("pps", Better.HIGHER) if metric == "ndr" else ("cycles", Better.LOWER)
    moments = [START + timedelta(days=night) for night in range(values.size)]
    present = np.flatnonzero(np.isfinite(values))
    runs = tuple(Run("2n-clx", "nightly", at + 1, moments[at], moments[at]) for at in present)
    results = tuple(Result(key, unit, better, Status.PASS, value=float(values[at])) for at in present)
    return Series(key, unit, better, runs, values[present], results)


def judged(**later: float) -> dict[str, Verdict]:
    """Judge the newest run, in which parts take other numbers of cycles; the rate follows from their sum."""
    rng = np.random.default_rng(4)
    cycles = {}
    for name in dict.fromkeys([*USUAL, *later]):
        values = np.r_[np.full(NIGHTS, USUAL.get(name, np.nan)), later.get(name, USUAL.get(name, np.nan))]
        cycles[name] = values * rng.normal(1.0, 0.005, NIGHTS + 1)
    rate = 3e9 / np.nansum(list(cycles.values()), axis=0) * rng.normal(1.0, 0.005, NIGHTS + 1)
    known = [series("ndr", rate), *(series(f"cycles_{name}", values) for name, values in cycles.items())]
    verdicts = [evaluate(each, run=known[0].runs[-1]) for each in known]
    return {verdict.series.key["metric"]: verdict for verdict in explain_by_cycles(verdicts, known)}


def test_part_that_takes_more_cycles_explains_the_regression() -> None:
    verdict = judged(**{"ip4-lookup": 68.0})["ndr"]

    assert Outcome.REGRESSION is verdict.outcome
    assert re.search(
        r"; ip4-lookup takes 3[78]\.?\d* more cycles per packet \(.* to .*\d( %|, \d+% of the increase)?\)$",
        verdict.reason,
    ), verdict.reason
    assert "dpdk-input" not in verdict.reason


def test_part_that_is_new_took_no_cycles_before() -> None:
    verdict = judged(**{"acl-plugin-in": 40.0})["ndr"]

    assert "; acl-plugin-in takes 4" in verdict.reason
    assert "ip4-lookup" not in verdict.reason


def test_parts_that_share_the_increase_are_named_in_its_order() -> None:
    reason = judged(**{"ip4-lookup": 80.0, "ip4-rewrite": 58.0})["ndr"].reason

    assert 0 < reason.index("ip4-lookup takes") < reason.index("ip4-rewrite takes")
    assert re.search(r"ip4-lookup takes .*6\d% of the increase", reason)


def test_cycles_that_have_only_moved_are_no_regression() -> None:
    verdicts = judged(**{"ip4-lookup": 10.0, "ip4-rewrite": 48.0})

    assert {Outcome.NORMAL} == {verdict.outcome for verdict in verdicts.values()}
    assert "they have only moved" in verdicts["cycles_ip4-rewrite"].reason


def test_part_that_really_takes_more_cycles_is_a_regression_itself() -> None:
    verdicts = judged(**{"ip4-rewrite": 48.0})

    assert Outcome.REGRESSION is verdicts["cycles_ip4-rewrite"].outcome
    assert Outcome.NORMAL is verdicts["cycles_ip4-lookup"].outcome


def test_regression_without_cycles_is_as_it_was() -> None:
    verdict = judged(**{"ip4-lookup": 68.0})["ndr"]
    bare = replace(verdict, reason="lower")

    assert (bare,) == explain_by_cycles([bare], [bare.series])
    assert "lower" == explain_by_cycles([replace(bare, outcome=Outcome.TESTBED)], [bare.series])[0].reason

"""The analysis job on a store made by hand: what it looks at, what it says, what it refuses."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store

START = datetime(2026, 3, 1, 2, tzinfo=UTC)
STEADY = [10.0, 10.01, 9.99, 10.02, 9.98, 10.0, 10.01, 9.99, 10.0, 10.01, 9.99, 10.0]
DROPPED = [*STEADY, 9.0, 9.01, 8.99]


def night(build: int) -> Run:
    started = START + timedelta(days=build)
    return Run("simulated", "trending", build, started, started + timedelta(hours=1), simulated=True)


def measured(**traces: Sequence[float]) -> None:
    """Put runs into the store, one a night: the traces' values in Mpps, NaN for a failed test."""
    with Store.open("perftrend.sqlite") as store:
        for build in range(1, max(map(len, traces.values())) + 1):
            rates = {name: values[build - 1] for name, values in traces.items() if build <= len(values)}
            store.add(night(build), [result(name, rate) for name, rate in rates.items()])


def result(name: str, rate: float) -> Result:
    key = TraceKey.of(testbed="simulated", test=f"64b-1c-{name}-mrr", suite=name, metric="mrr", frame="64B")
    if math.isnan(rate):
        return Result(key, "pps", Better.HIGHER, Status.FAIL, message="no link")
    return Result(key, "pps", Better.HIGHER, Status.PASS, (rate * 1e6,), rate * 1e6)


def specified(text: str) -> tuple[str, str]:
    Path("watched.yaml").write_text(text)
    return "--specification", "watched.yaml"


def test_newest_drop_fails_the_job_and_carries_its_certainty(bench: Any) -> None:
    measured(ip4=DROPPED[:13], l2=STEADY[:12])

    assert 1 == bench.analysis().exit_code
    (change,) = bench.report()["tests"][0]["changes"]
    assert (12, "regression", "ordinary") == (change["position"], change["direction"], change["pattern"])
    assert (11, 12) == (change["last_before"], change["first_after"])
    assert change["confidence"] > 0.999
    assert change["effect_size"] < -50


def test_change_of_three_nights_ago_is_news_no_more(bench: Any) -> None:
    measured(ip4=DROPPED)

    assert 0 == bench.analysis().exit_code


def test_as_of_says_what_was_known_on_that_day(bench: Any) -> None:
    """Run 13, the drop, was measured in the night to 14 March."""
    measured(ip4=DROPPED)

    ended = bench.analysis("--as-of", "2026-03-14")

    assert 1 == ended.exit_code
    assert 13 == bench.report()["run"]["build"]
    assert 13 == len(bench.report()["tests"][0]["values"])
    assert ["as of 2026-03-14 23:59 UTC: what was known then"] == bench.report()["notices"]


@pytest.mark.parametrize(
    ("moment", "build"),
    [
        ("2026-03-14T02:30", 12),
        ("2026-03-14T03:00Z", 13),
        ("2026-03-14T03:30+01:00", 12),
        ("2026-03-13", 12),
        ("2030-01-01", 15),
    ],
)
def test_run_is_known_when_it_has_finished(moment: str, build: int, bench: Any) -> None:
    measured(ip4=DROPPED)
    bench.analysis("--as-of", moment)

    assert build == bench.report()["run"]["build"]


def test_threshold_of_a_test_decides_for_it_alone(bench: Any) -> None:
    measured(ip4=DROPPED[:13], acl=DROPPED[:13])

    ended = bench.analysis(*specified("tests: [{names: '*-acl-*', minimum_change: 0.2}, {}]"))

    assert 1 == ended.exit_code
    assert {"64b-1c-ip4-mrr": "regression", "64b-1c-acl-mrr": "normal"} == bench.outcomes()
    (tolerant,) = [test for test in bench.report()["tests"] if test["outcome"] == "normal"]
    assert tolerant["reason"].endswith("less than the 20 % that counts")
    assert [12] == [change["position"] for change in tolerant["changes"]]


def test_what_is_not_listed_is_not_analysed(bench: Any) -> None:
    measured(ip4=[*STEADY, math.nan], l2=DROPPED[:13], acl=[*STEADY, 10.0])

    ended = bench.analysis(*specified("tests: [{names: '*-acl-*', owners: acl team, mail: acl@example.org}]"))

    assert (0, "") == (ended.exit_code, ended.err)
    (test,) = bench.report()["tests"]
    assert (["acl team"], ["acl@example.org"]) == (test["owners"], test["mail"])


def test_listed_test_that_the_newest_run_lacks_is_missing(bench: Any) -> None:
    measured(ip4=[*STEADY, 10.0], l2=STEADY)

    assert 4 == bench.analysis(*specified("tests: [{names: '*-l2-*'}]")).exit_code
    assert {"64b-1c-l2-mrr": "missing"} == bench.outcomes()


def test_entry_that_fits_nothing_is_named_in_the_report(bench: Any) -> None:
    measured(ip4=STEADY)

    assert 0 == bench.analysis(*specified("tests: [{}, {names: '*-ip6-*'}]")).exit_code
    assert ["specification watched.yaml: entry 2 fits no test of testbed simulated"] == bench.report()[
        "notices"
    ]


def test_json_goes_to_standard_output_alone(bench: Any) -> None:
    measured(ip4=STEADY)

    written = json.loads(bench.analysis("--json", "-").out)

    assert bench.report() == written


def test_json_goes_to_a_file_too(bench: Any) -> None:
    measured(ip4=STEADY)

    assert "1 normal of 1 test" in bench.analysis("--json", "out.json").out
    assert bench.report() == json.loads(Path("out.json").read_text())


@pytest.mark.parametrize(
    ("options", "method"),
    [
        ([], "groups of minimum description length (jumpavg-0.4)"),
        (["--formula", "jumpavg-0.1"], "groups of minimum description length (jumpavg-0.1)"),
        (["--outliers"], "groups of minimum description length (jumpavg-0.4, outliers told apart)"),
        (["--method", "three-sigma"], "three-sigma rule"),
    ],
)
def test_report_names_the_method(options: list[str], method: str, bench: Any) -> None:
    measured(ip4=STEADY)
    bench.analysis(*options)

    assert method == bench.report()["method"]


def test_bad_runs_told_apart_make_no_groups(bench: Any) -> None:
    measured(ip4=[*STEADY, 7.0, *STEADY, 10.0])
    groups = {}
    for options in ((), ("--outliers",)):
        bench.analysis(*options)
        groups[options] = len(bench.report()["tests"][0]["groups"])

    assert {(): 3, ("--outliers",): 1} == groups


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--as-of", "Tuesday"], "'Tuesday' is no date: write 2026-03-02"),
        (["--as-of", "2026-02-30"], "'2026-02-30' is no date"),
        (
            ["--as-of", "2026-01-01"],
            "no run of testbed simulated had finished by then; the first did at 2026",
        ),
        (["--json", "nowhere/out.json"], "--json nowhere/out.json: name a file in a folder that exists"),
        (["--json", "."], "--json .: name a file"),
        (["--formula", "jumpavg"], "invalid choice: 'jumpavg'"),
        (["--specification", "none.yaml"], "specification none.yaml: No such file or directory"),
    ],
)
def test_bad_option_is_refused_in_one_line(arguments: list[str], hint: str, bench: Any) -> None:
    measured(ip4=STEADY)

    refused(bench.analysis(*arguments), hint)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("tests: [{nmaes: a}]", "no key is named 'tests.1.nmaes'; did you mean 'names'?"),
        ("tests: [{names: '*-ip6-*'}]", "no entry fits a test of testbed simulated"),
        ("tests: [{tags: mrrAND65b}]", "no test matches the tags 'mrrAND65b'; did you mean '64B' for '65b'?"),
    ],
)
def test_bad_specification_is_refused_in_one_line(text: str, hint: str, bench: Any) -> None:
    measured(ip4=STEADY)

    refused(bench.analysis(*specified(text)), hint)


def refused(ended: Any, hint: str) -> None:
    assert 2 == ended.exit_code
    assert ended.err.startswith("perftrend: ")
    assert 1 == ended.err.count("\n")
    assert hint in ended.err
    assert not Path("report").exists()

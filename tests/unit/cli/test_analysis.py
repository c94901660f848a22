"""The analysis job on a store made by hand: its verdicts, its output and its errors."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perftrend.analysis.families.nights import simulate
from perftrend.model import REFERENCE, Better, Result, Run, Status, TraceKey
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


def test_run_of_a_job_that_counts_anew_is_judged_and_shown_as_such(bench: Any) -> None:
    measured(ip4=STEADY)
    with Store.open("perftrend.sqlite") as store:
        store.add(replace(night(1), started=START + timedelta(days=99)), [result("ip4", 9.0)])

    assert 1 == bench.analysis("--job", "trending", "--build", "1").exit_code
    report = bench.report()
    assert ["trending restarted its numbering: the run of 2026-03-02 02:00 UTC is also number 1"] == report[
        "notices"
    ]
    assert 13 == len(report["tests"][0]["values"])


def test_change_that_no_test_shows_is_reported_for_the_tests_that_share_it(bench: Any) -> None:
    values, parameters = simulate(np.random.default_rng(3), traces=120, runs=75)
    slower = [place for place, each in enumerate(parameters) if each["path"] == "path3"]
    values[60:, slower] *= 0.992
    keys = [TraceKey.of(testbed="simulated", **each) for each in parameters]
    with Store.open("perftrend.sqlite") as store:
        for build, row in enumerate(values.tolist(), 1):
            rates = zip(keys, row, strict=True)
            results = [Result(key, "pps", Better.HIGHER, Status.PASS, (rate,), rate) for key, rate in rates]
            store.add(night(build), results)

    done = bench.analysis()

    line = f"{len(slower)} traces with path=path3 are "
    assert line in done.out
    (family,) = bench.report()["families"]
    assert {"path": "path3"} == family["parameters"]
    assert {keys[place].hash for place in slower} == {*family["traces"]}
    assert -0.02 < family["low"] < -0.008 < family["high"] < 0
    assert line in Path("report", "index.html").read_text()


def test_what_else_changed_with_a_regression_is_printed_once_and_mailed(
    bench: Any, jenkins_build: None
) -> None:
    with Store.open("perftrend.sqlite") as store:
        for build in range(1, 14):
            kernel = "6.1.18" if build < 13 else "6.1.20"
            rates = {"ip4": DROPPED[build - 1], "ip6": DROPPED[build - 1]}
            store.add(
                replace(night(build), environment={"dut: kernel": kernel, "dut: cores": "8"}),
                [result(name, rate) for name, rate in rates.items()],
            )

    printed = bench.analysis().out

    line = "between builds 12 and 13, also different: dut: kernel 6.1.18 → 6.1.20"
    assert [line] == [each for each in printed.splitlines() if "also different" in each]
    mail = " ".join(Path("report/mails/regressions.txt").read_text().split())
    assert 2 == mail.count("also different: dut: kernel 6.1.18 → 6.1.20")
    assert "also different: dut: kernel" in Path("report/mails/regressions.html").read_text()


@pytest.mark.parametrize(
    ("reference", "expected"),
    [(9.0, (4, "testbed", ["testbed"])), (10.0, (1, "regression", ["regressions"]))],
)
def test_regression_that_the_reference_build_shares_is_that_of_the_testbed(
    reference: float, expected: Any, bench: Any, jenkins_build: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFTREND_MAIL_LAB", "lab@example.org")
    with Store.open("perftrend.sqlite") as store:
        for build in range(1, 14):
            early = replace(night(build), job="reference", experiment=REFERENCE)
            early = replace(early, started=early.started - timedelta(hours=1))
            value = result("ref", reference if build == 13 else STEADY[build - 1])
            store.add(early, [replace(value, key=value.key.of_experiment(REFERENCE))])
            store.add(night(build), [result("ip4", DROPPED[build - 1])])

    ended = bench.analysis()

    (test,) = bench.report()["tests"]
    is_testbed = test["outcome"] == "testbed"
    assert expected == (ended.exit_code, test["outcome"], written())
    assert is_testbed == ("the testbed, not a commit" in test["reason"])
    assert (["lab@example.org"] if is_testbed else []) == test["owners"]
    assert is_testbed == ("1 testbed change of 1 test" in ended.out)


def test_failed_test_of_a_run_that_is_marked_as_invalid_is_not_reported_as_failed(bench: Any) -> None:
    measured(ip4=[*STEADY, math.nan], l2=[*STEADY, 10.0])
    bench.analysis()
    assert "failed" in bench.outcomes().values()
    with Store.open("perftrend.sqlite") as store:
        store.invalidations.add(night(13), "a fan failed", author="ann")

    bench.analysis()

    assert {"not valid"} == set(bench.outcomes().values())
    assert {"marked as invalid by ann: a fan failed"} == {test["reason"] for test in bench.report()["tests"]}


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
    assert ["as of 2026-03-14 23:59 UTC, with the results known then"] == bench.report()["notices"]


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


@pytest.mark.parametrize(("build", "code"), [(13, 1), (12, 0), (15, 0)])
def test_named_run_is_judged_with_what_was_measured_before_it(build: int, code: int, bench: Any) -> None:
    measured(ip4=DROPPED)

    ended = bench.analysis("--job", "trending", "--build", str(build))

    assert code == ended.exit_code
    assert build == bench.report()["run"]["build"]
    assert build == len(bench.report()["tests"][0]["values"])


def test_without_a_build_the_newest_of_the_job_is_judged(bench: Any) -> None:
    measured(ip4=STEADY)
    other = replace(night(20), job="weekly", build=1)
    with Store.open("perftrend.sqlite") as store:
        store.add(other, [result("ip4", 10.0)])

    judged = {}
    for arguments in ((), ("--job", "trending"), ("--job", "weekly", "--build", "1")):
        bench.analysis(*arguments)
        judged[arguments] = bench.report()["run"]["job"], bench.report()["run"]["build"]

    assert [("weekly", 1), ("trending", 12), ("weekly", 1)] == list(judged.values())


def test_jenkins_names_the_run_by_the_environment(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its parameters are called; an empty one is not given."""
    measured(ip4=DROPPED)
    for name, value in {
        "JOB": "trending",
        "BUILD": "13",
        "REGRESSION": "unstable",
        "AS_OF": "",
        "METHOD": "",
        "OUTLIERS": "false",
    }.items():
        monkeypatch.setenv(f"PERFTREND_ANALYSIS_{name}", value)

    ended = bench.analysis()

    assert 5 == ended.exit_code
    assert 13 == bench.report()["run"]["build"]


@pytest.mark.parametrize(("arguments", "code"), [((), 1), (("--regression", "unstable"), 5)])
def test_regression_fails_the_job_or_makes_it_unstable(
    arguments: Sequence[str], code: int, bench: Any
) -> None:
    measured(ip4=DROPPED[:13])

    assert code == bench.analysis(*arguments).exit_code


def test_unstable_is_for_regressions_only(bench: Any) -> None:
    measured(ip4=[*STEADY, math.nan])

    assert 4 == bench.analysis("--regression", "unstable").exit_code


def test_last_line_is_the_verdict_that_jenkins_shows(bench: Any) -> None:
    measured(ip4=DROPPED[:13], l2=[*STEADY, 10.0])

    lines = bench.analysis().out.splitlines()

    assert "perftrend verdict: trending/13: 1 regression, 1 normal of 2 tests" == lines[-1]
    assert 1 == sum(line.startswith("perftrend verdict:") for line in lines)


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
    assert ["specification watched.yaml: entry 2 matches no test of testbed simulated"] == bench.report()[
        "notices"
    ]


def test_build_that_fell_back_to_another_testbed_is_judged_there(bench: Any) -> None:
    """Jenkins asks for the testbed of its job; the run was measured where it could be."""
    measured(ip4=STEADY)
    with Store.open("perftrend.sqlite") as store:
        elsewhere = replace(night(20), testbed="1n-loopback")
        on_it = result("ip4", 10.0)
        store.add(
            elsewhere, [replace(on_it, key=TraceKey.of(**on_it.key.as_dict() | {"testbed": "1n-loopback"}))]
        )

    assert 0 == bench.analysis("--job", elsewhere.job, "--build", "20").exit_code
    assert "1n-loopback" == bench.report()["run"]["testbed"]
    assert ["testbed simulated was requested; this run was measured on 1n-loopback"] == bench.report()[
        "notices"
    ]


def test_renamed_test_keeps_its_history(bench: Any) -> None:
    """Ten nights under the old name and four under the new one, of which the last two are slow."""
    with Store.open("perftrend.sqlite") as store:
        for build, rate in enumerate(DROPPED[:14], 1):
            name = "old" if build <= 10 else "ip4"
            store.add(night(build), [result(name, rate)])
    aliases = "aliases: [{was: 64b-1c-old-mrr, now: 64b-1c-ip4-mrr}, {parameter: suite, was: old, now: ip4}]"

    ended = bench.analysis(*specified(f"{aliases}\ntests: [{{names: '*-ip4-*'}}]"))

    (test,) = bench.report()["tests"]
    assert "64b-1c-ip4-mrr" == test["parameters"]["test"]
    assert [12] == [change["position"] for change in test["changes"]]
    assert "old" not in ended.out


def test_test_that_is_renamed_in_the_store_keeps_its_history(bench: Any) -> None:
    """As with aliases of a specification, which still apply after the renames of the store."""
    with Store.open("perftrend.sqlite") as store:
        for build, rate in enumerate(DROPPED[:14], 1):
            name = "old" if build <= 10 else "ip4"
            store.add(night(build), [result(name, rate)])
        store.renames.add("test", "64b-1c-old-mrr", "64b-1c-ip4-mrr", author="ann")
        store.renames.add("suite", "old", "ip4", author="ann")

    for chosen, name in (
        ((), "64b-1c-ip4-mrr"),
        (specified("aliases: [{was: 64b-1c-ip4-mrr, now: newest}]\ntests: [{names: newest}]"), "newest"),
    ):
        ended = bench.analysis(*chosen)

        (test,) = bench.report()["tests"]
        assert name == test["parameters"]["test"]
        assert [12] == [change["position"] for change in test["changes"]]
        assert "old" not in ended.out


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
        (["--no-outliers"], "groups of minimum description length (jumpavg-0.4, single bad runs included)"),
        (
            ["--samples", "trials"],
            "groups of minimum description length (jumpavg-0.4, all trials of each run)",
        ),
        (["--method", "three-sigma"], "three-sigma rule"),
    ],
)
def test_report_names_the_method(options: list[str], method: str, bench: Any) -> None:
    measured(ip4=STEADY)
    bench.analysis(*options)

    assert method == bench.report()["method"]


def test_bad_runs_make_no_groups_but_hollow_marks(bench: Any) -> None:
    measured(ip4=[*STEADY, 7.0, *STEADY, 10.0])
    found = {}
    for options in ((), ("--no-outliers",)):
        bench.analysis(*options)
        (test,) = bench.report()["tests"]
        found[options] = len(test["groups"]), test["suspected_runs"]

    assert {(): (1, [12]), ("--no-outliers",): (3, [])} == found


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--as-of", "Tuesday"], "analysis.as_of is 'Tuesday'; it should be a date: write 2026-03-02"),
        (["--as-of", "2026-02-30"], "analysis.as_of is '2026-02-30'"),
        (["--job", "nightly"], "the store has no run of job nightly on testbed simulated"),
        (
            ["--job", "trending", "--build", "99"],
            "the store has no run trending/99; did it end before it was stored?",
        ),
        (["--build", "3"], "--build 3: builds are counted by job; add --job NAME"),
        (["--build", "0", "--job", "trending"], "0 is less than 1"),
        (["--job", "trending", "--build", "12", "--as-of", "2026-03-05"], "had finished by then"),
        (["--regression", "ignore"], "invalid choice: 'ignore'"),
        (
            ["--as-of", "2026-01-01"],
            "no run of testbed simulated had finished by then; the first did at 2026",
        ),
        (["--json", "nowhere/out.json"], "--json nowhere/out.json: name a file in a folder that exists"),
        (["--json", "."], "--json .: name a file"),
        (
            ["--samples", "trials", "--outliers"],
            "set analysis.outliers to false, or analysis.samples to runs",
        ),
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
        ("tests: [{names: '*-ip6-*'}]", "no entry matches a test of testbed simulated"),
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


# ---- mails


@pytest.fixture
def jenkins_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the job believe that it is a build of Jenkins."""
    for name, value in {
        "JOB_NAME": "perftrend-analysis-simulated",
        "BUILD_NUMBER": "7",
        "BUILD_URL": "https://jenkins.example.org/job/analysis/7/",
    }.items():
        monkeypatch.setenv(name, value)


def written() -> list[str]:
    return sorted(file.stem for file in Path("report/mails").glob("*.html"))


def test_regression_is_mailed_once_and_not_again_by_the_next_look(bench: Any, jenkins_build: None) -> None:
    measured(ip4=DROPPED[:13], l2=[*STEADY, 10.0])

    mails = []
    for _ in range(2):
        assert 1 == bench.analysis().exit_code
        mails.append(written())

    assert [["regressions"], []] == mails


def test_what_no_analysis_told_is_mailed_by_the_next_one(bench: Any, jenkins_build: None) -> None:
    """Builds 13 and 14 were never analysed; the change was certain in build 13."""
    measured(ip4=DROPPED[:12])
    bench.analysis()
    measured(ip4=DROPPED[:14])

    assert 0 == bench.analysis().exit_code
    assert ["regressions"] == written()


def test_mail_links_to_the_report_of_the_build(bench: Any, jenkins_build: None) -> None:
    measured(ip4=DROPPED[:13])
    bench.analysis()

    mail = Path("report/mails/regressions.txt").read_text()

    assert "https://jenkins.example.org/job/analysis/7/artifact/report/index.html#" in mail


def test_test_that_failed_is_mailed(bench: Any, jenkins_build: None) -> None:
    measured(ip4=[*STEADY, math.nan])

    assert 4 == bench.analysis().exit_code
    assert ["failed"] == written()


def test_build_without_a_result_is_mailed_with_its_reason(bench: Any, jenkins_build: None) -> None:
    Store.open("perftrend.sqlite").close()

    ended = bench.analysis()

    assert 2 == ended.exit_code
    assert ["failed-job"] == written()
    assert "the store has no run of testbed simulated" in " ".join(
        Path("report/mails/failed-job.txt").read_text().split()
    )


def test_nobody_is_told_of_what_a_person_looks_at(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    measured(ip4=DROPPED[:13])

    bench.analysis()
    monkeypatch.setenv("BUILD_URL", "https://jenkins.example.org/job/analysis/7/")
    bench.analysis("--as-of", "2026-03-14")

    assert [] == written()
    assert not Path("mails").exists()


def test_dead_mail_server_does_not_hide_the_verdict(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "SERVER": "localhost:1",
        "SECURITY": "none",
        "SENDER": "perftrend@example.org",
        "RECIPIENTS": "team@example.org",
    }.items():
        monkeypatch.setenv(f"PERFTREND_MAIL_{name}", value)
    monkeypatch.setattr("time.sleep", lambda _: None)
    measured(ip4=DROPPED[:13], l2=STEADY)

    ended = bench.analysis()

    assert 1 == ended.exit_code
    assert 1 == ended.err.count("\n")
    assert "localhost:1" in ended.err

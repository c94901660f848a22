"""The keywords through Robot Framework itself, on the simulated testbed, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from robot.api import SkipExecution

from perftrend import message
from perftrend.archive import read_output
from perftrend.execution.selection import select
from perftrend.keywords.measurement import TestbedKeywords
from perftrend.measure.simulated_drivers import SimulatedDevice, SimulatedGenerator
from perftrend.measurement import Measurement
from perftrend.model import Better, Result, Status

REPOSITORY = Path(__file__).resolve().parents[3]
SUITES = REPOSITORY / "tests" / "suites"

OWN_SUITE = """
*** Settings ***
Library    perftrend.keywords.measurement.TestbedKeywords
Library    perftrend.keywords.measurement.MeasuringKeywords

*** Test Cases ***
without a testbed
    [Tags]    MRR
    Start Device

closing what is not open
    Close Testbed

binary search for pdr
    [Tags]    PDR    64B
    [Setup]    Run Keywords    Open Testbed    AND    Start Device    jitter=0    seed=1
    Start Traffic    64B
    Find Rate By Binary Search    PDR
    [Teardown]    Run Keywords    Stop Device    AND    Close Testbed

binary search for what is no rate
    [Setup]    Open Testbed
    Find Rate By Binary Search    mrr
    [Teardown]    Close Testbed

soak
    [Setup]    Run Keywords    Open Testbed    AND    Start Device    jitter=0    seed=1
    Start Traffic    64B
    Soak
    [Teardown]    Run Keywords    Stop Device    AND    Close Testbed

hold
    [Setup]    Run Keywords    Open Testbed    AND    Start Device    jitter=0    seed=1
    Start Traffic    64B
    Hold Rate    10e6    30    slices=3
    [Teardown]    Run Keywords    Stop Device    AND    Close Testbed

hold more than can be offered
    [Setup]    Run Keywords    Open Testbed    AND    Start Device
    Start Traffic    64B
    Hold Rate    1e9    30
    [Teardown]    Run Keywords    Stop Device    AND    Close Testbed

reconfiguration
    [Tags]    RECONF    64B
    [Setup]    Run Keywords    Open Testbed    AND    Start Device    jitter=0    seed=1
    Start Traffic    64B
    Measure Reconfiguration    rate_pps=10e6    duration_s=3    routes=20
    [Teardown]    Run Keywords    Stop Device    AND    Close Testbed

reconfiguration of what cannot change
    [Setup]    Run Keywords    Open Testbed    AND    Start Device
    Start Traffic    64B
    Measure Reconfiguration    acl_rules=20
    [Teardown]    Run Keywords    Stop Device    AND    Close Testbed

unknown frame
    [Setup]    Open Testbed
    Start Device
    Start Traffic    64
    [Teardown]    Close Testbed

unknown device option
    [Setup]    Open Testbed
    Start Device    acl_rulez=60
    [Teardown]    Close Testbed
"""

SLOW_SUITE = """
*** Settings ***
Resource    perftrend/keywords/forwarding.resource
Suite Setup    Open Testbed
Suite Teardown    Close Testbed

*** Test Cases ***
search
    [Tags]    NDRPDR    64B
    Non Drop And Partial Drop Rate Are Found    64B

mrr
    [Tags]    MRR    64B
    Maximum Receive Rate Is Measured    64B
"""


def robot(folder: Path, *arguments: str, **environment: str) -> Path:
    """Run Robot Framework in a folder and return its output."""
    # No setting of the person who runs the tests counts.
    usual = {name: value for name, value in os.environ.items() if not name.startswith("PERFTREND_")}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "robot",
            "--outputdir",
            str(folder),
            "--metadata",
            "Testbed:simulated",
            *arguments,
        ],
        cwd=folder,
        env={**usual, "PYTHONPATH": str(REPOSITORY / "resources"), "TMPDIR": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (folder / "output.xml").exists(), done.stdout + done.stderr
    return folder / "output.xml"


def measured(output: Path) -> dict[str, Measurement]:
    """Return what the tests measured, by their names, from their messages as Robot Framework kept them."""
    from robot.api import ExecutionResult  # noqa: PLC0415 - slow, and only here

    tests = ExecutionResult(output).suite.all_tests
    parsed = {test.name: message.parse(test.message) for test in tests}
    return {name: one for name, one in parsed.items() if one}


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the output of the shipped suites: an MRR test and a search."""
    return robot(
        tmp_path_factory.mktemp("shipped"),
        *(
            "--include",
            "mrrAND64bAND1cANDethip4-ip4base",
            "--include",
            "ndrpdrANDimixAND1cANDeth-l2bdbasemaclrn",
        ),
        *("--settag", "DRV_SIMULATED", str(SUITES)),
        PERFTREND_TESTBED="simulated",
        PERFTREND_TRIAL_MULTIPLICITY="4",
    )


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """Give status and message of the tests of a suite that uses the keywords in other ways."""
    from robot.api import ExecutionResult  # noqa: PLC0415 - slow, and only here

    folder = tmp_path_factory.mktemp("own")
    (folder / "own.robot").write_text(OWN_SUITE)
    output = robot(
        folder,
        str(folder / "own.robot"),
        PERFTREND_TESTBED="simulated",
        PERFTREND_SOAK_TOTAL_DURATION_S="300",
        PERFTREND_SOAK_TARGET_LOSS_RATIO="1e-6",
    )
    return {test.name: (test.status, test.message) for test in ExecutionResult(output).suite.all_tests}


def test_traces_of_a_run_are_those_that_were_expected(shipped: Path) -> None:
    expected = select(
        SUITES,
        ["mrrAND64bAND1cANDethip4-ip4base", "ndrpdrANDimixAND1cANDeth-l2bdbasemaclrn"],
        testbed="simulated",
        tags=["DRV_SIMULATED"],
    )

    assert expected == {result.key for result in read_output(shipped)}
    assert 3 == len(expected)


def test_mrr_is_measured_as_the_settings_and_the_testbeds_file_say(shipped: Path) -> None:
    (mrr,) = (one for one in measured(shipped).values() if one.kind == "mrr")

    assert 4 == len(mrr.samples)
    assert {1.0} == {trial.duration_s for trial in mrr.trials}
    assert ("simulated", "64B", True, "") == (mrr.testbed, mrr.frame, mrr.simulated, mrr.invalid)


def test_search_finds_both_rates_as_wide_as_asked(shipped: Path) -> None:
    (search,) = (one for one in measured(shipped).values() if one.kind == "ndrpdr")

    assert ["ndr", "pdr"] == list(search.intervals)
    assert all(interval.relative_width <= 0.005 for interval in search.intervals.values())
    assert "predictive" == search.strategy
    assert "IMIX" == search.frame


def test_suites_search_as_the_settings_say(tmp_path: Path) -> None:
    output = robot(
        tmp_path,
        *("--include", "ndrpdrANDimixAND1cANDeth-l2bdbasemaclrn", str(SUITES)),
        PERFTREND_TESTBED="simulated",
        PERFTREND_SEARCH_STRATEGY="binary",
    )

    found = {result.key["metric"]: result for result in read_output(output)}
    assert {"ndr": True, "pdr": True} == {metric: result.usable for metric, result in found.items()}
    assert {"binary"} == {result.details["strategy"] for result in found.values()}


def test_latency_is_measured_if_the_generator_can_do_it(tmp_path: Path) -> None:
    expression = "ndrpdrAND64bAND1cANDethip4-ip4base"
    output = robot(
        tmp_path,
        *("--include", expression, "--settag", "DRV_SIMULATED", "--settag", "LATENCY", str(SUITES)),
        PERFTREND_TESTBED="simulated-latency",
        PERFTREND_TESTBEDS=str(REPOSITORY / "docs" / "examples"),
    )

    found = {result.key["metric"]: result for result in read_output(output)}
    tags = ["DRV_SIMULATED", "LATENCY"]
    assert select(SUITES, [expression], testbed="simulated", tags=tags) == {
        each.key for each in found.values()
    }
    latencies = [found[f"latency_{load}"] for load in (10, 50, 90)]
    assert all(each.usable for each in found.values())
    assert {("us", Better.LOWER)} == {(each.unit, each.better) for each in latencies}
    assert 5 < latencies[0].value < latencies[1].value < latencies[2].value


def test_counters_lie_where_the_message_says(shipped: Path) -> None:
    for measurement in measured(shipped).values():
        sections = json.loads((shipped.parent / measurement.counters).read_text())
        assert ({"mrr"} if measurement.kind == "mrr" else {"ndr", "pdr"}) == set(sections)


def test_results_of_a_run_are_usable(shipped: Path) -> None:
    results: list[Result] = list(read_output(shipped))

    assert all(result.usable and result.status is Status.PASS for result in results)


def test_test_that_the_testbed_cannot_run_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFTREND_TESTBED", "simulated")
    keywords = TestbedKeywords()
    keywords.open_testbed()
    try:
        monkeypatch.setattr(SimulatedDevice, "lacks", lambda _, options: f"no {options['acl_rules']} rules")
        monkeypatch.setattr(SimulatedGenerator, "lacks", lambda _, traffic: f"no {traffic.frame.name}")
        with pytest.raises(SkipExecution, match=r"^not supported: no 20 rules$"):
            keywords.start_device(acl_rules="20")
        with pytest.raises(SkipExecution, match=r"^not supported: no 9000B$"):
            keywords.start_traffic("9000B")
    finally:
        keywords.close_testbed()


def test_suite_that_never_opened_a_testbed_says_so(own: dict[str, tuple[str, str]]) -> None:
    status, text = own["without a testbed"]

    assert "FAIL" == status
    assert text.endswith("no testbed is open; add Open Testbed to the suite's set-up")


def test_closing_without_an_open_testbed_is_no_error(own: dict[str, tuple[str, str]]) -> None:
    assert "PASS" == own["closing what is not open"][0]


def test_binary_search_finds_the_rate_by_name(own: dict[str, tuple[str, str]]) -> None:
    """The simulated device forwards 12 Mpps; half a percent of loss comes a little above."""
    measurement = message.parse(own["binary search for pdr"][1])

    assert measurement is not None
    assert ["pdr"] == list(measurement.intervals)
    assert measurement.intervals["pdr"].lower <= 12e6 / 0.995 * (1 + 1e-6)
    assert measurement.intervals["pdr"].upper >= 12e6 / 0.995 * (1 - 1e-6)


def test_soak_finds_the_critical_load_as_the_settings_say(own: dict[str, tuple[str, str]]) -> None:
    """The simulated device forwards 12 Mpps."""
    measurement = message.parse(own["soak"][1])

    assert measurement is not None
    assert measurement.critical_load is not None
    assert 12e6 == pytest.approx(measurement.critical_load.rate_pps, rel=1e-3)
    assert 1e-6 == measurement.critical_load.target_loss_ratio
    assert 290 < sum(trial.duration_s for trial in measurement.trials) <= 300


def test_rate_is_held_in_slices(own: dict[str, tuple[str, str]]) -> None:
    measurement = message.parse(own["hold"][1])

    assert measurement is not None
    assert measurement.held is not None
    assert (10e6, 0.0) == (measurement.held.rate_pps, measurement.held.loss_ratio)
    assert [(10e6, 10.0)] * 3 == [(trial.rate_pps, trial.duration_s) for trial in measurement.trials]


def test_device_is_reconfigured_at_the_rate_given(own: dict[str, tuple[str, str]]) -> None:
    """The simulated device forwards nothing for 1 ms."""
    measurement = message.parse(own["reconfiguration"][1])

    assert measurement is not None
    assert measurement.reconfiguration is not None
    assert ({"routes": "20"}, 10_000) == (
        measurement.reconfiguration.changes,
        measurement.reconfiguration.lost,
    )
    assert [(10e6, 3.0)] * 2 == [(trial.rate_pps, trial.duration_s) for trial in measurement.trials]


def test_reconfiguration_that_the_device_cannot_do_is_skipped(own: dict[str, tuple[str, str]]) -> None:
    assert own["reconfiguration of what cannot change"] == (
        "SKIP",
        "not supported: the device cannot change acl_rules while it runs",
    )


def test_shipped_reconfiguration_has_two_results_that_were_expected(tmp_path: Path) -> None:
    """The simulated device forwards 12 Mpps, and nothing for 1 ms."""
    expression = "reconfAND64b"
    output = robot(tmp_path, "--include", expression, str(SUITES), PERFTREND_TESTBED="simulated")

    expected = select(SUITES, [expression], testbed="simulated", tags=())
    found = {result.key["metric"]: result for result in read_output(output)}
    assert expected == {result.key for result in found.values()}
    assert {"64b-1c-ethip4-ip4base-addroutes-reconf"} == {key["test"] for key in expected}
    packets, time = found["reconf_packets"], found["reconf_time"]
    assert 0.9 * 12e6 * 0.001 == pytest.approx(packets.value, rel=0.02)
    assert 0.001 == pytest.approx(time.value, rel=1e-3)
    assert [("packets", Better.LOWER, True), ("s", Better.LOWER, True)] == [
        (one.unit, one.better, one.usable) for one in (packets, time)
    ]


@pytest.mark.parametrize(
    ("test", "told"),
    [
        ("binary search for what is no rate", "ndr"),
        ("hold more than can be offered", "testbed simulated can offer at most"),
        ("unknown frame", "frame '64' is unknown; did you mean '64B'?"),
        ("unknown device option", "the device has no option 'acl_rulez'; did you mean 'acl_rules'?"),
    ],
)
def test_wrong_argument_of_a_keyword_fails_its_test(
    test: str, told: str, own: dict[str, tuple[str, str]]
) -> None:
    status, text = own[test]

    assert "FAIL" == status
    assert told in text


def test_search_that_takes_too_long_fails_its_test_and_keeps_its_trials(tmp_path: Path) -> None:
    """Both tests log their trials."""
    (tmp_path / "own.robot").write_text(SLOW_SUITE)

    output = robot(
        tmp_path, str(tmp_path / "own.robot"), PERFTREND_TESTBED="simulated", PERFTREND_SEARCH_TIMEOUT_S="15"
    )

    *search, after = read_output(output)
    assert {(Status.FAIL, False)} == {(result.status, result.usable) for result in search}
    assert "bounds so far, not confirmed: NDR" in search[0].message
    assert "perftrend: {" not in search[0].message
    assert 15 <= sum(trial["elapsed_s"] for trial in search[0].details["trials"])
    assert 2 == output.read_text(encoding="utf-8").count("queue full  not valid")
    assert (Status.PASS, "") == (after.status, after.message)

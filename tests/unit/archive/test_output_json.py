"""output.json gives what the output.xml of the same run gives, and so does the JSON file of each test."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from robot import api, rebot

from perftrend.archive import Output
from perftrend.errors import ArchiveError
from perftrend.model import Better, Result, Status

OUTPUTS = Path(__file__).parents[2] / "data" / "outputs"
MODEL = OUTPUTS / "model"
SUITE = """
*** Settings ***
Metadata    Testbed    1n-veth
Suite Setup    Log    VPP version: 24.02-rc0~123-gabcdef012~b45
{teardown}

*** Test Cases ***
64b-1c-ethip4-ip4base-mrr
    [Tags]    MRR    64B    1C
    [Setup]    Log    DPDK version: DPDK 23.11.0
    FOR    ${{i}}    IN RANGE    3
        Log    "]}}]}} \\\\ " \\u00e9
    END
    Set Test Message    Maximum Receive Rate trial results in packets per second: [1.0, 2.0]
64b-1c-ethip4-ip4base-ndrpdr
    [Tags]    NDRPDR    64B    1C
    Fail    no "carrier" & <more>
64b-2c-ethip4-ip4base-mrr
    [Tags]    MRR    64B    2C
    Skip    no second core
"""


def run(folder: Path, name: str, *, teardown: str = "", suite: str = "Root") -> Path:
    """Really run a suite and return its output."""
    tests = api.TestSuite.from_string(SUITE.format(teardown=teardown))
    tests.name = suite
    quiet: dict[str, Any] = {"log": None, "report": None, "stdout": io.StringIO(), "stderr": io.StringIO()}
    tests.run(output=str(folder / name), loglevel="TRACE", **quiet)
    return folder / name


def told(source: Path) -> tuple[str, dict[str, str], list[str]]:
    output = Output(source)
    results = repr(list(output))
    return results, output.versions, sorted(output.unknown)


@pytest.mark.parametrize(
    "teardown", ["", "Suite Teardown    Fail    too late", "Suite Teardown    Skip    x"]
)
def test_both_forms_of_a_run_tell_the_same(tmp_path: Path, teardown: str) -> None:
    of_xml = told(run(tmp_path, "output.xml", teardown=teardown))

    assert of_xml == told(run(tmp_path, "output.json", teardown=teardown))
    assert {"vpp", "dpdk", "device"} == set(of_xml[1])


def test_teardown_of_a_suite_fails_its_tests_as_robot_framework_says(tmp_path: Path) -> None:
    path = run(tmp_path, "output.xml", teardown="Suite Teardown    Fail    too late")
    expected = {
        test.name: test.message for test in api.ExecutionResult(path).suite.all_tests if not test.passed
    }

    results = list(Output(path))

    assert expected == {result.key["test"]: result.message for result in results if not result.usable}
    assert (1.0, 2.0) == results[0].samples
    assert Status.FAIL == results[0].status


def test_output_before_robot_framework_7_2_is_the_root_suite_alone(tmp_path: Path) -> None:
    path = run(tmp_path, "output.json")
    expected = told(path)
    path.write_text(json.dumps(json.loads(path.read_text())["suite"]))

    assert expected == told(path)


def rebotted(tmp_path: Path, name: str, *sources: Path, **options: Any) -> Path:
    quiet: dict[str, Any] = {"log": None, "report": None, "stdout": io.StringIO(), "stderr": io.StringIO()}
    rebot(*map(str, sources), output=str(tmp_path / name), **quiet, **options)
    return tmp_path / name


@pytest.mark.parametrize("ending", ["xml", "json"])
def test_repeated_tests_that_rebot_merged_tell_the_newest(tmp_path: Path, ending: str) -> None:
    path = run(tmp_path, "output.xml", teardown="Suite Teardown    Fail    too late")

    merged = rebotted(tmp_path, f"merged.{ending}", path, path, merge=True)

    samples = [result.samples for result in Output(merged)]
    assert [result.samples for result in Output(path)] == samples


@pytest.mark.parametrize("ending", ["xml", "json"])
def test_parts_of_a_run_that_rebot_put_together_belong_to_the_same_traces(
    tmp_path: Path, ending: str
) -> None:
    path = run(tmp_path, "output.xml", suite="A & B")

    whole = rebotted(tmp_path, f"whole.{ending}", path, path)

    assert {result.key for result in Output(path)} == {result.key for result in Output(whole)}


def results_of_model() -> dict[tuple[str, str], Result]:
    results = list(Output(MODEL, testbed="2n-clx"))
    return {
        (result.key["test"].split("-")[-1], result.key["metric"]): result
        for result in results
        if result.samples
    }


def test_each_kind_of_result_is_read() -> None:
    results = results_of_model()

    assert {
        ("mrr", "mrr"): (17811236.0, "pps"),
        ("ndrpdr", "ndr"): (12345678.0, "pps"),
        ("ndrpdr", "pdr"): (13000000.0, "pps"),
        ("soak", "soak"): (12300000.0, "pps"),
        ("reconf", "reconf_packets"): (1234.0, "packets"),
        ("reconf", "reconf_time"): (0.000123, "s"),
        ("bps", "hoststack_bandwidth"): (21.5e9, "bps"),
    } == {key: (result.value, result.unit) for key, result in results.items()}
    assert {"reconf_packets", "reconf_time"} == {
        metric for (_, metric), result in results.items() if result.better is Better.LOWER
    }


def test_details_have_the_form_of_those_of_messages() -> None:
    details = results_of_model()["ndrpdr", "pdr"].details

    assert {"rate": 13065000.0, "bandwidth_bps": 8296000000.0} == details["upper"]
    latency = {"min": 10.0, "avg": 12.0, "max": 40.0, "hdrh": "HISTFAAA/x+y="}
    assert {"90%": [latency, latency]} == details["latency_us"]


def test_result_has_the_key_that_its_message_in_an_output_has() -> None:
    xml = (
        '<robot generator="Robot 7"><suite name="Tests"><suite name="Vpp"><suite name="Perf">'
        '<suite name="Ip4"><suite name="2N1L-10Ge2P1X710-Ethip4-Ip4Base-Mrr">'
        '<test name="64b-2t1c-ethip4-ip4base-mrr">'
        "<tag>MRR</tag><tag>64B</tag><tag>1C</tag><tag>2T1C</tag><tag>DRV_VFIO_PCI</tag><tag>NIC_Intel-X710</tag>"
        '<status status="PASS">Maximum Receive Rate trial results in packets per second: '
        "[17823451.0, 17799021.0]</status></test></suite></suite></suite></suite></suite></robot>"
    )

    [of_xml] = Output(io.BytesIO(xml.encode()), testbed="2n-clx")

    of_model = results_of_model()["mrr", "mrr"]
    assert of_xml.key == of_model.key
    assert of_xml.samples == of_model.samples


def test_folder_is_one_run() -> None:
    output = Output(MODEL, testbed="2n-clx")
    results = list(output)

    assert {"device", "vpp", "generator", "trex"} == set(output.versions)
    assert ["fail", "pass"] == sorted({result.status.value for result in results})
    assert "Parent suite setup failed:\nno carrier" in {result.message for result in results}
    assert output.started is not None
    assert {"result of type 'teleport'": 1, "a file without a test's result": 1} == {
        form: unknown.count for form, unknown in output.unknown.items()
    }
    assert "imix-2t1c-ethip4-ip4base-mrr" in output.unknown["result of type 'teleport'"].example


def test_list_of_packed_files_is_one_run() -> None:
    files = [io.BytesIO(gzip.compress(file.read_bytes())) for file in sorted(MODEL.rglob("*-*.info.json"))]

    assert repr(list(Output(MODEL))) == repr(list(Output(files)))


def model_file(**fields: Any) -> io.BytesIO:
    [path] = MODEL.rglob("64b-2t1c-ethip4-ip4base-mrr.info.json")
    return io.BytesIO(json.dumps(json.loads(path.read_text()) | fields).encode())


@pytest.mark.parametrize(
    ("result", "form"),
    [
        (
            {"type": "mrr", "receive_rate": {"rate": {"values": [1], "unit": "zps"}}},
            "mrr: 'zps' is not a known unit",
        ),
        ({"type": "mrr", "receive_rate": {"rate": {"values": ["x"]}}}, "mrr: could not convert"),
        ({"type": "mrr", "receive_rate": {"rate": {"values": [{}]}}}, "mrr: could not convert"),
        ({"type": "mrr", "receive_rate": 5, "jitter": 1}, "mrr: 'jitter'"),
        ({"type": "unknown"}, "result of type 'unknown'"),
        ({}, "result of type ''"),
        (None, "no message"),
    ],
)
def test_result_that_is_not_understood_is_named_and_not_valid(result: object, form: str) -> None:
    output = Output(model_file(result=result))
    [found] = output

    assert [True] == [name.startswith(form) for name in output.unknown]
    assert found.invalid


def test_older_version_without_values_gives_the_average() -> None:
    [found] = Output(
        model_file(result={"type": "mrr", "receive_rate": {"rate": {"avg": 2.5, "unit": "Mpps"}}})
    )

    assert (2.5e6,) == found.samples


def test_result_without_a_place_is_named_after_its_file() -> None:
    file = model_file(test_id=None, test_name_long=None)
    file.name = "somewhere/64b-1c-x-mrr.info.json"

    [found] = Output(file)

    assert ("", "64b-1c-x-mrr") == (found.key["suite"], found.key["test"])


def test_broken_file_of_a_run_does_not_stop_the_others() -> None:
    broken = io.BytesIO(b'{"test_id": ')
    broken.name = "broken.json"
    results = []

    def read() -> None:
        for result in Output([broken, model_file()]):
            results.append(result)  # noqa: PERF402 - a list made at once would be lost

    with pytest.raises(ArchiveError, match=r"broken\.json: is not valid JSON: parse error: premature EOF"):
        read()
    assert 1 == len(results)

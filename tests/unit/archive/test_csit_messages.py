"""Messages of other CI, of every generation."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.archive import csit_messages
from perftrend.archive.csit_messages import MetricValue
from perftrend.model import Better

FIRST = "MaxReceivedRate_Results [pkts/1sec]: tx 29761904, rx 17823451"
FINAL = """\
FINAL_RATE: 12345678.0 pps (2x 6172839.0 pps)
FINAL_BANDWIDTH: 8.29 Gbps (untagged)
LATENCY usec [min/avg/max]
LAT_100%NDR: ['10/12/40', '10/11/39']
LAT_50%NDR: ['8/9/20', '-1/0/0']
LAT_10%NDR: ['-1/0/0', '-1/0/0']
"""
TRIALS = "Maximum Receive Rate trial results in packets per second: [17823451.0, 17799021.0]"
SEARCH = """\
NDR_LOWER: 12345678.0 pps, 8.296 Gbps (untagged)
LATENCY usec [min/avg/max] per stream: ['10/12/40', '10/11/39']
NDR_UPPER: 12407406.4 pps, 8.337 Gbps (untagged)
PDR_LOWER: 13000000.0 pps, 8.736 Gbps (untagged)
LATENCY [min/avg/max/hdrh] per stream: ['10/12/40/HISTFAAA/x+y=', '-1/-1/-1/']
PDR_UPPER: 13065000.0 pps, 8.779 Gbps (untagged)
"""
SHARES = """
Latency at 90% PDR: ['10/12/40/HISTF', '10/11/39/HISTF']
Latency at 0% PDR:
LATENCY [min/avg/max/hdrh] per stream: ['1/2/3/HISTF', '4/5/6/HISTF']
"""
MISSED = "Minimal rate loss fraction 0.01 does not reach target {}.\n240 packets lost.\n"
SOAK = "PLRsearch lower bound: 12300000.0 pps, 8.2 Gbps\nPLRsearch upper bound: 12350000.0 pps"
RECONF = "Packets lost due to reconfig: 1234\nImplied time lost: 0.000123"


def told(message: str, *expected: str) -> dict[str, tuple[tuple[float, ...], str, str]]:
    readings = csit_messages.read(message, expected=expected).readings
    return {metric: (one.samples, one.unit, one.invalid) for metric, one in readings.items()}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (FIRST, {"mrr": ((17823451.0,), "pps", "")}),
        (FIRST.replace("1sec", "10sec"), {"mrr": ((1782345.1,), "pps", "")}),
        (FINAL, {"ndr": ((12345678.0,), "pps", "")}),
        (FINAL + "LOSS_ACCEPTANCE: 0.5 %", {"pdr": ((12345678.0,), "pps", "")}),
        (FINAL.replace("NDR", "PDR"), {"pdr": ((12345678.0,), "pps", "")}),
        (TRIALS, {"mrr": ((17823451.0, 17799021.0), "pps", "")}),
        (TRIALS.replace("packets", "connections"), {"mrr": ((17823451.0, 17799021.0), "cps", "")}),
        (SEARCH, {"ndr": ((12345678.0,), "pps", ""), "pdr": ((13000000.0,), "pps", "")}),
        ("NDR_LOWER: 512345.0 CPS\nNDR_UPPER: 512400.0 CPS", {"ndr": ((512345.0,), "cps", "")}),
        ("NDR_LOWER: 1.5 Mpps", {"ndr": ((1500000.0,), "pps", "")}),
        (SOAK, {"soak": ((12300000.0,), "pps", "")}),
        (" ".join(SOAK.split("\n")), {"soak": ((12300000.0,), "pps", "")}),
        (RECONF, {"reconf_packets": ((1234.0,), "packets", ""), "reconf_time": ((0.000123,), "s", "")}),
        ("hello", {}),
        ("", {}),
    ],
)
def test_every_generation_is_understood(message: str, expected: dict[str, object]) -> None:
    assert expected == told(message)
    assert [] == csit_messages.read(message).unknown


def test_final_rate_is_that_of_the_tags_before_that_of_the_message() -> None:
    assert ["ndr"] == list(told(FINAL + "LOSS_ACCEPTANCE: 0.5 %", "ndr"))


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        (SEARCH.replace("PDR_LOWER", MISSED.format("0.0") + "PDR_LOWER"), "ndr"),
        (SEARCH + MISSED.format("0.005"), "pdr"),
        (SEARCH + MISSED.format("0.0"), "ndr"),
    ],
    ids=["below its bound", "at the end", "at the end, below the other bound"],
)
def test_bound_whose_trial_failed_is_not_valid(message: str, wrong: str) -> None:
    """Its target tells which one: zero loss is that of NDR."""
    readings = csit_messages.read(message).readings

    assert [wrong] == [metric for metric, one in readings.items() if one.invalid]
    assert readings[wrong].invalid.startswith("Minimal rate loss fraction 0.01 does not reach target 0.0")
    assert readings[wrong].invalid.endswith(", 240 packets lost")


def test_bounds_latencies_and_histograms_are_details() -> None:
    readings = csit_messages.read(SEARCH + SHARES).readings

    assert {
        "lower": {"rate": 12345678.0, "bandwidth_bps": 8296000000.0},
        "upper": {"rate": 12407406.4, "bandwidth_bps": 8337000000.0},
        "latency_us": {"100%": [{"min": 10, "avg": 12, "max": 40}, {"min": 10, "avg": 11, "max": 39}]},
    } == readings["ndr"].details
    latencies = readings["pdr"].details["latency_us"]
    assert [{"min": 10, "avg": 12, "max": 40, "hdrh": "HISTFAAA/x+y="}, None] == latencies["100%"]
    assert {"min": 4, "avg": 5, "max": 6, "hdrh": "HISTF"} == latencies["0%"][1]
    assert ["100%", "90%", "0%"] == list(latencies)


def test_final_rate_has_its_bandwidth_and_latencies() -> None:
    details = csit_messages.read(FINAL).readings["ndr"].details

    assert 8.29e9 == details["bandwidth_bps"]
    assert [{"min": 8, "avg": 9, "max": 20}, None] == details["latency_us"]["50%"]


def test_latency_that_nobody_measured_is_none() -> None:
    message = "NDR_LOWER: 1.0 pps\nLATENCY usec [min/avg/max] per stream: ['-1/0/0', '-1/0/0']"

    assert "latency_us" not in csit_messages.read(message).readings["ndr"].details


def test_losses_are_better_when_lower() -> None:
    assert {Better.LOWER} == {one.better for one in csit_messages.read(RECONF).readings.values()}


@pytest.mark.parametrize(
    ("message", "form"),
    [
        ("NDR_LOWER: 12.5 zps", "NDR_LOWER: # zps"),
        ("NDR_LOWER: 12.5", "NDR_LOWER: #"),
        ("NDR_LOWER: many pps", "NDR_LOWER: many pps"),
        ("PLRsearch middle bound: 1.0", "PLRsearch middle bound: #"),
        (
            "MaxReceivedRate_Results [pkts/0sec]: tx 1, rx 2",
            "MaxReceivedRate_Results [pkts/#sec]: tx #, rx #",
        ),
        ("FINAL_RATE: 1e999 pps", "FINAL_RATE: # pps"),
        (
            "Maximum Receive Rate trial results in apples per second: [1]",
            "trial results in apples per second: [#]",
        ),
    ],
)
def test_what_looks_like_a_result_and_is_none_is_named(message: str, form: str) -> None:
    found = csit_messages.read(message)

    assert form in found.unknown
    assert not [one for one in found.readings.values() if one.samples]


def test_upper_bound_alone_is_not_valid() -> None:
    assert {"ndr": ((), "pps", "the message has no lower bound")} == told("NDR_UPPER: 1.0 pps")


MERGED = (
    '*HTML* <span class="merge">Test has been re-executed and results merged.</span><hr>'
    '<span class="new-status">New status:</span> <span class="pass">PASS</span><br>'
    '<span class="new-message">New message:</span> a &lt; b\nsecond<br><hr>'
    '<span class="old-status">Old status:</span> <span class="fail">FAIL</span><br>'
    '<span class="old-message">Old message:</span> NDR_LOWER: 1.0 pps<br>'
)


@pytest.mark.parametrize(
    ("message", "expected"),
    [(MERGED, "a < b\nsecond"), ("*HTML* <b>x</b> &amp; y", "x & y"), ("a <b> &amp;", "a <b> &amp;")],
)
def test_html_around_a_message_is_taken_off(message: str, expected: str) -> None:
    assert expected == csit_messages.plain(message)


RATES = st.floats(0, 1e12).map(lambda rate: float(f"{rate:.1f}"))


@given(
    lower=RATES,
    upper=RATES,
    search=st.sampled_from(["NDR", "PDR", "PLR2"]),
    unit=st.sampled_from(["pps", "CPS"]),
)
def test_bounds_survive_the_way_through_a_message(lower: float, upper: float, search: str, unit: str) -> None:
    found = csit_messages.read(
        f"{search}_LOWER: {lower} {unit}, 1.0 Gbps\n{search}_UPPER: {upper} {unit}"
    ).readings

    [(metric, reading)] = found.items()
    assert (search.lower(), unit.lower(), (lower,)) == (metric, reading.unit, reading.samples)
    assert upper == reading.details["upper"]["rate"]


@given(st.lists(RATES, min_size=1))
def test_trials_survive_the_way_through_a_message(rates: list[float]) -> None:
    message = f"Maximum Receive Rate trial results in packets per second: {rates}"

    assert {"mrr": MetricValue(tuple(rates))} == csit_messages.read(message).readings


PIECES = [
    "LAT_50%NDR:",
    "['1/2/3', '",
    "']",
    "[",
    "-1/0/0",
    "NDR_LOWER: ",
    "1e999",
    "٣",
    " pps",
    "\n",
    ", 1 Gbps",
]
PIECES += [
    FIRST,
    FINAL,
    TRIALS,
    SEARCH,
    SHARES,
    MISSED,
    SOAK,
    RECONF,
    "LOSS_ACCEPTANCE: ",
    "0",
    "*HTML*",
    "-5",
]


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5))).map("".join))
def test_any_message_is_read_and_every_number_is_finite(message: str) -> None:
    def numbers(node: Any) -> list[float]:
        if isinstance(node, dict):
            return [number for inner in node.values() for number in numbers(inner)]
        if isinstance(node, (list, tuple)):
            return [number for inner in node for number in numbers(inner)]
        return [node] if isinstance(node, (int, float)) else []

    for reading in csit_messages.read(csit_messages.plain(message)).readings.values():
        assert all(map(math.isfinite, numbers([reading.samples, reading.details])))
        assert reading.samples or reading.invalid

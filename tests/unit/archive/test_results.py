"""What a recorded test gives to which traces."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perftrend import message
from perftrend.archive import Output, results
from perftrend.archive.result_records import RecordedTest
from perftrend.archive.results import interpret, of_test
from perftrend.measurement import (
    CriticalLoad,
    HeldRate,
    Interval,
    Latency,
    LoadLatency,
    Measurement,
    Reconfiguration,
    Trial,
)
from perftrend.model import Better, Result, Status, TraceKey

TAGS = ["64B", "1C", "DRV_VFIO_PCI", "ethip4-ip4base"]

MRR = Measurement(
    kind="mrr",
    testbed="1n-veth",
    frame="64B",
    frame_bytes=64.0,
    started=datetime(2026, 1, 2, tzinfo=UTC),
    finished=datetime(2026, 1, 3, tzinfo=UTC),
    samples=(10.0, 20.0, 60.0),
)
NDRPDR = replace(
    MRR,
    kind="ndrpdr",
    samples=(),
    intervals={"ndr": Interval(10.0, 11.0), "pdr": Interval(20.0, 22.0, invalid="the search timed out")},
)

SOAK = replace(
    NDRPDR,
    kind="soak",
    intervals={"soak": Interval(9.0, 12.0)},
    critical_load=CriticalLoad(10.0, target_loss_ratio=1e-7, credibility=0.95),
)

RECONF = replace(
    NDRPDR,
    kind="reconf",
    intervals={"ndr": Interval(2000.0, 2100.0)},
    reconfiguration=Reconfiguration(2000.0, {"routes": "9"}, 0.5, lost=500, baseline_lost=0),
)


def recorded(text: str, *tags: str, status: str = "PASS") -> RecordedTest:
    return RecordedTest("64b-mrr", "Ip4.Base", [*TAGS, *tags], status, text, "2n-clx")


def by_metric(test: RecordedTest) -> dict[str, Result]:
    return {result.key["metric"]: result for result in of_test(test)}


def test_mrr_gives_its_trials_and_their_average() -> None:
    [result] = of_test(recorded(message.render(MRR), "MRR"))

    assert "pps" == result.unit
    assert Better.HIGHER == result.better
    assert Status.PASS == result.status
    assert (10.0, 20.0, 60.0) == result.samples
    assert 30.0 == result.value
    assert result.usable


def test_search_gives_the_lower_bound_of_each_rate() -> None:
    results = by_metric(recorded(message.render(NDRPDR), "NDRPDR"))

    assert ["ndr", "pdr"] == list(results)
    assert (10.0,) == results["ndr"].samples
    assert 10.0 == results["ndr"].value
    assert results["ndr"].usable
    assert "the search timed out" == results["pdr"].invalid


def test_search_gives_the_average_latency_of_both_directions() -> None:
    latency = {
        "latency_10": LoadLatency(2.0, (Latency(1.0, 10.0, 90.0), Latency(2.0, 13.0, 80.0))),
        "latency_50": LoadLatency(10.0, invalid="the generator measured no latency"),
    }

    results = by_metric(recorded(message.render(replace(NDRPDR, latency=latency)), "NDRPDR", "LATENCY"))

    assert ["ndr", "pdr", "latency_10", "latency_50", "latency_90"] == list(results)
    measured, absent, missing = list(results.values())[2:]
    assert {("us", Better.LOWER)} == {(each.unit, each.better) for each in (measured, absent, missing)}
    assert ((11.5,), 11.5, True) == (measured.samples, measured.value, measured.usable)
    assert ((), "the generator measured no latency") == (absent.samples, absent.invalid)
    assert "the message has no such result" == missing.invalid
    assert results["ndr"].usable


def test_latency_of_a_result_that_is_not_valid_is_not_valid() -> None:
    latency = {"latency_10": LoadLatency(2.0, (Latency(1.0, 10.0, 90.0),))}
    doubtful = replace(NDRPDR, latency=latency, invalid="the generator was too slow")

    assert "the generator was too slow" == by_metric(recorded(message.render(doubtful)))["latency_10"].invalid


@pytest.mark.parametrize(("measurement", "tag"), [(MRR, "MRR"), (NDRPDR, "NDRPDR")])
def test_each_part_of_a_device_has_a_trace_of_its_cycles(measurement: Measurement, tag: str) -> None:
    measured = replace(measurement, cycles_per_packet={"ip4-lookup": 30.25, "dpdk-input": 62.0, "a b": 1.0})

    results = by_metric(recorded(message.render(measured), tag))

    found = {metric: result for metric, result in results.items() if metric.startswith("cycles_")}
    assert ["cycles_ip4-lookup", "cycles_dpdk-input"] == list(found)
    assert {("cycles", Better.LOWER, True)} == {
        (each.unit, each.better, each.usable) for each in found.values()
    }
    assert ((30.25,), 30.25) == (found["cycles_ip4-lookup"].samples, found["cycles_ip4-lookup"].value)
    assert all(each.key.is_optional for each in found.values())


@pytest.mark.parametrize(("reason", "status"), [("", "FAIL"), ("the generator was too slow", "PASS")])
def test_test_without_a_valid_result_has_no_cycles(reason: str, status: str) -> None:
    measured = replace(MRR, cycles_per_packet={"total": 700.0}, invalid=reason)

    assert ["mrr"] == list(by_metric(recorded(message.render(measured), "MRR", status=status)))


def test_soak_gives_the_critical_load() -> None:
    [result] = of_test(recorded(message.render(SOAK), "SOAK"))

    assert "soak" == result.key["metric"]
    assert ((10.0,), 10.0) == (result.samples, result.value)
    assert result.usable


def test_soak_that_is_not_valid_gives_a_result_that_is_not() -> None:
    doubtful = replace(SOAK, intervals={"soak": Interval(9.0, 12.0, invalid="it lies below")})

    [result] = of_test(recorded(message.render(doubtful), "SOAK"))

    assert "it lies below" == result.invalid


def test_hold_gives_the_receive_rate_of_each_slice() -> None:
    held = HeldRate(25.0, loss_ratio=0.1, loss_ratio_limit=0.2, confidence=0.95, lossy_slices=3)

    [result] = of_test(recorded(message.render(replace(MRR, kind="hold", held=held)), "HOLD"))

    assert ("hold", (10.0, 20.0, 60.0)) == (result.key["metric"], result.samples)


def test_reconfiguration_gives_the_loss_and_the_time_without_service() -> None:
    """NDR, which the rate was derived from, is not a result: tests of NDR have it."""
    packets, time = of_test(recorded(message.render(RECONF), "RECONF"))

    assert ("reconf_packets", (500.0,), "packets") == (packets.key["metric"], packets.samples, packets.unit)
    assert ("reconf_time", (0.25,), "s") == (time.key["metric"], time.samples, time.unit)
    assert [(Better.LOWER, True)] * 2 == [(one.better, one.usable) for one in (packets, time)]


@pytest.mark.parametrize("measured", [RECONF.reconfiguration, None])
def test_reconfiguration_that_is_not_valid_has_a_reason(measured: Reconfiguration | None) -> None:
    doubtful = replace(RECONF, invalid="it loses always", reconfiguration=measured)

    found = list(of_test(recorded(message.render(doubtful), "RECONF")))

    assert ["it loses always"] * 2 == [one.invalid for one in found]
    assert ["packets", "s"] == [one.unit for one in found]
    assert [bool(measured)] * 2 == [bool(one.samples) for one in found]


def test_binary_search_gives_the_rate_that_it_searched() -> None:
    measurement = replace(NDRPDR, kind="binary", intervals={"plr1": Interval(5.0, 6.0)})

    assert ["plr1"] == list(by_metric(recorded(message.render(measurement))))


def test_parameters_come_from_metadata_names_and_tags() -> None:
    [result] = of_test(recorded(message.render(MRR), "MRR", "acl=20", "metric=lies"))

    assert (
        TraceKey.of(
            testbed="2n-clx",
            test="64b-mrr",
            suite="Ip4.Base",
            frame="64B",
            cores="1C",
            driver="vfio_pci",
            metric="mrr",
            acl="20",
        )
        == result.key
    )


@pytest.mark.parametrize(
    ("measurement", "tag"),
    [
        (MRR, "MRR"),
        (NDRPDR, "NDRPDR"),
        (SOAK, "SOAK"),
        (replace(MRR, kind="hold"), "HOLD"),
        (RECONF, "RECONF"),
    ],
    ids=["MRR", "NDRPDR", "SOAK", "HOLD", "RECONF"],
)
@pytest.mark.parametrize("status", ["FAIL", "SKIP"])
def test_test_without_a_result_belongs_to_the_same_traces(
    measurement: Measurement, tag: str, status: str
) -> None:
    passed = list(of_test(recorded(message.render(measurement), tag, "acl=20")))

    failed = list(of_test(recorded("no carrier", tag, "acl=20", status=status)))

    assert [result.key for result in passed] == [result.key for result in failed]
    assert {(Status(status.lower()), "no carrier", ())} == {
        (result.status, result.message, result.samples) for result in failed
    }


def test_test_that_its_testbed_cannot_run_has_no_result() -> None:
    found = interpret(recorded("not supported: testpmd has no access lists", "MRR", status="SKIP"))

    assert ((), ()) == (found.results, found.unknown)
    assert {result.key for result in of_test(recorded("", "MRR", status="FAIL"))} == found.unsupported
    assert list(of_test(recorded("not supported: lies", "MRR", status="FAIL")))
    assert list(of_test(recorded("no time left", "MRR", status="SKIP")))


def test_failed_test_keeps_what_it_had_measured() -> None:
    text = f"{message.render(MRR)}\n\nAlso teardown failed:\nno route"
    [result] = of_test(recorded(text, "MRR", status="FAIL"))

    assert 30.0 == result.value
    assert not result.usable
    assert message.MARKER not in result.message
    assert result.message.endswith("no route")


def test_testbed_falls_back_to_what_the_caller_knows_then_to_the_message() -> None:
    test = replace(recorded(message.render(MRR), "MRR"), testbed="")

    assert ["given", "1n-veth", "unknown"] == [
        next(of_test(test, testbed="given")).key["testbed"],
        next(of_test(test)).key["testbed"],
        next(of_test(replace(test, message="", status="FAIL"))).key["testbed"],
    ]


def test_details_hold_everything_else_of_the_message() -> None:
    trial = Trial(1.0, 2.0, 2.0, 3, 4)
    measurement = replace(MRR, trials=(trial,), counters="counters/a.json", versions={"device": "abc"})
    [result] = of_test(recorded(message.render(measurement), "MRR"))

    expected = message.document(measurement)
    del expected["samples"]
    assert expected == result.details


@pytest.mark.parametrize(
    ("text", "metrics", "reason"),
    [
        ("", ["mrr"], "no known form"),
        ("MaxReceivedRate_Results [pkts/1sec]: tx 2", ["mrr"], "no known form"),
        ("perftrend: {", ["mrr"], "broken"),
        (message.render(MRR).replace('"schema":1', '"schema":9'), ["mrr"], "upgrade perftrend"),
        (message.render(replace(MRR, samples=())), ["mrr"], "has no such result"),
        (message.render(replace(MRR, invalid="generator too slow")), ["mrr"], "generator too slow"),
        (message.render(NDRPDR), ["ndr", "pdr", "mrr"], "has no such result"),
        ("Maximum Receive Rate trial results in packets per second: [1.0, x]", ["mrr"], "cannot be read"),
    ],
)
def test_what_cannot_be_trusted_is_a_result_with_a_reason(text: str, metrics: list[str], reason: str) -> None:
    results = by_metric(recorded(text, "MRR"))

    assert metrics == list(results)
    assert reason in results["mrr"].invalid


def test_search_without_bounds_or_tag_is_not_dropped() -> None:
    [result] = of_test(recorded(message.render(replace(NDRPDR, intervals={}))))

    assert "ndrpdr" == result.key["metric"]
    assert result.invalid


def test_test_that_measures_nothing_is_none_of_ours() -> None:
    assert [] == list(of_test(recorded("hello", "smoke")))


def test_trials_of_a_foreign_message_are_read() -> None:
    text = "Maximum Receive Rate trial results in packets per second: [17823451.0, 17799021.0]"
    [result] = of_test(recorded(text, "MRR"))

    assert (17823451.0, 17799021.0) == result.samples
    assert 17811236.0 == result.value
    assert result.usable


FOREIGN_SEARCH = """\
NDR_LOWER: 12345678.0 pps, 8.296 Gbps (untagged) 
LATENCY usec [min/avg/max] per stream: ['10/12/40', '10/11/39'] 
NDR_UPPER: 12407406.4 pps, 8.337 Gbps (untagged)
PDR_LOWER: 13000000.0 pps, 8.736 Gbps (untagged) 
LATENCY usec [min/avg/max] per stream: ['10/12/40', '10/11/39'] 
Minimal rate loss fraction 0.01 does not reach target 0.005.
PDR_UPPER: 13065000.0 pps, 8.779 Gbps (untagged)
"""  # noqa: W291 - that is how they end


def test_bounds_of_a_foreign_message_are_read() -> None:
    results = by_metric(recorded(FOREIGN_SEARCH, "NDRPDR"))

    assert {"ndr": 12345678.0, "pdr": 13000000.0} == {name: result.value for name, result in results.items()}
    assert results["ndr"].usable
    assert "Minimal rate loss fraction 0.01 does not reach target 0.005" == results["pdr"].invalid


def test_other_units_are_not_taken_for_packets_per_second() -> None:
    """A trace has one unit: what its test's name does not say is another trace."""
    [result, missing] = of_test(recorded("NDR_LOWER: 512345.0 CPS", "NDRPDR"))

    assert ("ndr_cps", "cps", 512345.0) == (result.key["metric"], result.unit, result.value)
    assert "pdr" == missing.key["metric"]


def test_oldest_output_gives_what_is_written_in_it() -> None:
    """Numbered tests, two ways to name the cores, a failed set-up, and a failed test with a result."""
    outputs = Path(__file__).parents[2] / "data" / "outputs"
    output = Output(outputs / "rf2.xml")
    found = [
        {
            "key": dict(result.key.parameters),
            "status": result.status,
            "samples": list(result.samples),
            "message": result.message,
            "details": result.details,
        }
        for result in output
    ]

    assert json.loads((outputs / "rf2.results.json").read_text()) == found
    assert {"vpp": "17.04-rc0~123-gabcdef012~b45", "dpdk": "17.02.0"}.items() <= output.versions.items()
    assert datetime(2017, 4, 10, 18, 59, 27, tzinfo=UTC) == output.started


SUITE = "Vpp.Perf.Ip4.2N1L-10Ge2P1X710-Ethip4-Ip4Base-Mrr"


def parameters_of(name: str, *tags: str, suite: str = SUITE) -> dict[str, str]:
    return results.parameters_of(RecordedTest(name, suite, list(tags)))


def test_names_of_others_tell_what_tags_repeat() -> None:
    expected = {
        "test": "64b-2t1c-ethip4-ip4base-mrr",
        "suite": SUITE,
        "frame": "64B",
        "cores": "1C",
        "threads": "2T",
        "nic": "10ge2p1x710",
    }

    assert expected == parameters_of("64b-2t1c-ethip4-ip4base-mrr")
    assert expected == parameters_of(
        "64b-2t1c-ethip4-ip4base-mrr", "64B", "1C", "2T1C", "NIC_Intel-X710", "MRR"
    )


def test_number_of_a_test_is_no_part_of_its_name() -> None:
    """Tests were numbered by their place: a new one would have cut the traces of all behind it."""
    found = parameters_of("tc01-64B-1t1c-eth-l2xcbase-ndrdisc", "NIC_Intel-X520-DA2", suite="Perf.L2")

    assert "64b-1t1c-eth-l2xcbase-ndrdisc" == found["test"]
    assert ("64B", "1C", "intel-x520-da2") == (found["frame"], found["cores"], found["nic"])


def test_names_of_our_own_suites_give_the_parameters_of_their_tags() -> None:
    name, suite = "imix-1c-ethip4-ip4base-mrr", "Ethip4-Ip4Base-Mrr"

    tagged = parameters_of(name, "IMIX", "1C", "DRV_VETH", "ethip4-ip4base", suite=suite)

    assert {"test": name, "suite": suite, "frame": "IMIX", "cores": "1C", "driver": "veth"} == tagged


def test_tag_counts_before_name() -> None:
    assert "1518B" == parameters_of("64b-1c-x-mrr", "1518B")["frame"]


@pytest.mark.parametrize(
    ("name", "tags", "metrics"),
    [
        ("t", ["MRR"], ["mrr"]),
        ("t", ["NDRPDR", "NDR"], ["ndr", "pdr"]),
        ("t", ["NDRPDR", "PLR_0.01", "PLR_1E-05"], ["ndr", "pdr", "pdr_0.01", "pdr_1e-05"]),
        ("t", ["MRR", "PLR_0.01"], ["mrr"]),
        ("t", ["PDRDISC"], ["pdr"]),
        ("t", ["RECONF"], ["reconf_packets", "reconf_time"]),
        ("t", ["LATENCY", "NDRPDR"], ["ndr", "pdr", "latency_10", "latency_50", "latency_90"]),
        ("t", ["LATENCY", "MRR"], ["mrr"]),
        ("64b-2t1c-ethip4-ip4base-ndrpdr", [], ["ndr", "pdr"]),
        ("tc01-64B-1t1c-eth-l2xcbase-ndrdisc", [], ["ndr"]),
        ("64b-2t1c-ethip4-ip4base-mrr", ["SOAK"], ["soak"]),
        ("check-mrr", [], []),
        ("64b-2t1c-ethip4-ip4base-func", [], []),
        ("64b-1c-ldpreload-cps", ["HOSTSTACK"], ["hoststack_rate"]),
        ("9000b-1c-iperf3-bps", ["HOSTSTACK"], ["hoststack_bandwidth"]),
    ],
)
def test_tags_or_the_end_of_the_name_tell_what_is_measured(
    name: str, tags: list[str], metrics: list[str]
) -> None:
    assert metrics == results.metrics_of(RecordedTest(name, "", tags))


@pytest.mark.parametrize(
    ("metric", "name", "tags", "unit"),
    [
        ("ndr", "64b-2t1c-ethip4-ip4base-ndrpdr", [], "pps"),
        ("ndr", "64b-2t1c-ethip4tcp-nat44ed-cps-ndrpdr", [], "cps"),
        ("mrr", "t", ["TCP_CPS"], "cps"),
        ("reconf_time", "t", [], "s"),
        ("reconf_packets", "t", [], "packets"),
        ("latency_90", "64b-2t1c-ethip4tcp-nat44ed-cps-ndrpdr", [], "us"),
        ("hoststack_rate", "64b-1c-nginx-rps", [], "rps"),
    ],
)
def test_unit_is_known_on_nights_that_failed(metric: str, name: str, tags: list[str], unit: str) -> None:
    assert unit == results.unit_of(metric, RecordedTest(name, "", tags))

"""Parameters of a trace out of names and tags, of our own suites and of others."""

from __future__ import annotations

import pytest

from perftrend.archive import results
from perftrend.archive.result_records import RecordedTest

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
        ("hoststack_rate", "64b-1c-nginx-rps", [], "rps"),
    ],
)
def test_unit_is_known_on_nights_that_failed(metric: str, name: str, tags: list[str], unit: str) -> None:
    assert unit == results.unit_of(metric, RecordedTest(name, "", tags))

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from perftrend.errors import SettingsError
from perftrend.measure.interfaces import Link, Node, Port
from perftrend.measure.testpmd import TestpmdDevice, arguments, describe_failure, parse_counters
from perftrend.measure.wiring import Loopback, NoWiring, VethPairs

VETH = VethPairs().links
CARDS = [
    Link(Port(mac="02:00:00:00:00:aa"), Port(pci="0000:3b:00.1", mac="02:00:00:00:00:01")),
    Link(Port(mac="02:00:00:00:00:bb"), Port(pci="3b:00.0", mac="02:00:00:00:00:02")),
]

COUNTERS = """testpmd> show port xstats all
###### NIC extended statistics for port 0 
rx_good_packets: 4000
tx_good_packets: 2500
###### NIC extended statistics for port 1 
rx_good_packets: 2500
tx_good_packets: 3999
testpmd> show fwd stats all

  ---------------------- Forward statistics for port 0  ----------------------
  RX-packets: 4000           RX-dropped: 7             RX-total: 4007
  TX-packets: 2500           TX-dropped: 0             TX-total: 2500
  ----------------------------------------------------------------------------

  ---------------------- Forward statistics for port 1  ----------------------
  RX-packets: 2500           RX-dropped: 0             RX-total: 2500
  TX-packets: 3999           TX-dropped: 1             TX-total: 4000
  ----------------------------------------------------------------------------

  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++
  RX-packets: 6500           RX-dropped: 7             RX-total: 6507
  TX-packets: 6499           TX-dropped: 1             TX-total: 6500
  ++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++

  CPU cycles/packet=6033.38 (total cycles=39216970 / total mac packets=6500) at 2600 MHz Clock
testpmd> """  # noqa: W291 - as testpmd writes it

# What DPDK 22.11.11 writes.
NO_MEMORY = """EAL: Physical addresses are unavailable, selecting IOVA as VA mode.
EAL: Selected IOVA mode 'VA'
Interactive-mode selected
testpmd: create a new mbuf pool <mb_pool_0>: n=16384, size=2176, socket=0
EAL: Error - exiting with code: 1
  Cause: Creation of mbuf pool for socket 0 failed: Cannot allocate memory
Port 0 is closed
"""
NO_CORE = """EAL: core 2 unavailable
EAL: invalid parameter for --lcores
EAL: FATAL: Invalid 'command line' arguments.
EAL: Error - exiting with code: 1
  Cause: Cannot init EAL: Invalid argument
"""
NO_HUGEPAGES = """EAL: No free 1048576 kB hugepages reported on node 0
EAL: FATAL: Cannot get hugepage information.
EAL: Error - exiting with code: 1
  Cause: Cannot init EAL: Permission denied
"""
NOT_STARTED = """rte_pmd_memif_probe(): Failed to register mp action callback: Operation not supported
Fail to start port 0: Operation not permitted
Not all ports were started
Done
testpmd> """


@pytest.fixture
def device() -> TestpmdDevice:
    return TestpmdDevice(VethPairs(), Node())


def of_dpdk(links: Sequence[Link], cpu: int | None = 1, **options: str) -> list[str]:
    found = arguments(links, cpu, options)
    return found[: found.index("--")]


def of_testpmd(links: Sequence[Link], **options: str) -> list[str]:
    found = arguments(links, 1, options)
    return found[found.index("--") + 1 :]


def test_interfaces_are_af_packet_ports_with_slots_for_long_frames() -> None:
    found = of_dpdk(VETH, memory_mb="128", descriptors="1024")

    assert [
        "-v", "--no-telemetry", "--lcores=0@1,1@1", "--no-huge", "-m", "128", "--no-shconf", "--no-pci",
        "--vdev=net_af_packet0,iface=d0,qpairs=1,blocksz=65536,framesz=2048,framecnt=1024",
        "--vdev=net_af_packet1,iface=d1,qpairs=1,blocksz=65536,framesz=2048,framecnt=1024",
    ] == found  # fmt: skip


def test_cards_are_the_only_ports_and_use_hugepages_without_files() -> None:
    found = of_dpdk(CARDS, cpu=4, cores="2")

    assert [
        "-v", "--no-telemetry", "--lcores=0@4,1@4,2@5", "--in-memory", "--allow=3b:00.0",
        "--allow=0000:3b:00.1",
    ] == found  # fmt: skip


def test_without_a_core_testpmd_chooses_those_that_it_may_use() -> None:
    assert not [argument for argument in of_dpdk(VETH, cpu=None) if "lcores" in argument]


def test_routed_frames_are_sent_to_the_generator_at_the_port_of_testpmd() -> None:
    """The ports are numbered by their PCI addresses."""
    found = of_testpmd(CARDS, forwarding="ip4", descriptors="2048", burst="64", mbufs="65536", cores="2")

    assert [
        "--interactive", "--nb-cores=2", "--rxq=2", "--txq=2", "--forward-mode=mac",
        "--eth-peer=0,02:00:00:00:00:bb", "--eth-peer=1,02:00:00:00:00:aa", "--rxd=2048", "--txd=2048",
        "--burst=64", "--total-num-mbufs=65536",
    ] == found  # fmt: skip


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "--forward-mode=mac"),
        ({"forwarding": "l2"}, "--forward-mode=io"),
        ({"forwarding": "l2", "forward_mode": "macswap"}, "--forward-mode=macswap"),
        ({"lookups": "0"}, "--forward-mode=mac"),
        ({"lookups": "9"}, "--forward-mode=noisy"),
        ({"lookups": "9"}, "--noisy-lkup-num-reads=9"),
    ],
)
def test_mode_is_that_of_the_test_unless_another_is_set(options: dict[str, str], expected: str) -> None:
    assert expected in of_testpmd(VETH, **options)


def test_frames_are_sent_to_no_address_that_the_file_does_not_have() -> None:
    links = [Link(replace(link.generator, mac=""), link.device) for link in CARDS]

    assert "--forward-mode=io" in of_testpmd(links, forwarding="l2")
    with pytest.raises(SettingsError, match="needs the MAC addresses of the generator's ports"):
        of_testpmd(links, forwarding="ip4")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"descriptor": "64"}, "no option 'descriptor'; did you mean 'descriptors'"),
        ({"descriptors": "100"}, "descriptors=100: write a multiple of 32"),
        ({"forward_mode": "csum"}, "forward_mode='csum'; known are io, mac, macswap"),
        ({"mbufs": "1024"}, "mbufs='1024': write a number from 1025"),
        ({"burst": "0"}, "burst='0'"),
        ({"cores": "1 --vdev=x"}, "cores='1 --vdev=x'"),
        ({"lookups": "5", "forward_mode": "mac"}, "forward_mode=mac: with lookups"),
    ],
)
def test_option_that_cannot_be_used_is_named(
    device: TestpmdDevice, options: Mapping[str, str], reason: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        device.check(options)

    assert reason in str(raised.value)


@pytest.mark.parametrize(
    "options",
    [{}, {"acl_rules": "0", "descriptors": "64"}, {"lookups": "0", "forward_mode": "mac"}, {"lookups": "5"}],
)
def test_options_are_accepted(device: TestpmdDevice, options: Mapping[str, str]) -> None:
    device.check(options)


def test_tests_with_access_lists_are_not_run(device: TestpmdDevice) -> None:
    assert "testpmd does not support acl_rules=20 for forwarding=ip4" == device.lacks({"acl_rules": "20"})
    assert "" == device.lacks({"acl_rules": "0", "forwarding": "ip4"})
    with pytest.raises(SettingsError, match="not support acl_rules=20"):
        device.start({"acl_rules": "20"})


@pytest.mark.parametrize("forwarding", ["ip4", "ip6", "l2", "l2xc"])
def test_vlans_are_supported(device: TestpmdDevice, forwarding: str) -> None:
    assert "" == device.lacks({"forwarding": forwarding, "vlan": "100"})
    assert f"testpmd does not support vlan=100,200 for forwarding={forwarding}" == device.lacks(
        {"forwarding": forwarding, "vlan": "100,200"}
    )


@pytest.mark.parametrize(("forwarding", "mode"), [("ip6", "mac"), ("l2xc", "io")])
def test_mode_depends_on_what_is_forwarded(forwarding: str, mode: str) -> None:
    assert f"--forward-mode={mode}" in arguments(CARDS, 1, {"forwarding": forwarding})


def test_receive_queues_are_those_of_the_test() -> None:
    found = arguments(VETH, 1, {"cores": "2", "receive_queues": "4"})

    assert {"--nb-cores=2", "--rxq=4", "--txq=4"} <= {*found}
    assert 2 == sum(",qpairs=4," in argument for argument in found)


def test_tests_with_fewer_receive_queues_than_cores_are_not_run() -> None:
    device = TestpmdDevice(VethPairs(), Node())

    assert "" == device.lacks({"cores": "4", "receive_queues": "2"})
    assert "cores=4 with receive_queues=1: 2 cores would have no queue" == device.lacks(
        {"cores": "4", "receive_queues": "1"}
    )


def test_tests_with_more_cores_than_this_machine_has_are_not_run() -> None:
    available = sorted(os.sched_getaffinity(0))
    device = TestpmdDevice(VethPairs(), Node(cpu=available[-1]))

    reason = device.lacks({"cores": "2"})

    assert "" == device.lacks({"cores": "1"})
    assert f"testpmd does not support cores=2: this machine has no core {available[-1] + 1}" == reason


def test_cores_of_another_machine_are_not_known() -> None:
    wiring = VethPairs()
    wiring.is_remote = True

    assert "" == TestpmdDevice(wiring, Node(cpu=1_000)).lacks({"cores": "4"})


def test_counters_are_those_of_each_port_and_the_cycles_of_all_frames() -> None:
    found = parse_counters(COUNTERS)

    first, second = found["ports"]
    assert (4000, 2500, 7, 0) == tuple(
        first[name] for name in ("rx_good_packets", "tx_good_packets", "RX-dropped", "TX-dropped")
    )
    assert (2500, 3999, 0, 1) == tuple(
        second[name] for name in ("rx_good_packets", "tx_good_packets", "RX-dropped", "TX-dropped")
    )
    assert (39216970, 6500) == (found["total_cycles"], found["total_packets"])
    assert found == parse_counters(COUNTERS.replace("(total cycles=", "(busy cycles="))


def test_cycles_per_packet_are_those_between_two_readings() -> None:
    device = TestpmdDevice(NoWiring(), Node())
    before = {"ports": [], "total_cycles": 1000, "total_packets": 10}

    found = device.cycles_per_packet(before, {"ports": [], "total_cycles": 7000, "total_packets": 30})

    assert {"total": 300.0} == found
    assert {} == device.cycles_per_packet(before, before)


def test_testpmd_that_counts_no_cycles_has_none_per_packet() -> None:
    assert {} == TestpmdDevice(NoWiring(), Node()).cycles_per_packet({"ports": []}, {"ports": []})


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (NO_MEMORY, "Creation of mbuf pool for socket 0 failed: Cannot allocate memory"),
        (NO_CORE, "EAL: core 2 unavailable; Cannot init EAL: Invalid argument"),
        (
            NO_HUGEPAGES,
            "EAL: FATAL: Cannot get hugepage information.; Cannot init EAL: Permission denied; "
            "reserve hugepages, or set the device option memory_mb",
        ),
        (
            NOT_STARTED,
            "rte_pmd_memif_probe(): Failed to register mp action callback: Operation not supported; "
            "Not all ports were started",
        ),
    ],
    ids=["memory", "core", "hugepages", "port"],
)
def test_failure_is_described_by_its_first_message_and_its_cause(output: str, expected: str) -> None:
    assert f"testpmd did not start: {expected}" == describe_failure(output)


def test_output_without_a_failure_has_no_description() -> None:
    assert "" == describe_failure(
        "EAL: Physical addresses are unavailable, selecting IOVA as VA mode.\nDone\n"
    )


def test_without_ports_it_is_unusable() -> None:
    unconnected = Link(Port(), Port())

    for wiring in (Loopback(), NoWiring(links=[*CARDS * 2, CARDS[0]]), NoWiring(links=[unconnected] * 2)):
        assert "testpmd needs 1 to 4 links" in TestpmdDevice(wiring, Node()).unusable()
    for links in (CARDS, CARDS[:1], [*CARDS, CARDS[0]], CARDS * 2):
        assert "" == TestpmdDevice(NoWiring(links=links), Node()).unusable()


def test_ports_are_paired_in_the_order_of_the_links() -> None:
    """The program has its ports in the order of their addresses, and pairs them in this order."""
    peer = Port(mac="02:00:00:00:0c:00")
    links = [Link(peer, Port(pci=f"0000:3b:00.{function}")) for function in (0, 2, 1, 3)]

    assert "--portlist=0,2,1,3" in arguments(links, None, {})
    assert not [word for word in arguments(links[:2], None, {}) if "portlist" in word or "topology" in word]
    assert "--port-topology=loop" in arguments(links[:1], None, {})


def test_without_root_and_without_the_program_it_is_unusable(
    device: TestpmdDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    without_program = device.unusable()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert "the program dpdk-testpmd is missing (Debian: apt-get install dpdk-dev)" == without_program
    assert "testpmd needs root" in device.unusable()


def test_device_that_is_not_started_has_no_processes_and_no_counters(device: TestpmdDevice) -> None:
    device.stop()

    assert ([], {}) == (device.busy_processes(), device.counters())


def test_long_frames_have_slots_and_buffers_that_hold_them() -> None:
    """An AF_PACKET port of DPDK 22.11 refuses --max-pkt-len, and slots that do not fit into a buffer."""
    assert "--vdev=net_af_packet0,iface=d0,qpairs=1,blocksz=294912,framesz=9216,framecnt=4096" in of_dpdk(
        VethPairs().links, frame_bytes="9000"
    )
    assert ["--mbuf-size=9344", "--total-num-mbufs=32768"] == of_testpmd(
        VethPairs().links, frame_bytes="9000"
    )[-2:]


def test_cards_are_set_up_for_long_frames() -> None:
    found = of_testpmd(CARDS, frame_bytes="9000", mbufs="65536")

    assert ["--mbuf-size=9344", "--max-pkt-len=9000", "--total-num-mbufs=65536"] == found[-3:]
    assert not [word for word in of_testpmd(CARDS) if "pkt-len" in word or "mbuf" in word]


def test_long_frames_are_supported(device: TestpmdDevice) -> None:
    assert "" == device.lacks({"frame_bytes": "9000"})

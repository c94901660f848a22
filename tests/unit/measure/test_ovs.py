"""Options, rules and counters of Open vSwitch; the texts to parse are those of version 3.1.0."""

from __future__ import annotations

import os
import re
import shutil
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from perftrend.errors import SettingsError, TestbedError
from perftrend.measure import ovs, ovs_network
from perftrend.measure.embedded import frames
from perftrend.measure.interfaces import Link, Node, Port
from perftrend.measure.ovs import OvsDevice
from perftrend.measure.traffic import DEFAULT_FLOWS
from perftrend.measure.wiring import Loopback, NoWiring, VethPairs

PORTS = [Port("d0", "02:00:00:00:0d:00"), Port("d1", "02:00:00:00:0d:01")]
FOUR = VethPairs(link_count="4").links
LINKS = [Link(Port(), port, f"02:00:00:00:0a:0{number}") for number, port in enumerate(PORTS)]

STATISTICS = """\
pmd thread numa_id 0 core_id 1:
  packets received: 4333032
  packet recirculations: 0
  avg. datapath passes per packet: 1.00
  emc hits: 4281551
  megaflow hits: 51479
  avg. subtable lookups per megaflow hit: 1.25
  miss with success upcall: 2
  idle cycles: 44507476544 (56.01%)
  processing cycles: 34953174816 (43.99%)
  avg cycles per packet: 18338.35 (79460651360/4333032)
main thread:
  packets received: 7
"""
DATAPATH = """\
netdev@ovs-netdev:
  lookups: hit:1151620 missed:2 lost:0
  flows: 466
  port 0: ovs-netdev (tap)
"""


@pytest.fixture
def device() -> OvsDevice:
    return OvsDevice(VethPairs(), Node())


@pytest.mark.parametrize(
    "options", [{}, {"forwarding": "l2", "emc": "no"}, {"acl_rules": "10000", "base_rules": "10000"}]
)
def test_valid_options_are_accepted(device: OvsDevice, options: dict[str, str]) -> None:
    device.check(options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"acl_rulez": "1"}, "no option 'acl_rulez'; did you mean 'acl_rules'"),
        ({"acl_rules": "10001"}, "acl_rules='10001': write a number from 0 to 10000"),
        ({"acl_rules": "1,actions=flood"}, "acl_rules='1,actions=flood'"),
        ({"forwarding": "ip5"}, "forwarding='ip5'; did you mean 'ip6'"),
        ({"emc": "off"}, "emc='off'; known are no, yes"),
    ],
)
def test_invalid_option_is_named(device: OvsDevice, options: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError) as refused:
        device.check(options)

    assert message in str(refused.value)


def test_file_of_rules_is_accepted(device: OvsDevice, tmp_path: Path) -> None:
    file = tmp_path / "flows.txt"
    file.write_text("priority=5,udp,tp_dst=53,actions=drop\n")

    device.check({"flows": str(file)})


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file or directory"), (b"\xff\xfe", "it is not a text file")]
)
def test_file_of_rules_that_cannot_be_read_is_named(
    device: OvsDevice, tmp_path: Path, content: bytes | None, reason: str
) -> None:
    file = tmp_path / "flows.txt"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(SettingsError) as refused:
        device.check({"flows": str(file)})

    assert f"device option flows='{file}': {reason}; give the path" in str(refused.value)


REFUSED_RULE = """\
nsenter -t 1 -- ovs-ofctl --bundle add-flows unix:/x.mgmt -: Error OFPBAC_BAD_OUT_GROUP for: \
OFPT_FLOW_MOD (OF1.4) (xid=0x7): ADD priority=6 actions=group:9
Error OFPBFC_MSG_FAILED for: OFPT_BUNDLE_CONTROL (OF1.4) (xid=0xa):
 bundle_id=0 type=COMMIT_REQUEST flags=atomic ordered
ovs-ofctl: talking to unix:/x.mgmt (Protocol error)"""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("…add-flows x -: ovs-ofctl: -:3: unknown action outputt", "line 3: unknown action outputt"),
        (
            "table 300 is outside the range\novs-ofctl: -:1: 300: resubmit to unknown table",
            "line 1: 300: resubmit to unknown table",
        ),
        (REFUSED_RULE, "rule priority=6 actions=group:9: the switch refuses it (OFPBAC_BAD_OUT_GROUP)"),
        ("ovs-ofctl: /x.mgmt: failed to connect to socket (No such file or directory)", ""),
    ],
)
def test_wrong_rule_is_found_in_what_the_program_wrote(text: str, problem: str) -> None:
    assert problem == ovs_network.parse_flow_error(text)


def test_without_root_it_is_unusable(device: OvsDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(TestbedError, match="needs root"):
        device.start({})


def test_missing_program_is_named_with_its_package(
    device: OvsDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda _: None)

    assert device.unusable().endswith("missing (Debian: apt-get install openvswitch-switch)")


def test_wiring_without_interfaces_is_refused() -> None:
    assert "needs 1 to 4 links" in OvsDevice(Loopback(), Node()).unusable()


def test_program_that_never_started_has_no_counters(device: OvsDevice) -> None:
    device.stop()

    assert {} == device.counters()
    assert [] == list(device.busy_processes())


def test_interfaces_become_ports_of_af_xdp() -> None:
    words = " ".join(ovs.configuration(PORTS, {}, cpu=3))

    assert "other_config:pmd-cpu-mask=0x8" in words
    assert "add-port perftrend d0 -- set interface d0 ofport_request=1 options:n_rxq=1 type=afxdp" in words
    assert "add-port perftrend d1 -- set interface d1 ofport_request=2 options:n_rxq=1 type=afxdp" in words
    assert "dpdk" not in words
    assert "emc-insert-inv-prob" not in words


@pytest.mark.parametrize(
    ("ports", "cores", "mask", "queues"),
    [(PORTS, 2, "0x18", 1), (PORTS, 3, "0x38", 2), (PORTS, 4, "0x78", 2), (PORTS[:1], 4, "0x78", 4)],
)
def test_each_core_has_a_queue(ports: list[Port], cores: int, mask: str, queues: int) -> None:
    words = ovs.configuration(ports, {"cores": str(cores)}, cpu=3)

    assert f"other_config:pmd-cpu-mask={mask}" in words
    assert len(ports) == words.count(f"options:n_rxq={queues}")


def test_cores_that_are_missing_or_unknown_are_a_reason_to_skip(device: OvsDevice) -> None:
    last = max(os.sched_getaffinity(0))
    pinned = OvsDevice(VethPairs(), Node(cpu=last))

    assert f"this machine has no core {last + 1}" in pinned.lacks({"cores": "2"})
    assert "" == pinned.lacks({"cores": "1"})
    assert "cores=2: the testbed's file has no cpu of the device" == device.lacks({"cores": "2"})


def test_interfaces_may_be_ports_of_linux_that_one_thread_serves(device: OvsDevice) -> None:
    options = {"port_type": "system"}

    assert 2 == ovs.configuration(PORTS, options, cpu=3).count("type=system")
    assert "" == device.lacks({**options, "frame_bytes": "9000"})
    assert "Open vSwitch does not support cores=2 for" in device.lacks({**options, "cores": "2"})


def test_bridge_of_four_ports_floods_no_frame_into_another_pair() -> None:
    words = " ".join(ovs.configuration([link.device for link in FOUR], {}, cpu=3))

    assert ["1", "1", "2", "2"] == re.findall(r"tag=(\d) vlan_mode=dot1q-tunnel", words)
    assert "tag" not in " ".join(ovs.configuration(PORTS, {}, cpu=3))


def test_frames_leave_by_the_other_port_of_the_pair_or_by_the_only_one() -> None:
    four = list(ovs_network.rules(FOUR, {"forwarding": "l2xc"}))

    assert ["in_port=1,actions=output:2", "in_port=4,actions=output:3"] == [
        rule.removeprefix("priority=1,") for rule in (four[0], four[3])
    ]
    assert ["priority=1,in_port=1,actions=in_port"] == list(
        ovs_network.rules(FOUR[:1], {"forwarding": "l2xc"})
    )
    assert "priority=2,ip,in_port=4,nw_dst=10.30.0.1," in ovs_network.route(FOUR, 6, {})
    assert "priority=2,ip,in_port=1,nw_dst=10.20.0.3," in ovs_network.route(FOUR[:1], 7, {})


def test_ports_with_a_pci_address_belong_to_dpdk() -> None:
    ports = [Port(mac="0a:00:00:00:00:01", pci="0000:3b:00.0"), Port("wan", pci="0000:3b:00.1")]

    words = " ".join(ovs.configuration(ports, {}, cpu=None))

    assert "other_config:dpdk-init=true" in words
    assert "set interface dpdk0 ofport_request=1 options:n_rxq=1 type=dpdk" in words
    assert "options:dpdk-devargs=0000:3b:00.0" in words
    assert "add-port perftrend wan" in words
    assert "pmd-cpu-mask" not in words


def test_without_the_exact_match_cache_no_flow_enters_it() -> None:
    assert "other_config:emc-insert-inv-prob=0" in ovs.configuration(PORTS, {"emc": "no"}, cpu=0)


def test_ports_of_tunnels_have_bridges_of_their_own() -> None:
    words = " ".join(ovs.configuration(PORTS, {"tunnel": "geneve"}, cpu=3))

    for number in (0, 1):
        assert (
            f"-- set bridge perftrend{number} datapath_type=netdev fail-mode=secure "
            f"other-config:hwaddr=02:00:00:00:0d:0{number} -- add-port perftrend{number} d{number} "
        ) in words
        assert f"-- set interface d{number} ofport_request=1 " in words
        assert (
            f"-- add-port perftrend tunnel{number} -- set interface tunnel{number} type=geneve "
            f"ofport_request={number + 1} options:remote_ip=198.18.{number}.2 options:key={100 + number}"
        ) in words


def test_tunnels_have_addresses_and_neighbours() -> None:
    assert [
        "ip address add 198.18.0.1/24 dev perftrend0",
        "ip link set perftrend0 up",
        "ip address add 198.18.1.1/24 dev perftrend1",
        "ip link set perftrend1 up",
    ] == [" ".join(command) for command in ovs_network.tunnel_addresses(LINKS)]
    assert [
        "tnl/neigh/set perftrend0 198.18.0.2 02:00:00:00:0a:00",
        "tnl/neigh/set perftrend1 198.18.1.2 02:00:00:00:0a:01",
    ] == [" ".join(command) for command in ovs_network.tunnel_neighbours(LINKS)][1:]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"tunnel": "vxlan"},
            ["udp,udp_dst=4789,in_port=1,actions=LOCAL", "udp,udp_dst=4789,in_port=LOCAL,actions=output:1"],
        ),
        (
            {"tunnel": "geneve", "vlan": "7"},
            [
                "udp,udp_dst=6081,dl_vlan=7,in_port=1,actions=strip_vlan,LOCAL",
                "udp,udp_dst=6081,in_port=LOCAL,actions=mod_vlan_vid:7,output:1",
            ],
        ),
    ],
)
def test_bridge_of_a_port_forwards_only_the_tunnel(options: dict[str, str], expected: list[str]) -> None:
    assert expected == list(ovs_network.tunnel_rules(0, options))


def test_frames_in_a_tunnel_have_no_tag() -> None:
    options = {"forwarding": "l2", "tunnel": "vxlan", "vlan": "7"}

    assert ["priority=1,actions=NORMAL"] == list(ovs_network.rules(LINKS, options))


def test_tunnels_of_four_ports_are_two_pairs() -> None:
    ports = [link.device for link in FOUR]
    words = " ".join(ovs.configuration(ports, {"tunnel": "vxlan"}, cpu=3))

    assert ["tunnel0 tag=1", "tunnel1 tag=1", "tunnel2 tag=2", "tunnel3 tag=2"] == re.findall(
        r"set port (tunnel\d tag=\d)", words
    )
    assert 4 == words.count("type=vxlan")


def test_router_sends_frames_of_each_port_to_the_host_behind_the_other() -> None:
    assert [
        "priority=1,ip,in_port=1,actions=mod_dl_src:02:00:00:00:0d:01,mod_dl_dst:02:00:00:00:0a:01,"
        "dec_ttl,output:2",
        "priority=1,ip,in_port=2,actions=mod_dl_src:02:00:00:00:0d:00,mod_dl_dst:02:00:00:00:0a:00,"
        "dec_ttl,output:1",
    ] == list(ovs_network.rules(LINKS, {"forwarding": "ip4"}))


def test_rules_match_the_traffic_of_the_test() -> None:
    [first, _] = ovs_network.rules(LINKS, {"forwarding": "ip6", "vlan": "7"})
    assert first.startswith("priority=1,ipv6,dl_vlan=7,in_port=1,actions=mod_dl_src:")
    assert "priority=1,in_port=1,actions=output:2" == next(ovs_network.rules(LINKS, {"forwarding": "l2xc"}))
    assert "priority=1,dl_vlan=7,actions=NORMAL" == next(
        ovs_network.rules(LINKS, {"forwarding": "l2", "vlan": "7"})
    )
    assert next(ovs_network.rules(LINKS, {"forwarding": "ip6", "acl_rules": "1"})).startswith(
        "priority=3,udp6,ipv6_src=2001:db8:a::2,udp_src=1025/"
    )


def test_bridge_learns() -> None:
    assert ["priority=1,actions=NORMAL"] == list(ovs_network.rules(LINKS, {"forwarding": "l2"}))


def test_no_rule_of_the_access_list_drops_traffic_or_is_there_twice() -> None:
    rules = list(ovs_network.rules(LINKS, {"acl_rules": "10000", "base_rules": "10000"}))[:-2]
    matches = [re.fullmatch(r"priority=3,udp,nw_src=(\S+),udp_src=1025/(\S+),actions=drop", rule)
               for rule in rules]  # fmt: skip
    masks = [int(match[2], 16) for match in matches if match]

    assert 20_000 == len(masks) == len(set(rules))
    assert all(mask & 1024 != mask & 1025 for mask in masks)
    assert all(mask <= 0xFFFF for mask in masks)


def test_each_rule_gives_another_flow_a_mask_until_all_have_one() -> None:
    rules = list(ovs_network.rules(LINKS, {"acl_rules": str(2 * DEFAULT_FLOWS)}))[:-2]
    hosts = {match[1] for rule in rules if (match := re.search(r"nw_src=([\d.]+)", rule))}
    masks = {match[1] for rule in rules if (match := re.search(r"udp_src=1025/(\w+)", rule))}

    expected = {
        str(IPv4Address(network + 2 + flow))
        for network in frames.NETWORKS[:2]
        for flow in range(DEFAULT_FLOWS)
    }
    assert expected == hosts
    assert DEFAULT_FLOWS == len(masks)


def test_counters_of_threads_are_parsed() -> None:
    threads = ovs.parse_threads(STATISTICS)

    assert {"1", "main"} == set(threads)
    assert 4333032 == threads["1"]["packets received"]
    assert 1.25 == threads["1"]["subtable lookups per megaflow hit"]
    assert 44507476544 == threads["1"]["idle cycles"]
    assert 18338.35 == threads["1"]["cycles per packet"]
    assert {"packets received": 7} == threads["main"]


def test_cycles_per_packet_are_those_of_all_threads_without_polling_in_vain() -> None:
    device = OvsDevice(NoWiring(), Node())
    before = {"threads": ovs.parse_threads(STATISTICS)}
    one, other = dict(before["threads"]["1"]), {"processing cycles": 500.0, "packets received": 10.0}
    one["processing cycles"] += 10_000
    one["packets received"] += 90
    one["idle cycles"] += 1_000_000

    found = device.cycles_per_packet(before, {"threads": {**before["threads"], "1": one, "2": other}})

    assert {"total": 105.0} == found
    assert {} == device.cycles_per_packet({}, {})


def test_lookups_in_the_cache_are_parsed() -> None:
    assert {"hit": 1151620, "missed": 2, "lost": 0, "flows": 466} == ovs.parse_cache(DATAPATH)


def test_number_of_rules_is_parsed() -> None:
    text = "NXST_AGGREGATE reply (xid=0x4): packet_count=1121254 byte_count=67275240 flow_count=22\n"

    assert {"packets": 1121254, "rules": 22} == ovs.parse_rules(text)


@pytest.mark.parametrize("parse", [ovs.parse_threads, ovs.parse_cache, ovs.parse_rules])
def test_output_of_another_version_gives_no_counters(parse: object) -> None:
    assert callable(parse)
    assert {} == parse("statistics: none\n")


def test_route_does_for_one_host_what_the_rule_of_its_port_does() -> None:
    rules = [rule.split(",actions=") for rule in ovs_network.rules(LINKS, {})]

    assert [
        ["priority=2,ip,in_port=2,nw_dst=10.10.0.0", rules[1][1]],
        ["priority=2,ip,in_port=1,nw_dst=10.20.0.0", rules[0][1]],
        ["priority=2,ip,in_port=2,nw_dst=10.10.0.1", rules[1][1]],
    ] == [ovs_network.route(LINKS, number, {}).split(",actions=") for number in range(3)]


def test_route_matches_the_traffic_of_the_test() -> None:
    """With a VLAN, frames without its tag must not be forwarded by a route."""
    rule = ovs_network.route(LINKS, 3, {"forwarding": "ip6", "vlan": "7"})

    assert rule.startswith("priority=2,ipv6,dl_vlan=7,in_port=1,ipv6_dst=2001:db8:14::1,actions=mod_dl_src:")


def test_frames_change_to_the_vlan_of_their_link() -> None:
    options = {"forwarding": "l2xc", "vlan": "7,8"}
    assert [
        "priority=1,dl_vlan=7,in_port=1,actions=mod_vlan_vid:8,output:2",
        "priority=1,dl_vlan=8,in_port=2,actions=mod_vlan_vid:7,output:1",
    ] == list(ovs_network.rules(LINKS, options))

    route = ovs_network.route(LINKS, 0, {"vlan": "7,8"})
    assert route.startswith(
        "priority=2,ip,dl_vlan=8,in_port=2,nw_dst=10.10.0.0,actions=mod_vlan_vid:7,mod_dl_"
    )

    [first, second, *_] = ovs_network.rules(LINKS, {"vlan": "7,8", "acl_rules": "2"})
    assert first.startswith("priority=3,dl_vlan=7,udp,nw_src=10.10.")
    assert second.startswith("priority=3,dl_vlan=8,udp,nw_src=10.20.")


def test_tunnels_have_the_vlan_of_their_link() -> None:
    _, leaving = ovs_network.tunnel_rules(1, {"tunnel": "vxlan", "vlan": "7,8"})

    assert leaving.endswith("actions=mod_vlan_vid:8,output:1")


def test_bridge_does_not_learn_across_vlans() -> None:
    device = OvsDevice(VethPairs(), Node())

    assert "" == device.lacks({"forwarding": "l2", "vlan": "7"})
    assert "" == device.lacks({"forwarding": "l2xc", "vlan": "7,8"})
    assert "Open vSwitch does not support vlan=7,8 for forwarding=l2" == device.lacks(
        {"forwarding": "l2", "vlan": "7,8"}
    )


def test_ports_of_dpdk_forward_longer_frames_than_those_of_af_xdp(device: OvsDevice) -> None:
    cards = NoWiring({}, [Link(Port(), Port("", "", f"0000:3b:00.{number}")) for number in range(2)])

    assert "frames of 9000 bytes (Open vSwitch forwards up to 3000)" == device.lacks({"frame_bytes": "9000"})
    assert "" == device.lacks({"frame_bytes": "3000"})
    assert "" == OvsDevice(cards, Node()).lacks({"frame_bytes": "9000"})


def test_only_ports_of_dpdk_have_several_receive_queues() -> None:
    cards = NoWiring({}, [Link(Port(), Port(pci=f"0000:3b:00.{number}")) for number in range(2)])
    words = " ".join(ovs.configuration([Port(pci="0000:3b:00.0")], {"receive_queues": "4"}, cpu=1))

    assert "Open vSwitch does not support receive_queues=2 for forwarding=ip4" == OvsDevice(
        VethPairs(), Node()
    ).lacks({"receive_queues": "2"})
    assert "" == OvsDevice(cards, Node()).lacks({"receive_queues": "2"})
    assert " options:n_rxq=4 type=dpdk" in words


def test_ports_get_the_mtu_of_long_frames() -> None:
    cards = [Port("", "", "0000:3b:00.0"), Port("", "", "0000:3b:00.1")]

    found = ovs.configuration(cards, {"frame_bytes": "9000"}, cpu=1)

    assert 2 == found.count("mtu_request=8982")
    assert not [word for word in ovs.configuration(cards, {}, cpu=1) if "mtu" in word]

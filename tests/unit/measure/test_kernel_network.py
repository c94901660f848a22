"""The commands for interfaces that the kernel of the tests may not have, and their effects on each other."""

from __future__ import annotations

from collections.abc import Sequence

from perftrend.measure import kernel_network
from perftrend.measure.embedded import frames
from perftrend.measure.interfaces import Link
from perftrend.measure.wiring import VethPairs

LINKS = VethPairs().links


def lines(**options: str) -> list[str]:
    return commands(LINKS, **options)


def commands(links: Sequence[Link], **options: str) -> list[str]:
    return [" ".join(command) for command in kernel_network.commands(options, links)]


def test_routes_lead_to_the_interfaces_of_the_vlan() -> None:
    options = {"forwarding": "ip6", "vlan": "7"}

    assert "ip link add link d1 name perftrend-vlan1 type vlan id 7" in lines(**options)
    assert "ip route add 2001:db8:14::/48 via 2001:2::2 dev perftrend-vlan1 onlink" in lines(**options)
    assert [
        "route add 2001:db8:a:: via 2001:2::1 dev perftrend-vlan0 onlink",
        "route add 2001:db8:14:: via 2001:2::2 dev perftrend-vlan1 onlink",
    ] == kernel_network.routes(range(2), options, LINKS).splitlines()


def test_each_link_may_have_a_vlan() -> None:
    found = lines(forwarding="l2", vlan="7,8")

    assert "ip link add link d0 name perftrend-vlan0 type vlan id 7" in found
    assert "ip link add link d1 name perftrend-vlan1 type vlan id 8" in found
    assert "ip link set perftrend-vlan1 master perftrend-br0" in found


def test_tunnel_ends_on_the_vlan_and_is_bridged() -> None:
    found = lines(forwarding="l2", tunnel="geneve", vlan="7")

    assert "ip address add 198.18.1.1/24 dev perftrend-vlan1" in found
    assert "ip link add name perftrend-tun1 type geneve id 101 remote 198.18.1.2 dstport 6081" in found
    assert "ip link set perftrend-tun1 master perftrend-br0" in found
    assert "ip link set perftrend-vlan1 master perftrend-br0" not in found


def test_end_of_a_tunnel_is_known_without_a_query() -> None:
    found = lines(forwarding="l2xc", tunnel="vxlan")

    mac = frames.host_mac(0).hex(":")
    assert f"ip neigh replace 198.18.0.2 lladdr {mac} dev d0 nud permanent" in found
    assert (
        "ip link add name perftrend-tun0 type vxlan id 100 remote 198.18.0.2 dstport 4789 local 198.18.0.1"
        in found
    )


def test_each_pair_of_ports_has_a_bridge() -> None:
    found = commands(VethPairs(link_count="4").links, forwarding="l2")

    assert ["perftrend-br0", "perftrend-br0", "perftrend-br1", "perftrend-br1"] == [
        line.split()[-1] for line in found if " master " in line
    ]


def test_single_port_sends_back_by_routes_to_both_networks_or_as_a_hairpin() -> None:
    links = VethPairs(link_count="1").links
    way = "via 192.0.2.1 dev d0 onlink"

    assert [f"ip route add 10.{network}.0.0/16 {way}" for network in (10, 20)] == [
        line for line in commands(links) if "ip route" in line
    ]
    assert [f"route add 10.{network}.0.0 {way}" for network in (10, 20)] == (
        kernel_network.routes(range(2), {}, links).splitlines()
    )
    assert "bridge link set dev d0 hairpin on" in commands(links, forwarding="l2xc")
    assert not [line for line in lines(forwarding="l2xc") if "hairpin" in line]


def test_only_a_cross_connect_learns_no_addresses() -> None:
    assert "bridge link set dev d0 learning off" in lines(forwarding="l2xc")
    assert not [line for line in lines(forwarding="l2") if "learning" in line]


def test_rules_compare_the_packets_of_the_test_and_drop_none() -> None:
    """The hosts of the traffic have other networks."""
    for forwarding, match in (("ip4", "ip saddr 192.168.0."), ("ip6", "ip6 saddr fd00::")):
        found = kernel_network.rules({"forwarding": forwarding, "acl_rules": "3", "base_rules": "2"}, LINKS)
        rules = [line.strip() for line in found.splitlines() if "dport" in line]

        assert 5 == len(set(rules))
        assert all(rule.startswith(match) for rule in rules)


def test_all_interfaces_that_are_created_are_removed() -> None:
    created = {
        command[command.index("name") + 1]
        for command in kernel_network.commands({"forwarding": "l2", "tunnel": "vxlan", "vlan": "7"}, LINKS)
        if command[:3] == ["ip", "link", "add"]
    }
    cleanup = list(kernel_network.cleanup(LINKS))
    removed = {command[3] for command in cleanup if command[:3] == ["ip", "link", "delete"]}

    names = ("vlan0", "vlan1", "tun0", "tun1", "br0")
    assert {f"perftrend-{name}" for name in names} == created == removed


def test_all_parameters_of_the_machine_that_change_are_restored() -> None:
    """Those of interfaces that are created vanish with them."""
    changed = {
        command[4]
        for forwarding in ("ip4", "ip6", "l2", "l2xc")
        for command in kernel_network.commands({"forwarding": forwarding}, LINKS)
        if command[0] == "sh"
    }

    own = {name for name in changed if "perftrend" not in name}
    assert own == set(kernel_network.parameters(LINKS))


def test_machine_stays_silent_only_on_the_ports_of_the_testbed() -> None:
    """IPv6 needs ICMP on all others, such as the one that the job reaches the machine by."""
    found = kernel_network.rules({"forwarding": "ip6", "vlan": "7"}, LINKS)

    assert 'oifname { "perftrend-vlan0", "perftrend-vlan1" } meta l4proto icmpv6 drop' in found


def test_tunnels_carry_what_fits_into_a_long_frame() -> None:
    found = lines(forwarding="l2", tunnel="vxlan", frame_bytes="9000")

    # Headers of 50 bytes: Ethernet, IPv4, UDP and VXLAN.
    assert "ip link set perftrend-tun0 mtu 8932" in found
    assert not [line for line in lines(forwarding="l2", tunnel="vxlan") if "mtu" in line]

"""The driver with a double of VPP, which the official client of VPP's API connects to."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import pytest
from typing_extensions import override

from perftrend.errors import SettingsError, TestbedError
from perftrend.measure.interfaces import Link, Node, Port, Target
from perftrend.measure.program import Program
from perftrend.measure.vpp.driver import VppDevice
from perftrend.measure.wiring import Loopback, NoWiring, VethPairs
from tests.doubles import vpp as double
from tests.doubles.installation import VppInstallation

ROOT = Path(__file__).parents[4]
LINKS = (
    Link(Port("tg0", "02:00:00:00:0c:00"), Port("d0", "02:00:00:00:0d:00"), "02:00:00:00:0a:00"),
    Link(Port("tg1", "02:00:00:00:0c:01"), Port("d1", "02:00:00:00:0d:01"), "02:00:00:00:0a:01"),
)


@pytest.fixture
def installed(require: Callable[[object, str], None], shared_memory: None) -> Iterator[VppInstallation]:
    require(find_spec("vpp_papi"), "needs vpp-papi")
    with VppInstallation.installed(VPP_DOUBLE_PORTS="d0,d1,d2,d3") as found:
        yield found


@pytest.fixture
def device(installed: VppInstallation) -> Iterator[VppDevice]:
    found = VppDevice(NoWiring({}, LINKS), Node())
    yield found
    found.stop()


def wait_for_end(pid: int) -> bool:
    """Return whether a process ends within a minute."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 60)[0])
    finally:
        os.close(descriptor)


def test_ip4_is_routed_between_the_ports(installed: VppInstallation, device: VppDevice) -> None:
    device.start(installed.options())

    assert f"vpp {double.VERSION}" == device.version
    assert [
        "create host-interface name d0 hw-addr 02:00:00:00:0d:00",
        "create host-interface name d1 hw-addr 02:00:00:00:0d:01",
        "address host-d0 198.18.0.1/24",
        "neighbor host-d0 198.18.0.2 02:00:00:00:0a:00 static",
        "address host-d1 198.18.1.1/24",
        "neighbor host-d1 198.18.1.2 02:00:00:00:0a:01 static",
        "ip route add 10.10.0.0/16 count 1 via 198.18.0.2 host-d0",
        "ip route add 10.20.0.0/16 count 1 via 198.18.1.2 host-d1",
        "clear runtime",
    ] == [line for line in installed.requests if not line.startswith("show")]


def test_ip6_has_networks_and_neighbours_of_its_own(installed: VppInstallation, device: VppDevice) -> None:
    device.start(installed.options(forwarding="ip6"))

    assert "address host-d0 2001:2::1/64" in installed.requests
    assert "advertisements host-d1 off" in installed.requests
    assert "neighbor host-d1 2001:2:0:1::2 02:00:00:00:0a:01 static" in installed.requests
    assert "ip route add 2001:db8:a::/48 count 1 via 2001:2::2 host-d0" in installed.requests


def test_addresses_of_the_testbed_are_used(installed: VppInstallation) -> None:
    links = (
        Link(
            Port(mac="02:00:00:00:0c:00", pci="0000:3b:00.0", ip="192.0.2.2/30"),
            Port("d0", ip="192.0.2.1/30"),
        ),
        Link(Port(mac="02:00:00:00:0c:01", pci="0000:3b:00.1"), Port("d1", ip="192.0.2.5/30")),
    )
    device = VppDevice(NoWiring({}, links), Node())
    device.start(installed.options())
    device.stop()

    assert "address host-d0 192.0.2.1/30" in installed.requests
    assert "neighbor host-d0 192.0.2.2 02:00:00:00:0c:00 static" in installed.requests
    assert "neighbor host-d1 192.0.2.6 02:00:00:00:0c:01 static" in installed.requests


@pytest.mark.parametrize(
    ("forwarding", "expected"),
    [
        (
            "l2",
            [
                "create bridge-domain 1 learn 1 forward 1 uu-flood 1 flood 1 arp-term 0",
                "bridge host-d0 1 True",
                "bridge host-d1 1 True",
            ],
        ),
        ("l2xc", ["xconnect host-d0 host-d1 True", "xconnect host-d1 host-d0 True"]),
    ],
)
def test_ports_are_bridged(
    installed: VppInstallation, device: VppDevice, forwarding: str, expected: list[str]
) -> None:
    device.start(installed.options(forwarding=forwarding))

    assert expected == installed.requests[2:-1]


@pytest.mark.parametrize(("forwarding", "expected"), [
    ("l2", [f"bridge host-d{port} {port // 2 + 1} True" for port in range(4)]),
    ("l2xc", [f"xconnect host-d{port} host-d{port ^ 1} True" for port in range(4)]),
])  # fmt: skip
def test_four_ports_are_two_pairs(installed: VppInstallation, forwarding: str, expected: list[str]) -> None:
    device = VppDevice(NoWiring(links=VethPairs(link_count="4").links), Node())
    device.start(installed.options(forwarding=forwarding))
    device.stop()

    assert expected == [line for line in installed.requests if line.startswith(("bridge", "xconnect"))]


@pytest.mark.parametrize(("count", "expected"), [
    ("1", [("10.10.0.0/16", "host-d0"), ("10.20.0.0/16", "host-d0")]),
    ("4", [(f"10.{10 * (port + 1)}.0.0/16", f"host-d{port}") for port in range(4)]),
])  # fmt: skip
def test_networks_are_behind_all_ports(
    installed: VppInstallation, count: str, expected: list[tuple[str, str]]
) -> None:
    device = VppDevice(NoWiring(links=VethPairs(link_count=count).links), Node())
    device.start(installed.options(routes="6"))
    device.stop()

    routes = [line.split() for line in installed.requests if line.startswith("ip route")]
    ways = [(words[3], words[8]) for words in routes]
    assert expected == ways[: len(expected)]
    assert [way.replace("/16", "/32") for way, _ in expected] == [way for way, _ in ways[len(expected) :]]
    assert 6 == sum(int(words[5]) for words in routes[len(expected) :])


def test_frames_of_a_vlan_are_routed(installed: VppInstallation, device: VppDevice) -> None:
    options = installed.options(forwarding="ip6", vlan="100", acl_rules="1")
    device.start(options)
    device.reconfigure(options, {**options, "routes": "1"})

    requests = installed.requests
    assert ["vlan host-d0.100", "vlan host-d1.100"] == [line for line in requests if "vlan" in line]
    assert "address host-d0.100 2001:2::1/64" in requests
    assert "neighbor host-d1.100 2001:2:0:1::2 02:00:00:00:0a:01 static" in requests
    assert "advertisements host-d1.100 off" in requests
    assert "acl host-d1.100 input [0]" in requests
    assert [
        "ip route add 2001:db8:a::/48 count 1 via 2001:2::2 host-d0.100",
        "ip route add 2001:db8:14::/48 count 1 via 2001:2:0:1::2 host-d1.100",
        "ip route add 2001:db8:a::/128 count 1 via 2001:2::2 host-d0.100",
    ] == [line for line in requests if line.startswith("ip route")]


def test_frames_are_routed_to_the_vlan_of_their_link(installed: VppInstallation, device: VppDevice) -> None:
    device.start(installed.options(vlan="100,200"))

    assert ["vlan host-d0.100", "vlan host-d1.200"] == [line for line in installed.requests if "vlan" in line]
    assert "ip route add 10.20.0.0/16 count 1 via 198.18.1.2 host-d1.200" in installed.requests


def test_frames_of_a_vlan_are_bridged(installed: VppInstallation, device: VppDevice) -> None:
    device.start(installed.options(forwarding="l2", vlan="4094"))

    assert ["bridge host-d0.4094 1 True", "bridge host-d1.4094 1 True"] == [
        line for line in installed.requests if line.startswith("bridge")
    ]


@pytest.mark.parametrize("tunnel", ["vxlan", "geneve"])
def test_tunnels_are_bridged(installed: VppInstallation, device: VppDevice, tunnel: str) -> None:
    device.start(installed.options(forwarding="l2", tunnel=tunnel, acl_rules="1"))

    assert [
        "address host-d0 198.18.0.1/24",
        "neighbor host-d0 198.18.0.2 02:00:00:00:0a:00 static",
        f"{tunnel} 198.18.0.1 198.18.0.2 vni 100 l2",
        "address host-d1 198.18.1.1/24",
        "neighbor host-d1 198.18.1.2 02:00:00:00:0a:01 static",
        f"{tunnel} 198.18.1.1 198.18.1.2 vni 101 l2",
        "create bridge-domain 1 learn 1 forward 1 uu-flood 1 flood 1 arp-term 0",
        f"bridge {tunnel}_tunnel0 1 True",
        f"bridge {tunnel}_tunnel1 1 True",
        "acl 2 rules, 1 permit",
        f"acl {tunnel}_tunnel0 input [0]",
        f"acl {tunnel}_tunnel1 input [0]",
    ] == installed.requests[2:-1]


def test_tunnels_of_a_vlan_are_cross_connected(installed: VppInstallation, device: VppDevice) -> None:
    device.start(installed.options(forwarding="l2xc", tunnel="vxlan", vlan="7"))

    requests = installed.requests
    assert "address host-d1.7 198.18.1.1/24" in requests
    assert "neighbor host-d1.7 198.18.1.2 02:00:00:00:0a:01 static" in requests
    assert "xconnect vxlan_tunnel0 vxlan_tunnel1 True" in requests


def test_build_without_a_tunnel_is_an_error(installed: VppInstallation, device: VppDevice) -> None:
    (installed.api / "plugins" / "geneve.api.json").unlink()

    with pytest.raises(TestbedError, match="VPP does not know the message geneve_add_del_tunnel2"):
        device.start(installed.options(forwarding="l2", tunnel="geneve"))


@pytest.mark.parametrize(
    ("message", "options"),
    [
        ("create_vlan_subif", {"vlan": "7"}),
        ("vxlan_add_del_tunnel_v3", {"forwarding": "l2", "tunnel": "vxlan"}),
        ("geneve_add_del_tunnel2", {"forwarding": "l2", "tunnel": "geneve"}),
    ],
)
def test_interface_that_vpp_refuses_is_an_error(
    installed: VppInstallation, device: VppDevice, message: str, options: dict[str, str]
) -> None:
    installed.install(VPP_DOUBLE_REFUSES=message)

    with pytest.raises(TestbedError, match=f"^vpp: {message} failed with retval -1: unspecified error$"):
        device.start(installed.options(**options))
    assert [] == device.busy_processes()


@pytest.mark.parametrize("forwarding", ["ip4", "ip6"])
def test_two_million_routes_are_added_exactly(
    installed: VppInstallation, device: VppDevice, forwarding: str
) -> None:
    device.start(installed.options(forwarding=forwarding, routes="2000000"))

    routes = [line.split() for line in installed.requests if " route add" in f" {line}"]
    networks = [words for words in routes if not words[3].endswith(("/32", "/128"))]
    assert 2 == len(networks)
    assert 2_000_000 == sum(int(words[5]) for words in routes if words not in networks)


def test_routes_are_added_in_few_commands(installed: VppInstallation, device: VppDevice) -> None:
    device.start(installed.options(routes="1000001"))

    routes = [line.split() for line in installed.requests if line.startswith("ip route")]
    assert [
        ("10.10.0.0/16", "1", "host-d0"),
        ("10.20.0.0/16", "1", "host-d1"),
        ("10.10.0.0/32", "65536", "host-d0"),
        ("20.0.0.0/32", "250000", "host-d0"),
        ("20.3.208.144/32", "184465", "host-d0"),
        ("10.20.0.0/32", "65536", "host-d1"),
        ("30.0.0.0/32", "250000", "host-d1"),
        ("30.3.208.144/32", "184464", "host-d1"),
    ] == [(words[3], words[5], words[8]) for words in routes]


@pytest.mark.parametrize(
    ("forwarding", "first", "second"),
    [("ip4", "10.10.0.1/32", "10.20.0.1/32"), ("ip6", "2001:db8:a::1/128", "2001:db8:14::1/128")],
)
def test_running_device_gets_only_the_routes_that_it_lacks(
    installed: VppInstallation, device: VppDevice, forwarding: str, first: str, second: str
) -> None:
    options = installed.options(routes="2", forwarding=forwarding)
    device.start(options)
    started = len(installed.requests)

    device.reconfigure(options, {**options, "routes": "5"})

    routes = [line.split() for line in installed.requests[started:]]
    assert [(first, "2", "host-d0"), (second, "1", "host-d1")] == [
        (words[3], words[5], words[8]) for words in routes
    ]


def test_routes_that_are_added_in_two_steps_are_those_of_one(
    installed: VppInstallation, device: VppDevice
) -> None:
    """The step is where the addresses of the traffic end: those of 131,072 routes in two networks."""
    options = installed.options(routes="131071")
    device.start(options)
    device.reconfigure(options, {**options, "routes": "131075"})

    routes = [line.split() for line in installed.requests if line.startswith("ip route")][2:]
    assert [
        ("10.10.0.0/32", "65536"),
        ("10.20.0.0/32", "65535"),
        ("20.0.0.0/32", "2"),
        ("10.20.255.255/32", "1"),
        ("30.0.0.0/32", "1"),
    ] == [(words[3], words[5]) for words in routes]


def test_access_list_permits_after_its_rules(installed: VppInstallation, device: VppDevice) -> None:
    device.start(installed.options(acl_rules="300"))

    assert ["acl 301 rules, 1 permit", "acl host-d0 input [0]", "acl host-d1 input [0]"] == [
        line for line in installed.requests if line.startswith("acl")
    ]


def test_interfaces_get_the_mtu_of_long_frames(installed: VppInstallation, device: VppDevice) -> None:
    device.start(installed.options(frame_bytes="9000"))
    with_long_frames = installed.requests
    device.start(installed.options())

    for port in ("host-d0", "host-d1"):
        assert 1 == with_long_frames.count(f"set interface mtu 8982 {port}")
    assert not [line for line in installed.requests[len(with_long_frames) :] if "mtu" in line]


def test_commands_of_the_user_come_last(installed: VppInstallation, device: VppDevice) -> None:
    device.start(installed.options(commands="show errors; show interface"))

    assert ["show errors", "show interface", "clear runtime"] == installed.requests[-3:]


def test_command_that_vpp_refuses_is_reported_in_its_words(
    installed: VppInstallation, device: VppDevice
) -> None:
    with pytest.raises(TestbedError) as refused:
        device.start(installed.options(commands="shwo interface"))

    assert "vpp: 'shwo interface': unknown input `shwo interface'" == str(refused.value)
    assert [] == device.busy_processes()


def test_message_that_vpp_refuses_is_reported_with_the_meaning(installed: VppInstallation) -> None:
    links = [Link(each.generator, Port(each.device.interface, ip="192.0.2.1/24")) for each in LINKS]
    device = VppDevice(NoWiring({}, links), Node())

    with pytest.raises(TestbedError) as refused:
        device.start(installed.options())
    expected = "sw_interface_add_del_address failed with retval -127: address already present on another"
    assert f"vpp: {expected} interface" == str(refused.value)


def test_interface_that_does_not_exist_is_named(installed: VppInstallation, device: VppDevice) -> None:
    installed.install(VPP_DOUBLE_PORTS="d0")

    with pytest.raises(
        TestbedError, match=r"^vpp: 'create host-interface name d1 .*': .*Invalid interface name$"
    ):
        device.start(installed.options())


def test_pci_address_that_dpdk_does_not_use_is_named(installed: VppInstallation) -> None:
    links = [LINKS[0], Link(Port(), Port(pci="3b:00.1"))]
    device = VppDevice(NoWiring({}, links), Node())

    with pytest.raises(TestbedError, match=r"^vpp: no interface for PCI address 3b:00\.1: .*vfio-pci"):
        device.start(installed.options())


def test_port_without_a_link_is_an_error_and_not_loss(
    installed: VppInstallation, device: VppDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed.install(VPP_DOUBLE_FAULT="no-link")
    monkeypatch.setattr("perftrend.measure.vpp.forwarding._LINK_S", 0.0)

    with pytest.raises(TestbedError, match=r"^vpp: interface host-d0 has no link"):
        device.start(installed.options())


def test_counters_are_those_since_the_last_reading(installed: VppInstallation, device: VppDevice) -> None:
    device.start(installed.options())

    for _ in range(2):
        counters = device.counters()
        assert {"calls": 1, "packets": 256, "clocks_per_packet": 31.2, "packets_per_call": 256.0} == (
            counters["runtime"]["vpp_main"]["ip4-lookup"]
        )
    assert [{"node": "ip4-input", "reason": "ip4 ttl <= 1", "count": 5}] == counters["errors"][:1]
    assert {"rx packets": 256, "rx-miss": 9} == counters["interfaces"]["host-d1"]
    assert json.dumps(counters)


def test_counters_of_a_trial_are_those_since_it_began(installed: VppInstallation, device: VppDevice) -> None:
    """The double has processed another burst at each reading."""
    device.start(installed.options())
    device.counters()
    device.begin_trial()
    during = device.counters()
    of_trial = device.trial_counters()
    after = device.counters()

    lookup = {
        name: counters["runtime"]["vpp_main"]["ip4-lookup"]
        for name, counters in (("during", during), ("trial", of_trial), ("after", after))
    }
    assert {"during": 512, "trial": 512, "after": 512} == {
        name: node["packets"] for name, node in lookup.items()
    }
    assert {"calls": 2, "packets": 512, "clocks_per_packet": 31.2, "packets_per_call": 256.0} == lookup[
        "trial"
    ]
    assert [] == of_trial["errors"]


def test_cycles_per_packet_are_those_of_each_node(installed: VppInstallation, device: VppDevice) -> None:
    device.start(installed.options(workers="2"))
    before, after = device.counters(), device.counters()

    assert {"af-packet-input": 812.0, "ip4-lookup": 31.2} == pytest.approx(
        device.cycles_per_packet(before, after), rel=0.002
    )


def test_counters_and_processes_are_those_of_the_workers(
    installed: VppInstallation, device: VppDevice
) -> None:
    device.start(installed.options(workers="2"))

    assert ["vpp_wk_0", "vpp_wk_1"] == list(device.counters()["runtime"])
    assert ["vpp_wk_0", "vpp_wk_1"] == [
        Path(f"/proc/{thread}/comm").read_text().strip() for thread in device.busy_processes()
    ]


def test_nothing_is_left_after_the_stop(installed: VppInstallation, device: VppDevice) -> None:
    device.start(installed.options())
    (process,) = device.busy_processes()
    device.stop()
    device.stop()

    assert not Path(f"/proc/{process}").exists()
    assert not Path(installed.options()["runtime_dir"]).exists()
    assert ({}, []) == (device.counters(), device.busy_processes())


def test_second_start_is_a_new_instance(installed: VppInstallation, device: VppDevice) -> None:
    device.start(installed.options())
    (first,) = device.busy_processes()
    device.start(installed.options(forwarding="l2"))
    (second,) = device.busy_processes()

    assert first != second
    assert not Path(f"/proc/{first}").exists()


def test_vpp_that_has_died_is_reported(installed: VppInstallation, device: VppDevice) -> None:
    device.start(installed.options())
    (process,) = device.busy_processes()
    os.kill(process, signal.SIGKILL)

    with pytest.raises(TestbedError, match="has ended"):
        device.counters()


class ForwardingWiring(NoWiring):
    """Forwards a socket as sshd does: it stays open for requests after VPP has closed its end."""

    @override
    def forward_device(self, target: Target) -> Target:
        assert isinstance(target, str)
        path = f"{target}.forwarded"
        server = socket.create_server(path, family=socket.AF_UNIX)
        threading.Thread(target=self._serve, args=[server, target], daemon=True).start()
        return cast("Target", path)

    def _serve(self, server: socket.socket, target: str) -> None:
        with server:
            client = server.accept()[0]
        with client, socket.socket(socket.AF_UNIX) as vpp:
            vpp.connect(target)
            back = threading.Thread(target=self._pass_on, args=[vpp, client])
            back.start()
            self._pass_on(client, vpp)
            back.join()

    @staticmethod
    def _pass_on(source: socket.socket, destination: socket.socket) -> None:
        # VPP dies, and the client then closes its end.
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                with contextlib.suppress(OSError):
                    destination.sendall(data)
        with contextlib.suppress(OSError):
            destination.shutdown(socket.SHUT_WR)


def test_vpp_that_has_died_is_not_waited_for(
    installed: VppInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perftrend.measure.vpp.api._ANSWER_S", 3600.0)
    device = VppDevice(ForwardingWiring({}, LINKS), Node())
    device.start(installed.options())
    (process,) = device.busy_processes()
    os.kill(process, signal.SIGKILL)

    with pytest.raises(TestbedError, match="has ended"):
        device.counters()
    device.stop()


def test_start_that_fails_is_reported_with_the_last_line(
    installed: VppInstallation, device: VppDevice
) -> None:
    with pytest.raises(TestbedError, match=r"has ended: could not pin main thread to cpu 1023$"):
        device.start(installed.options(main_core="1023"))


def test_vpp_that_opens_no_socket_is_reported_with_the_last_line(
    installed: VppInstallation, device: VppDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed.install(VPP_DOUBLE_FAULT="mute")
    monkeypatch.setattr("perftrend.measure.vpp.driver._START_S", 3.0)

    with pytest.raises(TestbedError) as refused:
        device.start(installed.options())
    socket = f"{installed.options()['runtime_dir']}/api.sock"
    assert str(refused.value).startswith(f"vpp did not create {socket} within 3 s: ")
    assert "\n" not in str(refused.value)
    assert [] == device.busy_processes()


def test_vpp_that_is_not_ready_is_awaited(installed: VppInstallation, device: VppDevice) -> None:
    installed.install(VPP_DOUBLE_FAULT="slow")

    device.start(installed.options())

    assert f"vpp {double.VERSION}" == device.version


def test_program_that_is_missing_is_named(installed: VppInstallation, device: VppDevice) -> None:
    with pytest.raises(TestbedError, match="/no/such/vpp"):
        device.start(installed.options(program="/no/such/vpp"))


def test_definitions_that_are_missing_are_named(installed: VppInstallation, device: VppDevice) -> None:
    with pytest.raises(
        TestbedError, match=r"find -L /no/such/api .*; is VPP installed on the device's node\?"
    ):
        device.start(installed.options(api_dir="/no/such/api"))
    (installed.folder / "empty").mkdir()
    with pytest.raises(TestbedError, match=r"no \*\.api\.json files below .*/empty"):
        device.start(installed.options(api_dir=str(installed.folder / "empty")))


@pytest.mark.parametrize("message", ["show_version", "sockclnt_delete"])
def test_definitions_of_another_build_are_an_error(
    installed: VppInstallation, device: VppDevice, message: str
) -> None:
    """Without the second message, the client cannot disconnect, and cannot be used either."""
    options = installed.options(api_dir=str(installed.folder / "other"))
    shutil.copytree(installed.api, options["api_dir"])
    for file in Path(options["api_dir"]).rglob("*.json"):
        file.write_text(
            re.sub(rf'(\["(show_version|{message})", .*?"crc": "0x)\w+', r"\g<1>12345678", file.read_text())
        )

    with pytest.raises(TestbedError, match=r"does not know the message show_version .* of another build"):
        device.start(options)


@pytest.mark.parametrize(
    ("module", "content", "expected"),
    [
        ("vpe", "{", "an \\*.api.json file is not valid"),
        ("memclnt", "{}", "the \\*.api.json files are not complete"),
    ],
)
def test_definitions_that_are_damaged_are_an_error(
    installed: VppInstallation, device: VppDevice, module: str, content: str, expected: str
) -> None:
    options = installed.options(api_dir=str(installed.folder / "damaged"))
    shutil.copytree(installed.api, options["api_dir"])
    Path(options["api_dir"], "core", f"{module}.api.json").write_text(content)

    with pytest.raises(TestbedError, match=expected):
        device.start(options)


def test_types_of_another_build_are_forgotten(installed: VppInstallation, device: VppDevice) -> None:
    """A process may measure several builds, and vpp-papi ignores a second definition of a type."""
    device.start(installed.options())
    for file in installed.api.rglob("*.json"):
        text = file.read_text()
        file.write_text(
            text.replace('"interface_index": {"type": "u32"}', '"interface_index": {"type": "u64"}')
        )

    device.start(installed.options())

    assert "address host-d1 198.18.1.1/24" in installed.requests


JOB = """
import sys
from perftrend.measure.interfaces import Node
from perftrend.measure.vpp.driver import VppDevice
from perftrend.measure.wiring import NoWiring
from tests.unit.measure.vpp.test_driver import LINKS
device = VppDevice(NoWiring({}, LINKS), Node())
device.start(dict(word.split("=", 1) for word in sys.argv[1:]))
print(*device.busy_processes(), flush=True)
sys.stdin.read()
"""


def test_vpp_ends_with_a_job_that_is_killed(installed: VppInstallation) -> None:
    arguments = [f"{name}={value}" for name, value in installed.options().items()]
    command = [sys.executable, "-c", JOB, *arguments]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/resources"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as job:
        assert job.stdout is not None
        process = int(job.stdout.readline())
        job.kill()

    assert wait_for_end(process)


def test_instance_of_an_earlier_job_is_ended(installed: VppInstallation, device: VppDevice) -> None:
    """As if the node had not noticed the end of that job."""
    options = installed.options()
    earlier = VppDevice(NoWiring({}, LINKS), Node())
    earlier.start(options)
    (process,) = earlier.busy_processes()

    device.start(options)

    assert wait_for_end(process)
    assert device.counters()["runtime"]
    earlier.stop()


def test_instance_that_another_program_started_is_not_measured(
    installed: VppInstallation, device: VppDevice
) -> None:
    options = installed.options()
    # A program that starts VPP, instead of becoming it.
    installed.program.write_text(installed.program.read_text().replace("exec ", ""))

    with pytest.raises(TestbedError, match=r"^vpp: process \d+ answers at .*, not the one that was started"):
        device.start(options)


def test_testbed_without_links_is_refused(shared_memory: None) -> None:
    assert "VPP as the device needs 1 to 4 links" in VppDevice(Loopback(), Node()).unusable()
    with pytest.raises(TestbedError, match="needs 1 to 4 links"):
        VppDevice(Loopback(), Node()).start({})


def test_missing_client_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    reason = VppDevice(NoWiring({}, LINKS), Node()).unusable()
    assert "the Python package vpp-papi is missing: ./run --with vpp" == reason


def test_option_is_checked_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Program, "__init__", lambda *_: pytest.fail("a program was started"))

    with pytest.raises(SettingsError, match="no option 'worker'; did you mean 'workers'"):
        VppDevice(NoWiring({}, LINKS), Node()).start({"worker": "2"})

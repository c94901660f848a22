"""Chains of devices, by doubles of a driver; the packets tests show real ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from perftrend.errors import SettingsError, TestbedError
from perftrend.measure import specification
from perftrend.measure.chain import ChainedDevice
from perftrend.measure.interfaces import Device, Node, Wiring
from perftrend.measure.specification import CableFile, Specification
from perftrend.measure.ssh import SshWiring
from perftrend.measure.wiring import Loopback, VethPairs

CHECKOUT = Path(__file__).parents[3]
STORY: list[str] = []


class Recorder(Device):
    """Records what happens to it, and fails at the node that it is told."""

    fails_at = ""

    def __init__(self, wiring: Wiring, node: Node) -> None:
        del node
        self.name = wiring.links[0].device_node
        self.version = "1"

    def lacks(self, options: Mapping[str, str]) -> str:
        return f"no {options}" if self.name == Recorder.fails_at else ""

    def start(self, options: Mapping[str, str]) -> None:
        STORY.append(" ".join([f"start {self.name}", *options.values()]))
        if self.name == Recorder.fails_at:
            raise TestbedError("no memory")
        self.version = f"of {self.name}"

    def stop(self) -> None:
        STORY.append(f"stop {self.name}")


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> ChainedDevice:
    monkeypatch.setattr(Recorder, "fails_at", "")
    STORY.clear()
    nodes = {name: Node() for name in ("dut", "dut2", "dut3")}
    return ChainedDevice(Recorder, VethPairs({"tg": Node(), **nodes}), nodes)


def test_devices_start_in_order_and_stop_in_reverse(chain: ChainedDevice) -> None:
    chain.start({})

    assert ["stop dut3", "stop dut2", "stop dut", "start dut", "start dut2", "start dut3"] == STORY
    assert "dut: of dut, dut2: of dut2, dut3: of dut3" == chain.version


def test_device_gets_the_vlans_of_its_own_links() -> None:
    STORY.clear()
    nodes = {name: Node() for name in ("dut", "dut2")}
    wiring = VethPairs({"tg": Node(), **nodes})
    vlans = {"dut": (10, 20), "dut2": (20, 20)}
    wiring.hops = {
        name: [replace(link, vlan=vlan) for link, vlan in zip(links, vlans[name], strict=True)]
        for name, links in wiring.hops.items()
    }

    ChainedDevice(Recorder, wiring, nodes).start({"vlan": "10,20"})

    assert ["start dut 10,20", "start dut2 20"] == STORY[2:]


def test_failed_start_names_the_node_and_stops_all(chain: ChainedDevice) -> None:
    Recorder.fails_at = "dut2"

    with pytest.raises(TestbedError, match=r"^dut2: no memory$"):
        chain.start({})

    assert ["start dut", "start dut2", "stop dut3", "stop dut2", "stop dut"] == STORY[3:]


def test_lack_names_the_node_and_tunnels_are_not_supported(chain: ChainedDevice) -> None:
    assert "a chain does not support tunnel=vxlan" in chain.lacks({"tunnel": "vxlan"})
    Recorder.fails_at = "dut3"

    assert "dut3: no {}" == chain.lacks({})


def test_wiring_without_a_chain_is_refused() -> None:
    with pytest.raises(SettingsError, match="node dut is not connected"):
        ChainedDevice(Recorder, Loopback(), {"dut": Node(), "dut2": Node()})


def test_each_device_sees_its_neighbours_as_the_generator() -> None:
    wiring = VethPairs({"tg": Node(), "dut": Node(), "dut2": Node()})

    assert [("tg0", "d0"), ("d2", "d1")] == [
        (link.generator.interface, link.device.interface) for link in wiring.hops["dut"]
    ]
    assert ["02:00:00:00:0d:02", "02:00:00:00:0a:01"] == [link.next_hop for link in wiring.hops["dut2"]]


def test_example_of_a_chain_leads_through_both_devices() -> None:
    spec = specification.load("3n-trex", CHECKOUT / "docs" / "examples")

    nodes = {name: Node(options=spec.options(name, 0)) for name in ("tg", *spec.devices)}
    wiring = SshWiring(nodes, [each.link() for each in spec.links])

    first, second = wiring.hops["dut"], wiring.hops["dut2"]
    assert ("dut", "dut2") == spec.devices
    assert ["3c:fd:fe:00:01:01", "3c:fd:fe:00:02:02"] == [link.device.mac for link in wiring.links]
    assert ["3c:fd:fe:00:00:01", "3c:fd:fe:00:02:01"] == [link.next_hop for link in first]
    assert ["3c:fd:fe:00:01:02", "3c:fd:fe:00:00:02"] == [link.next_hop for link in second]
    assert ["0000:5e:00.0", "0000:5e:00.1"] == [link.device.pci for link in second]


@pytest.mark.parametrize(("changes", "reason"), [
    ({"nodes": {"tg": {}, "dut": {}, "dut3": {}}}, "node dut3 needs the node before it"),
    ({"links": [("tg", "dut"), ("tg", "dut2")]}, "in this order, tg-dut, dut-dut2, dut2-tg"),
    ({"links": [("dut", "dut2"), ("tg", "dut"), ("tg", "dut2")]}, "in this order, tg-dut, dut-dut2, dut2-tg"),
    ({"nodes": {"tg": {}, "dut": {}}, "links": [("tg", "dut2")]}, "link 1 leads to a node that is not"),
    ({"links": [("tg", "dut"), ("tg", "dut", "dut2")]}, "give the ports of two nodes"),
])  # fmt: skip
def test_links_that_are_no_chain_are_refused(changes: dict[str, Any], reason: str) -> None:
    nodes = changes.get("nodes", {"tg": {}, "dut": {}, "dut2": {}})
    mac = {"mac": "02:00:00:00:00:01"}
    links = [dict.fromkeys(ends, mac) for ends in changes.get("links", [])]
    with pytest.raises(ValidationError, match=reason):
        Specification.model_validate(
            {
                "name": "ours",
                "description": "",
                "nodes": nodes,
                "links": links,
                "generator": {"driver": "trex"},
                "device": {"driver": "testpmd"},
                "link": {"pps": 1},
                "driver_tag": "X",
            }
        )


def test_link_between_devices_needs_addresses() -> None:
    with pytest.raises(ValidationError, match="needs the mac of both ports"):
        CableFile.model_validate({"dut": {"mac": "02:00:00:00:00:01"}, "dut2": {}})

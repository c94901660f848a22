"""Chains of devices, by doubles of a driver; the packets tests show real ones."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from perftrend.errors import SettingsError, TestbedError
from perftrend.measure.chain import ChainedDevice
from perftrend.measure.interfaces import Device, Node, Wiring
from perftrend.measure.wiring import Loopback, VethPairs

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
        del options
        STORY.append(f"start {self.name}")
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

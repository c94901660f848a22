"""Generators on another machine: the process runs there, and that of XDP has its BPF program there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perftrend.errors import TestbedError
from perftrend.measure.traffic import TrafficProfile
from tests.integration.servers.lab import Lab
from tests.integration.test_lab import lab, make_testbed, until

__all__ = ("lab",)  # a fixture

pytestmark = pytest.mark.packets

Require = Callable[[object, str], None]


@pytest.mark.parametrize("device", ["kernel", "embedded"])
def test_every_xdp_frame_reaches_the_device_on_another_machine(
    lab: Lab, require: Require, device: str
) -> None:
    """The device may lose some if it gets no time."""
    with make_testbed(lab, generator={"driver": "xdp"}, device={"driver": device}) as testbed:
        require(testbed.generator.version.endswith(" xdp"), "the kernel sends no XDP frames here")
        testbed.start_device({"forwarding": "ip4"})
        testbed.generator.use(TrafficProfile.parse("64B", {}))
        before = testbed.counters()["interfaces"]["dut"]
        trial = testbed.generator.trial(10_000, 0.5, None)
        after = testbed.counters()["interfaces"]["dut"]

        assert (2500, 2500) == trial.sent_each
        assert 0 < trial.received <= 5000
        arrived = sum(after[port]["rx_packets"] - before[port]["rx_packets"] for port in ("d0", "d1"))
        assert 5000 == arrived + (trial.generator_health.queue_full or 0)
    until(lambda: not lab.processes("dut") | lab.processes("tg"))


@pytest.mark.parametrize("generator", ["embedded", "xdp"])
def test_frames_have_the_addresses_of_the_devices_ports(lab: Lab, generator: str) -> None:
    """Linux routes no frames for others. The generator's ports receive frames for its hosts, too."""
    file = lab.file(generator={"driver": generator}, device={"driver": "kernel"})
    for number, link in enumerate(file["links"]):
        link["dut"]["mac"] = f"02:11:22:33:44:0{number}"
        lab.namespaces["dut"].run("ip", "link", "set", f"d{number}", "address", link["dut"]["mac"])
    with make_testbed(lab, **file) as testbed:
        testbed.start_device({})
        testbed.generator.use(TrafficProfile.parse("64B", {}))
        trial = testbed.generator.trial(2_000, 0.5, None)
        state = lab.namespaces["tg"].run("ip", "-details", "link", "show", "dev", "tg0")

    assert 1000 == trial.sent
    assert 0 < trial.received <= 1000
    assert "promiscuity 1" in state
    assert "promiscuity 0" in lab.namespaces["tg"].run("ip", "-details", "link", "show", "dev", "tg0")


def test_killed_xdp_generator_is_one_line_and_the_next_run_is_clean(lab: Lab, require: Require) -> None:
    values = {"generator": {"driver": "xdp"}}
    with make_testbed(lab, **values) as testbed:
        require(testbed.generator.version.endswith(" xdp"), "the kernel sends no XDP frames here")
        testbed.start_device({})
        testbed.generator.use(TrafficProfile.parse("64B", {}))
        lab.kill("tg")
        with pytest.raises(TestbedError, match=r"^traffic generator has ended$"):
            testbed.generator.trial(2_000, 0.5, None)
    with make_testbed(lab, **values) as testbed:
        testbed.start_device({})
        testbed.generator.use(TrafficProfile.parse("64B", {}))

        assert 1000 == testbed.generator.trial(2_000, 0.5, None).sent

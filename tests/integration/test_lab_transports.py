"""Nodes that are reached in different ways: by real SSH, in a named namespace, or on this machine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perftrend.measure.traffic import TrafficProfile
from perftrend.measure.wiring import run
from tests.integration.servers.lab import Lab
from tests.integration.test_lab import lab, make_testbed, until

__all__ = ("lab",)  # a fixture

pytestmark = pytest.mark.packets

DRIVERS = [("embedded", "embedded"), ("xdp", "kernel")]


@contextlib.contextmanager
def named(lab: Lab, node: str) -> Iterator[dict[str, str]]:
    """Give the network of a node a name on this machine, and return the options that lead to it."""
    name = f"perftrend-{node}-{os.getpid()}"
    run(["ip", "netns", "attach", name, str(lab.namespaces[node].pid)])
    try:
        yield {"transport": "local", "netns": name}
    finally:
        run(["ip", "netns", "delete", name])


def check_frames(lab: Lab, drivers: tuple[str, str], **values: Any) -> None:
    generator, device = ({"driver": driver} for driver in drivers)
    with make_testbed(lab, generator=generator, device=device, remote=False, **values) as testbed:
        testbed.start_device({"forwarding": "ip4"})
        testbed.generator.use(TrafficProfile.parse("64B", {}))
        trial = testbed.generator.trial(2_000, 0.5, None)

        assert 1000 == trial.sent
        assert 0 < trial.received <= 1000
        assert {"tg", "dut"} == set(testbed.counters()["interfaces"])


@pytest.mark.parametrize("drivers", DRIVERS)
@pytest.mark.parametrize("local", ["tg", "dut"])
def test_frames_pass_between_another_machine_and_a_namespace_of_this_one(
    lab: Lab, local: str, drivers: tuple[str, str]
) -> None:
    with named(lab, local) as options:
        nodes = {**lab.file()["nodes"], local: {"options": options}}
        check_frames(lab, drivers, nodes=nodes)
    until(lambda: not lab.processes("dut") | lab.processes("tg"))


def test_frames_pass_between_two_namespaces_of_this_machine(lab: Lab) -> None:
    with named(lab, "tg") as tg, named(lab, "dut") as dut:
        check_frames(lab, DRIVERS[0], nodes={"tg": {"options": tg}, "dut": {"options": dut}})
    until(lambda: not lab.processes("dut") | lab.processes("tg"))


def test_frames_pass_between_this_machine_and_another_one(lab: Lab) -> None:
    """Its own network has ports of the generator."""
    file = lab.file()
    for number, link in enumerate(file["links"]):
        name = f"tg{number}x{os.getpid() % 10**6}"
        lab.namespaces["tg"].run("ip", "link", "set", f"tg{number}", "netns", str(os.getpid()), "name", name)
        parameter = Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6")
        if parameter.exists():
            parameter.write_text("1")
        run(["ip", "link", "set", name, "arp", "off", "up"])
        link["tg"]["interface"] = name
    nodes = {**file["nodes"], "tg": {"cpu": "auto", "options": {"transport": "local"}}}

    check_frames(lab, DRIVERS[0], nodes=nodes, links=file["links"])

"""Linux as the device on another machine, which has interfaces, routes and rules of its own."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from perftrend.errors import TestbedError
from perftrend.measure.ssh import SshWiring
from perftrend.measure.traffic import TrafficProfile
from tests.integration.servers import lab as labs
from tests.integration.servers.lab import Lab
from tests.integration.test_lab import DEADLINE_S, JOB, ROOT, make_testbed, until

pytestmark = pytest.mark.packets

OWN = """
sysctl -qw net.ipv6.conf.mgmt.disable_ipv6=1
ip link add br0 type bridge && ip link set br0 up && ip address add 192.0.2.99/24 dev br0
ip route add 10.99.0.0/16 dev mgmt
nft add table inet firewall && nft add chain inet firewall input '{ type filter hook input priority 0; }'
sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.d0.send_redirects=1
"""
"""What the administrator of the machine has set up."""
# The kernel notices a carrier a moment later.
STATE = r"""
ip address | sed 's/<.*>//; s/ state [A-Z]*//'; bridge -details link; ip neigh show nud permanent
ip route show table all; ip -6 route show table all
nft list ruleset; sysctl -a -r '^net[.]ipv[46][.](conf|ip_forward)' | grep -v stable_secret
unshare --mount sh -c 'mount -t sysfs sysfs /sys && cat /sys/class/net/*/threaded'
"""


@pytest.fixture
def lab(tmp_path: Path, require: Callable[[object, str], None]) -> Iterator[Lab]:
    require(not labs.lacking(), labs.lacking())
    with labs.built(tmp_path) as made:
        made.namespaces["dut"].run("sh", "-e", "-c", OWN)
        yield made


def state(lab: Lab) -> str:
    return lab.namespaces["dut"].run("sh", "-c", STATE)


def kernel(lab: Lab, **options: str) -> dict[str, Any]:
    """Return what a testbed file has for Linux as the device, on a core of its own."""
    nodes: dict[str, dict[str, Any]] = lab.file()["nodes"]
    nodes["dut"]["cpu"] = max(os.sched_getaffinity(0))
    return {"device": {"driver": "kernel", "options": options}, "nodes": nodes}


TESTS: list[tuple[str, dict[str, str]]] = [
    ("64B", {"forwarding": "ip4", "acl_rules": "20", "routes": "1000"}),
    ("78B", {"forwarding": "ip6", "acl_rules": "20", "routes": "1000"}),
    ("IMIX", {"forwarding": "l2"}),
    ("64B", {"forwarding": "l2xc"}),
    ("128B", {"forwarding": "ip4", "vlan": "7"}),
    ("128B", {"forwarding": "l2", "tunnel": "vxlan"}),
]


def test_linux_forwards_on_another_machine_and_leaves_it_as_it_was(lab: Lab) -> None:
    before = state(lab)
    with make_testbed(lab, **kernel(lab, base_rules="5")) as testbed:
        possible = [(frame, options) for frame, options in TESTS if not testbed.lacks(options)]
        assert {"ip4", "ip6", "l2", "l2xc"} == {options["forwarding"] for _, options in possible}
        for frame, options in possible:
            testbed.start_device(options)
            testbed.generator.use(TrafficProfile.parse(frame, options))
            trial = testbed.generator.trial(2_000, 0.5, 0.9)

            assert 1000 == trial.sent
            assert 0 < trial.received <= 1000, options
            assert "table inet firewall" in testbed.device.counters()["nftables"]
            assert before != state(lab)
            testbed.device.stop()
            assert before == state(lab)
    until(lambda: not lab.processes("dut") | lab.processes("tg"))


def test_linux_of_a_killed_job_is_left_as_it_was(lab: Lab) -> None:
    before = state(lab)
    job = subprocess.Popen(
        [sys.executable, "-c", JOB, json.dumps(lab.file(**kernel(lab)))],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'resources'}"},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert job.stdout is not None
    assert select.select([job.stdout], [], [], DEADLINE_S)[0]
    assert "started\n" == job.stdout.readline()
    assert before != state(lab)
    job.kill()
    job.communicate()

    until(lambda: before == state(lab))


def test_frames_pass_a_chain_of_machines(tmp_path: Path, require: Callable[[object, str], None]) -> None:
    require(not labs.lacking(), labs.lacking())
    with labs.built(tmp_path, ["tg", "dut", "dut2"]) as chain:
        with make_testbed(chain, device={"driver": "kernel"}) as testbed:
            testbed.start_device({"forwarding": "ip4"})
            testbed.generator.use(TrafficProfile.parse("64B", {}))
            trial = testbed.generator.trial(2_000, 0.5, None)

            assert 1000 == trial.sent
            assert 0 < trial.received <= 1000
        until(lambda: not any(map(chain.processes, ("tg", "dut", "dut2"))))


def test_route_of_the_machine_is_not_replaced(lab: Lab) -> None:
    lab.namespaces["dut"].run("ip", "route", "add", "10.10.0.0/16", "dev", "mgmt")
    before = state(lab)
    with make_testbed(lab, **kernel(lab)) as testbed, pytest.raises(TestbedError) as caught:
        testbed.start_device({})

    assert "ip route add 10.10.0.0/16 via 192.0.2.1 dev d0 onlink: RTNETLINK answers: File exists" in str(
        caught.value
    )
    assert before == state(lab)


@pytest.mark.parametrize(("command", "reason"), [
    ("ip link set d1 address 02:00:00:00:0d:99", "d1 of node dut has the MAC address 02:00:00:00:0d:99"),
    ("ip link set d1 down", "d1 of node dut is down, or has no carrier"),
])  # fmt: skip
def test_port_that_cannot_receive_is_an_error_and_no_loss(lab: Lab, command: str, reason: str) -> None:
    lab.namespaces["dut"].run(*command.split())
    with make_testbed(lab, **kernel(lab)) as testbed, pytest.raises(TestbedError, match=reason):
        testbed.start_device({})


def test_missing_core_of_the_machine_is_named(lab: Lab) -> None:
    values = kernel(lab)
    values["nodes"]["dut"]["cpu"] = 1000
    refused = pytest.raises(TestbedError, match="interface d0 cannot use core 1000; does it exist")
    with make_testbed(lab, **values) as testbed, refused:
        testbed.start_device({})


def test_missing_program_of_the_machine_is_named(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its administrator has installed only what is in /usr/bin."""
    at_node = SshWiring.at_node

    def without_sbin(wiring: SshWiring, node: str, command: Sequence[str]) -> list[str]:
        return at_node(wiring, node, ["env", "PATH=/usr/bin:/bin", *command])

    with make_testbed(lab, **kernel(lab)) as testbed:
        monkeypatch.setattr(SshWiring, "at_node", without_sbin)
        with pytest.raises(
            TestbedError, match=r"the program tc is missing \(Debian: apt-get install iproute2"
        ):
            testbed.start_device({})

"""VPP between the namespaces of a testbed: a real one if ``PERFTREND_VPP`` is its path, and a double.

With a build that is not installed, set ``PERFTREND_VPP_API`` to the folder of its ``*.api.json`` files.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from perftrend.errors import TestbedError
from perftrend.measure import lock, specification
from perftrend.measure.embedded.drivers import EmbeddedGenerator
from perftrend.measure.interfaces import Node
from perftrend.measure.traffic import TrafficProfile
from perftrend.measure.trial_validity import TrustedTrials, two_cores
from perftrend.measure.vpp.driver import VppDevice
from perftrend.measure.wiring import VethPairs
from perftrend.measurement import Trial
from tests.doubles.installation import VppInstallation
from tests.integration.quiet import interference

pytestmark = pytest.mark.packets

Require = Callable[[object, str], None]
PROGRAM = os.environ.get("PERFTREND_VPP", "")
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Linux has it


@pytest.fixture
def wiring(require: Require, shared_memory: None) -> Iterator[VethPairs]:
    require(find_spec("vpp_papi"), "needs vpp-papi")
    found = VethPairs()
    reason = found.unusable()
    require(not reason, reason)
    with lock.hold(specification.load("1n-veth").lock, wait_s=600):
        found.open()
        yield found
        found.close()


@pytest.fixture
def installed() -> Iterator[VppInstallation]:
    with VppInstallation.installed() as found:
        yield found


@pytest.fixture
def device(wiring: VethPairs) -> Iterator[VppDevice]:
    found = VppDevice(wiring, Node(cpu=two_cores()[1]))
    yield found
    found.stop()


@pytest.fixture
def measure(
    wiring: VethPairs, device: VppDevice, require_quiet: Callable[[str], None]
) -> Iterator[Callable[[dict[str, str]], Trial]]:
    """Give a function that makes a trial at a low rate."""
    generator = EmbeddedGenerator(wiring, Node(cpu=two_cores()[0]), {})
    generator.open()
    processes = [*generator.busy_processes()]

    def trial(options: dict[str, str]) -> Trial:
        generator.use(TrafficProfile.parse("128B", options))
        trials = TrustedTrials(generator, lambda: [*processes, *device.busy_processes()], attempts=5)
        found = trials.measure(10_000, 0.5)
        require_quiet(interference(found.invalid))
        return found

    yield trial
    generator.close()


Start = Callable[..., VppDevice]


@pytest.fixture
def start(require: Require, installed: VppInstallation, device: VppDevice) -> Start:
    """Give a function that starts the real VPP with some options."""
    require(PROGRAM, "needs VPP: set PERFTREND_VPP to its path")
    options = {
        "program": PROGRAM,
        "api_dir": os.environ.get("PERFTREND_VPP_API", "/usr/share/vpp/api"),
        "runtime_dir": installed.options()["runtime_dir"],
    }

    def start_with(**more: str) -> VppDevice:
        device.start({**options, **more})
        return device

    return start_with


class TestRealVpp:
    # CI accepts no skipped test, and cannot install VPP, which Debian does not have.
    __test__ = bool(PROGRAM) or not os.environ.get("CI")

    @pytest.mark.parametrize(
        ("options", "node"),
        [
            ({"forwarding": "ip4"}, "ip4-lookup"),
            ({"forwarding": "ip4", "routes": "200000", "acl_rules": "50"}, "acl-plugin-in-ip4-fa"),
            ({"forwarding": "l2"}, "l2-fwd"),
            ({"forwarding": "l2xc"}, "l2-output"),
            ({"forwarding": "ip6", "vlan": "100"}, "ip6-lookup"),
            ({"forwarding": "l2", "vlan": "100"}, "l2-fwd"),
            ({"forwarding": "l2", "tunnel": "vxlan"}, "vxlan4-input"),
            ({"forwarding": "l2xc", "tunnel": "geneve", "vlan": "7"}, "geneve4-input"),
        ],
    )
    def test_every_frame_comes_back_once_at_a_low_rate(
        self, start: Start, measure: Callable[[dict[str, str]], Trial], options: dict[str, str], node: str
    ) -> None:
        device = start(**options)

        trial = measure(options)

        assert (5000, 5000, "") == (trial.sent, trial.received, trial.invalid)
        counters = device.counters()
        threads = counters["runtime"].values()
        assert 5000 <= sum(nodes[node]["packets"] for nodes in threads if node in nodes)
        assert 0 < device.cycles_per_packet({}, counters)[node] < math.inf

    def test_refusal_is_reported_in_its_words(self, start: Start) -> None:
        with pytest.raises(TestbedError, match=r"^vpp: 'shwo interface': .*unknown input"):
            start(commands="shwo interface")

    def test_nothing_is_left_after_the_stop(self, start: Start, installed: VppInstallation) -> None:
        device = start(workers="1")
        (worker,) = device.busy_processes()
        device.stop()

        assert not Path(f"/proc/{worker}").exists()
        assert not Path(installed.options()["runtime_dir"]).exists()
        assert [] == list(SHARED_MEMORY.glob("perftrend-vpp-*"))


@pytest.mark.parametrize("forwarding", ["ip4", "ip6", "l2", "l2xc"])
def test_double_finds_the_interfaces_of_the_namespace(
    installed: VppInstallation, device: VppDevice, forwarding: str
) -> None:
    """The double sees interfaces only in its own network: it was started where the device's ports are."""
    device.start(installed.options(forwarding=forwarding))

    assert {"local0", "host-d0", "host-d1"} == set(device.counters()["interfaces"])


def test_double_in_a_user_namespace_ends(
    require: Require, shared_memory: None, installed: VppInstallation
) -> None:
    wiring = VethPairs(user_namespace="yes")
    reason = wiring.unusable()
    require(not reason, reason)
    wiring.open()
    device = VppDevice(wiring, Node())
    try:
        device.start(installed.options())
        (process,) = device.busy_processes()
        device.stop()
    finally:
        device.stop()
        wiring.close()

    assert not Path(f"/proc/{process}").exists()
    assert not Path(installed.options()["runtime_dir"]).exists()

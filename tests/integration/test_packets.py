"""What every embedded testbed must hold, shown on real packets."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from perftrend.errors import TestbedError
from perftrend.measure import lock, specification
from perftrend.measure.embedded.drivers import EmbeddedGenerator
from perftrend.measure.specification import DriverFile, NodeFile
from perftrend.measure.testbed import Testbed
from perftrend.measure.traffic import TrafficProfile
from perftrend.measurement import Trial
from tests.integration.quiet import count_received, interference

pytestmark = pytest.mark.packets

Require = Callable[[object, str], None]
Measure = Callable[..., Trial]
Record = Callable[[str, object], None]


@pytest.fixture(params=["1n-veth", "1n-loopback"])
def testbed(request: pytest.FixtureRequest, require: Require) -> Iterator[Testbed]:
    yield from opened(request.param, require)


@pytest.fixture
def veth(require: Require) -> Iterator[Testbed]:
    yield from opened("1n-veth", require)


KERNEL_TESTS = [
    ("64B", {"forwarding": "ip4", "acl_rules": "0", "base_rules": "100"}),
    ("IMIX", {"forwarding": "l2"}),
    ("78B", {"forwarding": "ip6", "acl_rules": "20"}),
    ("1518B", {"forwarding": "ip6", "protocol": "tcp"}),
    ("64B", {"forwarding": "ip4", "routes": "10000", "flow_count": "5000"}),
    ("78B", {"forwarding": "ip6", "routes": "10000", "acl_rules": "20"}),
    ("64B", {"forwarding": "l2xc"}),
    ("64B", {"forwarding": "ip4", "vlan": "100"}),
    ("1518B", {"forwarding": "ip6", "vlan": "4094"}),
    ("IMIX", {"forwarding": "l2", "vlan": "100"}),
    ("64B", {"forwarding": "l2xc", "vlan": "100"}),
    ("114B", {"forwarding": "l2", "tunnel": "vxlan"}),
    ("1518B", {"forwarding": "l2", "tunnel": "vxlan", "flow_count": "5000"}),
    ("114B", {"forwarding": "l2xc", "tunnel": "geneve"}),
    ("1518B", {"forwarding": "l2", "tunnel": "geneve", "vlan": "7"}),
]


OTHER_TRAFFIC = [
    ({"forwarding": "ip4"}, {"forwarding": "ip6"}),
    ({"forwarding": "ip6"}, {"forwarding": "ip4"}),
    ({"forwarding": "ip4", "vlan": "7"}, {"forwarding": "ip4"}),
    ({"forwarding": "ip4", "vlan": "7"}, {"forwarding": "ip4", "vlan": "8"}),
    ({"forwarding": "l2", "vlan": "7"}, {"forwarding": "l2"}),
    ({"forwarding": "l2xc", "vlan": "7"}, {"forwarding": "l2xc", "vlan": "8"}),
    ({"forwarding": "l2", "tunnel": "vxlan"}, {"forwarding": "l2", "tunnel": "geneve"}),
    ({"forwarding": "l2", "tunnel": "geneve"}, {"forwarding": "l2", "tunnel": "vxlan"}),
]
"""Traffic that a device is prepared for, and other traffic; not every kernel has VLANs and GENEVE."""


@pytest.fixture
def kernel(require: Require) -> Iterator[Testbed]:
    yield from opened("1n-kernel", require)


def opened(name: str, require: Require) -> Iterator[Testbed]:
    spec = specification.load(name)
    found = Testbed(spec)
    reason = found.unusable()
    require(not reason, reason)
    with lock.hold(spec.lock, wait_s=600), found:
        yield found


@pytest.fixture
def measure(require_quiet: Callable[[str], None]) -> Measure:
    """Give a function that makes a trial, if the cores are quiet enough for one that is valid."""

    def trial(testbed: Testbed, rate_pps: float, duration_s: float, fail_above: float | None = None) -> Trial:
        found = testbed.trials.measure(rate_pps, duration_s, fail_above)
        require_quiet(interference(found.invalid))
        assert "" == found.invalid
        return found

    return trial


@pytest.mark.parametrize("frame", ["64B", "1518B", "IMIX", "64x2+901x1"])
@pytest.mark.parametrize("forwarding", ["ip4", "l2", "l2xc"])
def test_every_frame_comes_back_once_at_a_low_rate(
    testbed: Testbed, measure: Measure, frame: str, forwarding: str
) -> None:
    testbed.start_device({"forwarding": forwarding})
    testbed.use(frame)

    trial = measure(testbed, 10_000, 0.5)

    assert (5000, 5000) == (trial.sent, trial.received)


@pytest.mark.parametrize(("options", "each"), [
    ({"flow_count": "10000"}, (2500, 2500)),
    ({"flow_count": "100000"}, (2500, 2500)),
    ({"protocol": "tcp", "flow_count": "1"}, (2500, 2500)),
    ({"forward_percent": "70"}, (3500, 1500)),
    ({"forward_percent": "100"}, (5000, 0)),
    ({"forward_percent": "0", "forwarding": "l2"}, (0, 5000)),
])  # fmt: skip
def test_every_frame_of_other_traffic_comes_back_once(
    testbed: Testbed, measure: Measure, options: dict[str, str], each: tuple[int, int]
) -> None:
    testbed.start_device(options)
    testbed.use("64B")

    trial = measure(testbed, 10_000, 0.5)

    assert (5000, each, each) == (trial.received, trial.sent_each, trial.received_each)


def test_generator_that_was_killed_is_restarted_for_the_next_test(testbed: Testbed, measure: Measure) -> None:
    testbed.start_device({})
    testbed.use("64B")
    [process] = testbed.generator.busy_processes()
    os.kill(process, signal.SIGKILL)
    with pytest.raises(TestbedError, match="traffic generator has ended"):
        testbed.trials.measure(1_000, 0.1)

    testbed.use("64B")

    assert 500 == measure(testbed, 1_000, 0.5).received


def test_frames_of_an_overload_do_not_leak_into_the_next_trial(testbed: Testbed, measure: Measure) -> None:
    testbed.start_device({"acl_rules": "60"})
    testbed.use("64B")

    overload = measure(testbed, testbed.maximum_pps, 0.3)
    after = measure(testbed, 5_000, 0.3)

    assert overload.received < overload.sent
    assert after.sent == after.received == 1500


@pytest.mark.parametrize("rate_pps", [10_000, 50_000, 100_000, 200_000])
def test_every_frame_of_a_rate_is_sent(veth: Testbed, rate_pps: int) -> None:
    """However busy the cores are: what they take is time, and not frames."""
    veth.start_device({})
    veth.use("64B")

    assert rate_pps // 2 == cast(EmbeddedGenerator, veth.generator).count(rate_pps, 0.5).sent


def test_flood_is_the_limit_of_the_generator(veth: Testbed) -> None:
    veth.start_device({})
    veth.use("64B")

    trial = veth.generator.trial(1e8, 0.001, None)

    health = trial.generator_health
    assert health
    assert health.load
    assert health.core_share
    assert 0.5 < health.load <= 1
    assert 0 < health.core_share
    assert (0, (0, 0)) == (trial.unsent, trial.unsent_each)


@pytest.mark.measure
@pytest.mark.parametrize("rate_pps", [10_000, 50_000, 100_000, 200_000])
def test_rate_is_exact_within_a_thousandth(
    veth: Testbed, measure: Measure, rate_pps: int, record_property: Record
) -> None:
    """Of nine trials, because a host may take a core away for longer than can be caught up."""
    veth.start_device({})
    veth.use("64B")
    measure(veth, rate_pps, 0.5)

    sender = cast(EmbeddedGenerator, veth.generator)
    achieved = sorted(sender.count(rate_pps, 0.5).sent_pps for _ in range(9))

    record_property("measured", f"intended {rate_pps} pps, achieved {[round(each) for each in achieved]} pps")
    assert pytest.approx(rate_pps, rel=1e-3) == achieved[4]


def test_trial_ends_early_if_its_loss_is_certain(testbed: Testbed, measure: Measure) -> None:
    testbed.start_device({"acl_rules": "60"})
    testbed.use("64B")

    trial = measure(testbed, testbed.maximum_pps, 5.0, 0.005)

    assert trial.sent < testbed.maximum_pps * 5.0
    assert trial.sent - trial.received > 0.005 * testbed.maximum_pps * 5.0


def test_trial_that_loses_nothing_is_not_ended_early(testbed: Testbed, measure: Measure) -> None:
    testbed.start_device({})
    testbed.use("64B")

    trial = measure(testbed, 10_000, 1.0, 0.0)

    assert (10_000, 10_000) == (trial.sent, trial.received)


@pytest.mark.measure
def test_access_list_slows_the_device_down_and_its_end_speeds_it_up(
    testbed: Testbed, measure: Measure, record_property: Record
) -> None:
    plain, slowed, again = (mrr(testbed, measure, acl_rules=rules) for rules in ("0", "60", "0"))

    record_property("measured", f"0, 60 and 0 rules: {plain:.0f}, {slowed:.0f} and {again:.0f} pps")
    assert slowed < 0.6 * plain
    assert slowed < 0.6 * again


def mrr(testbed: Testbed, measure: Measure, **options: str) -> float:
    """Return the rate that comes back of the highest that the testbed sends, in pps."""
    testbed.start_device(options)
    testbed.use("64B")
    return measure(testbed, testbed.maximum_pps, 0.5).receive_rate_pps


def test_counters_of_device_interfaces_and_processes_are_there(veth: Testbed, measure: Measure) -> None:
    veth.start_device({})
    veth.use("64B")
    before = veth.counters()
    trial = measure(veth, 10_000, 0.2)
    after = veth.counters()

    received = sum(each.received for each in veth.trials.trials)
    forwarded = sum(
        now["sent"] - then["sent"]
        for now, then in zip(after["device"]["ports"], before["device"]["ports"], strict=True)
    )
    assert trial.received == trial.sent
    assert received == forwarded
    assert {"tg0", "tg1"} <= set(after["interfaces"]["tg"])
    assert {"d0", "d1"} <= set(after["interfaces"]["dut"])
    assert after["softnet"]["tg"]
    assert after["softnet"]["dut"]
    assert all(cpu["ran_s"] > 0 for cpu in after["cpu"].values())


def test_kernel_forwards_every_frame_at_a_low_rate(kernel: Testbed) -> None:
    """One start after the other: what one leaves behind would disturb the next."""
    possible = [(frame, options) for frame, options in KERNEL_TESTS if not kernel.lacks(options)]
    assert {"ip4", "ip6", "l2", "l2xc"} <= {options["forwarding"] for _, options in possible}
    for frame, options in possible * 2:
        kernel.start_device(options)
        kernel.use(frame)

        assert 1000 == count_received(cast(EmbeddedGenerator, kernel.generator), 1000), options


def test_kernel_forwards_no_other_traffic(kernel: Testbed) -> None:
    generator = cast(EmbeddedGenerator, kernel.generator)
    possible = [(prepared, sent) for prepared, sent in OTHER_TRAFFIC if not kernel.lacks(prepared)]
    assert {"ip4", "ip6"} <= {prepared["forwarding"] for prepared, _ in possible}
    for prepared, sent in possible:
        kernel.start_device(prepared)
        kernel.use("128B")
        assert 1000 == count_received(generator, 1000), prepared

        generator.use(TrafficProfile.parse("128B", sent))

        assert 0 == count_received(generator, 0), prepared


@pytest.mark.parametrize("options", [{"forwarding": "ip6"}, {"forwarding": "l2", "tunnel": "vxlan"}])
def test_kernel_sends_no_frames_of_its_own(kernel: Testbed, options: dict[str, str]) -> None:
    """Linux would report its multicast groups at once, and again within a second."""
    kernel.start_device(options)
    kernel.use("128B")
    generator = cast(EmbeddedGenerator, kernel.generator)
    received = count_received(generator, 1000)
    before = kernel.counters()["interfaces"]["tg"]

    time.sleep(2)

    assert before == kernel.counters()["interfaces"]["tg"]
    assert 1000 == received


@pytest.mark.parametrize("forwarding", ["ip4", "ip6", "l2"])
@pytest.mark.parametrize(("name", "devices"), [("1n-veth", 2), ("1n-veth", 3), ("1n-kernel", 2)])
def test_every_frame_passes_a_chain_of_devices(
    require: Require, request: pytest.FixtureRequest, name: str, devices: int, forwarding: str
) -> None:
    spec = specification.load(name)
    chain = {f"dut{number}": NodeFile(cpu="auto") for number in range(2, devices + 1)}
    testbed = Testbed(spec.model_copy(update={"nodes": {**spec.nodes, **chain}}))
    require(not testbed.unusable(), testbed.unusable())
    with lock.hold(spec.lock, wait_s=600), testbed:
        testbed.start_device({"forwarding": forwarding})
        testbed.use("78B")
        # Frames of the flood that measured the generator may still be in the rings: that trial is repeated.
        trial = testbed.trials.measure(2_000, 0.5)
        if trial.received != trial.sent:
            # The generator does not wait long for a device that gets no time.
            request.getfixturevalue("require_quiet")(interference(trial.invalid))

        assert (1000, 1000) == (trial.sent, trial.received)
        assert {"dut", *chain} == set(testbed.counters()["device"])


@pytest.mark.measure
def test_rules_slow_the_kernel_down(kernel: Testbed, measure: Measure, record_property: Record) -> None:
    few, many = (mrr(kernel, measure, base_rules=rules) for rules in ("100", "1000"))

    record_property("measured", f"100 and 1000 rules of the kernel: {few:.0f} and {many:.0f} pps")
    assert many < 0.7 * few


MEASURE = """
import sys
from perftrend.measure import specification
from perftrend.measure.testbed import Testbed

with Testbed(specification.load("1n-veth")) as testbed:
    testbed.start_device({})
    testbed.use("64B")
    trial = testbed.trials.measure(10_000, 0.3)
    print(trial.sent, trial.received, trial.invalid, flush=True)
    if "wait" in sys.argv:
        sys.stdin.read()
"""


def test_user_namespace_is_all_that_veth_pairs_need(require: Require, measure: Measure) -> None:
    spec = specification.load("1n-veth")
    rootless = spec.model_copy(
        update={"wiring": DriverFile(driver="veth", options={"user_namespace": "yes"})}
    )
    testbed = Testbed(rootless)
    require(not testbed.unusable(), testbed.unusable())

    with lock.hold(spec.lock, wait_s=600), testbed:
        testbed.start_device({"acl_rules": "20"})
        testbed.use("64B")
        trial = measure(testbed, 10_000, 0.3)

    assert (3000, 3000) == (trial.sent, trial.received)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_however_the_process_ends(require: Require, number: signal.Signals) -> None:
    reason = Testbed(specification.load("1n-veth")).unusable()
    require(not reason, reason)
    before = leftovers()
    process = subprocess.Popen(
        [sys.executable, "-c", MEASURE, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    sent, _, _ = process.stdout.readline().partition(" ")
    during = leftovers()
    process.send_signal(number)
    process.communicate()

    deadline = time.monotonic() + 300
    while leftovers() - before and time.monotonic() < deadline:
        time.sleep(0.05)

    assert "3000" == sent
    assert during - before
    assert set() == leftovers() - before


def leftovers() -> set[str]:
    """Return what a testbed may leave: namespaces and interfaces of this machine, and processes."""
    processes = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            namespace = str((path.parent / "ns/net").readlink())
        except OSError:
            continue
        processes.add(namespace)
        if "perftrend.measure.embedded" in command:
            processes.add(path.parent.name)
    return processes | {path.name for path in Path("/sys/class/net").iterdir()}


def test_without_the_program_ip_veth_pairs_are_unusable_and_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)

    assert "apt-get install iproute2" in Testbed(specification.load("1n-veth")).unusable()

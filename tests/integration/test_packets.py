"""What every embedded testbed must hold, shown on real packets."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from perftrend.measure import lock, specification
from perftrend.measure.embedded.drivers import EmbeddedGenerator
from perftrend.measure.specification import DriverFile
from perftrend.measure.testbed import Testbed

pytestmark = pytest.mark.packets

Require = Callable[[object, str], None]

ATTEMPTS = 20
"""The machine may be busy now and then; a trial that it disturbed is measured again."""


@pytest.fixture(params=["1n-veth", "1n-loopback"])
def testbed(request: pytest.FixtureRequest, require: Require) -> Iterator[Testbed]:
    yield from opened(request.param, require)


@pytest.fixture
def veth(require: Require) -> Iterator[Testbed]:
    yield from opened("1n-veth", require)


@pytest.fixture
def kernel(require: Require) -> Iterator[Testbed]:
    yield from opened("1n-kernel", require)


def opened(name: str, require: Require) -> Iterator[Testbed]:
    spec = specification.load(name)
    found = Testbed(spec, attempts=ATTEMPTS)
    reason = found.unusable()
    require(not reason, reason)
    with lock.held(spec.lock, wait_s=600), found:
        yield found


def mrr(testbed: Testbed, **options: str) -> float:
    testbed.start_device(options)
    testbed.use("64B")
    trial = testbed.trials.measure(testbed.maximum_pps, 0.5)
    assert not trial.invalid
    return trial.receive_rate_pps


@pytest.mark.parametrize("frame", ["64B", "1518B", "IMIX"])
@pytest.mark.parametrize("forwarding", ["ip4", "l2"])
def test_every_frame_comes_back_once_at_a_low_rate(testbed: Testbed, frame: str, forwarding: str) -> None:
    testbed.start_device({"forwarding": forwarding})
    testbed.use(frame)

    trial = testbed.trials.measure(10_000, 0.5)

    assert (5000, 5000, "") == (trial.sent, trial.received, trial.invalid)


def test_frames_of_an_overload_do_not_leak_into_the_next_trial(testbed: Testbed) -> None:
    testbed.start_device({"acl_rules": "60"})
    testbed.use("64B")

    overload = testbed.trials.measure(testbed.maximum_pps, 0.3)
    after = testbed.trials.measure(5_000, 0.3)

    assert overload.received < overload.sent
    assert after.sent == after.received == 1500


@pytest.mark.parametrize("rate_pps", [10_000, 50_000, 100_000, 200_000])
def test_the_rate_is_kept_within_a_thousandth_and_the_count_exactly(veth: Testbed, rate_pps: int) -> None:
    veth.start_device({})
    veth.use("64B")
    generator = cast(EmbeddedGenerator, veth.generator)

    exact = pytest.approx(rate_pps, rel=1e-3)

    counts = [generator.count(rate_pps, 0.5) for _ in range(5)]
    # What counts is what it does while nobody else has the cores.
    while len(counts) < 5 * ATTEMPTS and all(exact != count.sent_pps for count in counts):
        counts.append(generator.count(rate_pps, 0.5))

    assert {rate_pps // 2} == {count.sent for count in counts}
    assert exact == min((count.sent_pps for count in counts), key=lambda pps: abs(pps - rate_pps))


def test_a_trial_ends_early_once_its_loss_is_certain(testbed: Testbed) -> None:
    testbed.start_device({"acl_rules": "60"})
    testbed.use("64B")

    trial = testbed.trials.measure(testbed.maximum_pps, 5.0, 0.005)

    assert trial.elapsed_s < 2.5
    assert trial.sent - trial.received > 0.005 * testbed.maximum_pps * 5.0


def test_a_trial_that_loses_nothing_is_not_ended_early(testbed: Testbed) -> None:
    testbed.start_device({})
    testbed.use("64B")

    trial = testbed.trials.measure(10_000, 1.0, 0.0)

    assert (10_000, 10_000) == (trial.sent, trial.received)


def test_an_access_list_slows_the_device_down_and_its_end_speeds_it_up(testbed: Testbed) -> None:
    plain = mrr(testbed)
    slowed = mrr(testbed, acl_rules="60")
    again = mrr(testbed)

    assert slowed < 0.6 * plain
    assert slowed < 0.6 * again


def test_the_counters_of_device_interfaces_and_processes_are_there(veth: Testbed) -> None:
    veth.start_device({})
    veth.use("64B")
    before = veth.counters()
    trial = veth.trials.measure(10_000, 0.2)
    after = veth.counters()

    repeated = len(veth.trials.trials)
    forwarded = sum(
        now["sent"] - then["sent"]
        for now, then in zip(after["device"]["ports"], before["device"]["ports"], strict=True)
    )
    assert forwarded == repeated * trial.sent
    assert {"tg0", "tg1"} <= set(after["interfaces"]["tg"])
    assert {"d0", "d1"} <= set(after["interfaces"]["dut"])
    assert after["softnet"]
    assert all(cpu["ran_s"] > 0 for cpu in after["cpu"].values())


def test_the_kernel_forwards_behind_its_rules(kernel: Testbed) -> None:
    kernel.start_device({"acl_rules": "0", "base_rules": "0"})
    kernel.use("64B")
    low = kernel.trials.measure(10_000, 0.3)
    few = mrr(kernel, base_rules="100")
    many = mrr(kernel, base_rules="1000")

    assert low.sent == low.received == 3000
    assert many < 0.7 * few


def test_the_kernel_bridges(kernel: Testbed) -> None:
    kernel.start_device({"forwarding": "l2"})
    kernel.use("64B")

    trial = kernel.trials.measure(10_000, 0.3)

    assert trial.sent == trial.received == 3000


MEASURE = """
import sys
from perftrend.measure import specification
from perftrend.measure.testbed import Testbed

with Testbed(specification.load("1n-veth"), attempts=20) as testbed:
    testbed.start_device({})
    testbed.use("64B")
    trial = testbed.trials.measure(10_000, 0.3)
    print(trial.sent, trial.received, flush=True)
    if "wait" in sys.argv:
        sys.stdin.read()
"""


def test_a_user_namespace_is_all_that_veth_pairs_need(require: Require) -> None:
    spec = specification.load("1n-veth")
    rootless = spec.model_copy(
        update={"wiring": DriverFile(driver="veth", options={"user_namespace": "yes"})}
    )
    testbed = Testbed(rootless, attempts=ATTEMPTS)
    require(not testbed.unusable(), testbed.unusable())

    with lock.held(spec.lock, wait_s=600), testbed:
        testbed.start_device({"acl_rules": "20"})
        testbed.use("64B")
        trial = testbed.trials.measure(10_000, 0.3)

    assert trial.sent == trial.received == 3000


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
    assert "3000 3000\n" == process.stdout.readline()
    during = leftovers()
    process.send_signal(number)
    process.communicate()

    deadline = time.monotonic() + 10
    while leftovers() - before and time.monotonic() < deadline:
        time.sleep(0.05)

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

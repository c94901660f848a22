"""DPDK testpmd as the device, on real packets."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perftrend.errors import TestbedError
from perftrend.measure.interfaces import Node
from perftrend.measure.procedure import Procedure
from perftrend.measure.specification import MrrPlan
from perftrend.measure.testbed import Testbed
from perftrend.measure.testpmd import TestpmdDevice
from tests.integration import test_packets
from tests.integration.quiet import interference
from tests.integration.test_packets import Measure, Record, Require

pytestmark = pytest.mark.packets

measure = test_packets.measure

JOB = """
import sys
from perftrend.measure import specification
from perftrend.measure.testbed import Testbed

with Testbed(specification.load("1n-testpmd")) as testbed:
    testbed.start_device({})
    print(*testbed.device.busy_processes(), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def testbed(require: Require) -> Iterator[Testbed]:
    yield from test_packets.opened("1n-testpmd", require)


def start_job() -> tuple[subprocess.Popen[str], int]:
    """Start a job with a testbed of its own, and return it with the thread that forwards."""
    job = subprocess.Popen(
        [sys.executable, "-c", JOB],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert job.stdout is not None
    return job, int(job.stdout.readline())


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("frame", ["64B", "1518B", "IMIX"])
@pytest.mark.parametrize(
    "options",
    [
        {"forwarding": "ip4"},
        {"forwarding": "ip4", "lookups": "0"},
        {"forwarding": "l2", "lookups": "0"},
        {"forwarding": "l2xc", "lookups": "0"},
        {"forward_mode": "macswap", "lookups": "0"},
        {"forwarding": "ip4", "lookups": "0", "receive_queues": "2"},
    ],
    ids=["lookups", "mac", "io", "cross-connect", "macswap", "queues"],
)
def test_every_frame_comes_back_once_and_is_counted(
    testbed: Testbed, options: dict[str, str], frame: str
) -> None:
    """However busy the cores are: the rings have room for all the frames."""
    testbed.start_device(options)
    testbed.use(frame)
    before = testbed.device.counters()["ports"]

    trial = testbed.generator.trial(10_000, 0.5, None)

    after = testbed.device.counters()["ports"]
    ends = ("rx_good_packets", "tx_good_packets")
    forwarded = [now[end] - then[end] for now, then in zip(after, before, strict=True) for end in ends]
    assert (5000, 5000) == (trial.sent, trial.received)
    assert [2500] * 4 == forwarded


@pytest.mark.parametrize("forwarding", ["ip4", "ip6", "l2"])
@pytest.mark.parametrize("vlan", ["0", "100"])
def test_other_headers_come_back_as_long_as_they_were(testbed: Testbed, forwarding: str, vlan: str) -> None:
    testbed.start_device({"forwarding": forwarding, "vlan": vlan, "lookups": "0"})
    testbed.use("82B")
    before = testbed.device.counters()["ports"]

    trial = testbed.generator.trial(10_000, 0.5, None)

    after = testbed.device.counters()["ports"]
    ends = ("rx_good_bytes", "tx_good_bytes")
    forwarded = [now[end] - then[end] for now, then in zip(after, before, strict=True) for end in ends]
    assert (5000, 5000) == (trial.sent, trial.received)
    # Without the four bytes of the checksum.
    assert [2500 * 78] * 4 == forwarded


def test_mrr_is_valid_and_has_counters_and_the_version(
    testbed: Testbed, tmp_path: Path, require_quiet: Callable[[str], None]
) -> None:
    testbed.start_device({"lookups": "2000"})
    testbed.use("64B")
    plan = MrrPlan(duration_s=0.3, multiplicity=2, starts=2)

    found = Procedure(testbed, tmp_path / "counters.json", tmp_path).mrr(plan)

    require_quiet(interference(found.invalid))
    assert "" == found.invalid
    assert 2 == len(found.samples)
    assert testbed.versions()["device"].startswith("DPDK ")
    assert "tx_good_packets" in (tmp_path / "counters.json").read_text()


def test_cycles_of_the_forwarding_thread_are_counted(testbed: Testbed) -> None:
    testbed.start_device({"lookups": "0"})
    testbed.use("64B")
    before = testbed.device.counters()

    testbed.generator.trial(10_000, 0.3, None)

    after = testbed.device.counters()
    assert 3000 == after["total_packets"] - before["total_packets"]
    assert after["total_cycles"] > before["total_cycles"]


def test_cycles_per_packet_are_measured(testbed: Testbed) -> None:
    testbed.start_device({"lookups": "0"})
    testbed.use("64B")
    before = testbed.device.counters()
    testbed.generator.trial(10_000, 0.3, None)

    found = testbed.device.cycles_per_packet(before, testbed.device.counters())

    assert ["total"] == list(found)
    assert 0 < found["total"] < math.inf


@pytest.mark.measure
def test_lookups_slow_it_down(testbed: Testbed, measure: Measure, record_property: Record) -> None:
    few, many = (test_packets.mrr(testbed, measure, lookups=lookups) for lookups in ("800", "1600"))

    record_property("measured", f"800 and 1600 lookups: {few:.0f} and {many:.0f} pps")
    assert many < 0.8 * few


def test_thread_that_forwards_is_watched_on_its_core(testbed: Testbed) -> None:
    testbed.start_device({})

    (thread,) = testbed.device.busy_processes()

    (generator,) = testbed.generator.busy_processes()
    assert 1 == len(os.sched_getaffinity(thread))
    assert os.sched_getaffinity(thread).isdisjoint(os.sched_getaffinity(generator))


def test_start_that_failed_is_an_error_in_the_words_of_testpmd(testbed: Testbed) -> None:
    reason = "testpmd did not start: Creation of mbuf pool for socket 0 failed"
    with pytest.raises(TestbedError, match=reason) as raised:
        testbed.start_device({"memory_mb": "16"})

    assert "\n" not in str(raised.value)
    assert [] == testbed.device.busy_processes()


def test_port_that_is_down_is_an_error(testbed: Testbed) -> None:
    subprocess.run(testbed._wiring.at_generator(["ip", "link", "set", "tg1", "down"]), check=True)

    with pytest.raises(TestbedError, match="interface d1 of the device has no carrier"):
        testbed.start_device({})


def test_port_that_is_missing_is_an_error(testbed: Testbed) -> None:
    subprocess.run(testbed._wiring.at_device(["ip", "link", "delete", "d1"]), check=True)

    with pytest.raises(TestbedError, match="does not exist"):
        testbed.start_device({})


def test_end_of_testpmd_is_an_error_of_the_next_trial_and_of_the_counters(testbed: Testbed) -> None:
    testbed.start_device({})
    testbed.use("64B")
    os.kill(testbed.device.busy_processes()[0], signal.SIGKILL)

    for action in (lambda: testbed.trials.measure(10_000, 0.1), testbed.counters):
        with pytest.raises(TestbedError, match="testpmd has ended") as raised:
            action()
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_however_the_job_ends(testbed: Testbed, number: signal.Signals) -> None:
    job, thread = start_job()
    was_running = is_running(thread)
    job.send_signal(number)
    job.communicate()

    deadline = time.monotonic() + 60
    while is_running(thread) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert was_running
    assert not is_running(thread)


def test_process_of_an_earlier_job_is_ended_at_the_next_start(testbed: Testbed) -> None:
    """As after a cut connection: its input is still open, so it does not notice the end of the job."""
    earlier = TestpmdDevice(testbed._wiring, Node(cpu=0))
    earlier.start(testbed.spec.device.options)
    try:
        (thread,) = earlier.busy_processes()
        was_running = is_running(thread)

        testbed.start_device({})

        assert was_running
        assert not is_running(thread)
        assert testbed.device.busy_processes()
    finally:
        earlier.stop()

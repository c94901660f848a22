"""The XDP generator sends the frames of the embedded one: no fewer, no others, and at any rate."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

from benchmarks import generator as benchmark
from perftrend.errors import TestbedError
from perftrend.measure import lock, specification
from perftrend.measure.embedded.drivers import EmbeddedDevice
from perftrend.measure.embedded.frames import build, frame_direction
from perftrend.measure.interfaces import Node
from perftrend.measure.testbed import Testbed
from perftrend.measure.traffic import TrafficProfile
from perftrend.measure.wiring import VethPairs, run
from perftrend.measure.xdp.generator import XdpGenerator

pytestmark = pytest.mark.packets

Require = Callable[[object, str], None]


@pytest.fixture
def pairs(require: Require) -> Iterator[VethPairs]:
    wiring = VethPairs()
    require(not wiring.unusable(), wiring.unusable())
    with lock.hold("this-machine", wait_s=600), closing(wiring):
        wiring.open()
        yield wiring


@pytest.fixture
def generator(pairs: VethPairs, require: Require) -> Iterator[XdpGenerator]:
    """Give a generator whose frames end in the kernel behind the device's ports, which drops them."""
    opened = XdpGenerator(pairs, Node(cpu=min(os.sched_getaffinity(0))), {})
    with closing(opened):
        opened.open()
        require(not opened.fallback, opened.fallback)
        yield opened


def count_delivered(pairs: VethPairs) -> int:
    """Return the number of frames that the device's ports have received."""
    lines = run(pairs.at_device(["cat", "/proc/net/dev"])).splitlines()
    ports = tuple(f"{link.device.interface}:" for link in pairs.links)
    return sum(int(line.split()[2]) for line in lines if line.strip().startswith(ports))


@pytest.mark.parametrize("frame", ["64B", "1518B", "IMIX"])
@pytest.mark.parametrize("rate_pps", [10_000, 100_000, 1_000_000])
def test_every_frame_is_sent_once(
    pairs: VethPairs, generator: XdpGenerator, rate_pps: int, frame: str
) -> None:
    generator.use(TrafficProfile.parse(frame, {}))
    before = count_delivered(pairs)

    count = generator.count(rate_pps, 0.5)

    assert rate_pps // 2 == count.sent == count_delivered(pairs) - before + count.refused
    assert [rate_pps // 4] * 2 == count.sent_each
    assert 0 == count.received


def test_rate_is_never_exceeded(generator: XdpGenerator) -> None:
    """However busy the machine is: it can only make a trial longer. What is caught up makes 15 ms at most."""
    generator.use(TrafficProfile.parse("64B", {}))

    assert generator.count(10_000, 0.5).sending_s > 0.5 - 0.015


CAPTURE = """
import socket, struct, sys

def receive(port):
    data, [(*_, auxiliary)], *_ = port.recvmsg(2048, 64)
    status, _, _, _, _, tag, tag_type = struct.unpack("=3I4H", auxiliary)
    # The kernel has removed the tag.
    return data[:12] + struct.pack(">2H", tag_type, tag) + data[12:] if status & 0x10 else data

ports = []
for interface in sys.argv[2:]:
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    port.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE
    port.setsockopt(263, 8, 1)  # SOL_PACKET, PACKET_AUXDATA
    port.bind((interface, 0))
    ports.append(port)
print("ready", flush=True)
for port in ports:
    for _ in range(int(sys.argv[1])):
        print(receive(port).hex())
"""


TRAFFIC: list[tuple[str, dict[str, str]]] = [
    *((frame, {"forwarding": kind}) for frame in ("64B", "1518B", "IMIX") for kind in ("ip4", "l2")),
    ("64x2+901x1", {}),
    ("64B", {"protocol": "tcp"}),
    ("66B", {"forwarding": "ip6"}),
    ("78x3+901x1", {"forwarding": "ip6", "protocol": "tcp"}),
    ("64B", {"vlan": "100"}),
    ("64B", {"vlan": "100,200"}),
    ("83B", {"vlan": "100", "forwarding": "ip6", "protocol": "tcp"}),
    ("96B", {"forwarding": "l2", "tunnel": "vxlan"}),
    ("97x2+1518x1", {"forwarding": "l2", "tunnel": "geneve"}),
    ("112B", {"forwarding": "l2", "tunnel": "geneve", "vlan": "4094", "protocol": "tcp"}),
]


@pytest.mark.parametrize(("frame", "options"), TRAFFIC)
def test_frames_are_those_of_the_embedded_generator(
    pairs: VethPairs, generator: XdpGenerator, frame: str, options: dict[str, str]
) -> None:
    """All bytes of them, over the end of a trial and of the flows."""
    traffic = TrafficProfile.parse(frame, options)
    generator.use(traffic)

    compare_with_embedded(pairs, traffic, 1000, lambda: [generator.count(10_000, s) for s in (0.08, 0.12)])


@pytest.mark.parametrize(
    ("flows", "count"),
    [
        ("1", 10),
        ("5000", 5_100),
        ("20000", 20_100),  # more hosts than a tunnel has source ports
        ("1000000", 16_000),  # 15,625 hosts and 64 ports
    ],
)
@pytest.mark.parametrize("options", [{}, {"forwarding": "ip6"}, {"forwarding": "l2", "tunnel": "vxlan"}])
def test_flows_are_those_of_the_embedded_generator(
    pairs: VethPairs, generator: XdpGenerator, options: dict[str, str], flows: str, count: int
) -> None:
    traffic = TrafficProfile.parse("114x2+300x1", {**options, "flow_count": flows})
    generator.use(traffic)

    compare_with_embedded(pairs, traffic, count, lambda: generator.count(20_000, count / 10_000))


def compare_with_embedded(
    pairs: VethPairs, traffic: TrafficProfile, count: int, send: Callable[[], object]
) -> None:
    """Compare the frames that reach the device's ports, ``count`` each, with those of the other generator."""
    command = pairs.at_device([sys.executable, "-c", CAPTURE, str(count), "d0", "d1"])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as capture:
        assert capture.stdout is not None
        assert "ready\n" == capture.stdout.readline()
        send()
        received = [bytes.fromhex(line) for line in capture.stdout]

    for port in range(2):
        frames, lengths = build(traffic, frame_direction(port, traffic), count)
        expected = [bytes(row[:length]) for row, length in zip(frames, lengths.astype(np.int64), strict=True)]
        found = received[port * count : (port + 1) * count]
        # On a busy machine, GRO in the kernel behind the ports holds back TCP frames with data.
        in_order = sorted if traffic.protocol == "tcp" else list
        assert in_order(expected) == in_order(found)


@pytest.mark.parametrize(("percent", "each"), [("100", [1000, 0]), ("0", [0, 1000]), ("75", [750, 250])])
def test_directions_get_their_shares(generator: XdpGenerator, percent: str, each: list[int]) -> None:
    generator.use(TrafficProfile.parse("64B", {"forward_percent": percent}))

    assert each == generator.count(10_000, 0.1).sent_each


@pytest.mark.parametrize("forwarding", ["ip4", "l2"])
@pytest.mark.parametrize("frame", ["64B", "1518B", "IMIX"])
def test_every_frame_comes_back_once_at_a_low_rate(
    pairs: VethPairs, generator: XdpGenerator, frame: str, forwarding: str
) -> None:
    device = EmbeddedDevice(pairs, Node(cpu=max(os.sched_getaffinity(0))))
    device.start({"forwarding": forwarding})
    try:
        options = {"forwarding": forwarding, "forward_percent": "60"}
        generator.use(TrafficProfile.parse(frame, options))

        count = generator.count(5_000, 0.5)
    finally:
        device.stop()

    assert (2500, 2500, 0) == (count.sent, count.received, count.refused)
    assert [1500, 1000] == count.received_each


def test_trial_ends_early_if_its_loss_is_certain(generator: XdpGenerator) -> None:
    generator.use(TrafficProfile.parse("64B", {}))

    count = generator.count(100_000, 60.0, fail_above=0.005)

    assert count.sent < count.planned
    assert count.sent > 0.005 * count.planned
    assert (0, False) == (count.received, count.unproven)
    assert count.sent_each[0] - count.sent_each[1] in (0, 1)


def test_trial_after_one_that_ended_early_is_complete(pairs: VethPairs, generator: XdpGenerator) -> None:
    generator.use(TrafficProfile.parse("64B", {}))
    generator.count(100_000, 60.0, fail_above=0.0)
    before = count_delivered(pairs)

    assert 1001 == generator.count(10_010, 0.1).sent
    assert 1001 == count_delivered(pairs) - before


def test_flood_shows_the_highest_rate(generator: XdpGenerator) -> None:
    generator.use(TrafficProfile.parse("64B", {}))

    assert 0 < generator.highest_pps() < 1e8


@pytest.mark.parametrize("forward_percent", ["50", "100"])
def test_load_shows_whether_the_generator_is_at_its_limit(
    generator: XdpGenerator, forward_percent: str
) -> None:
    generator.use(TrafficProfile.parse("64B", {"forward_percent": forward_percent}))

    assert 1.0 == generator.count(1e8, 0.0005).load
    assert 0.0 <= generator.count(1_000, 0.1).load < 1.0


def test_frames_that_the_devices_queue_refuses_are_sent_and_lost(
    pairs: VethPairs, generator: XdpGenerator
) -> None:
    """The kernel's threads, which empty the queues, share a core with the generator, which fills them."""
    for link in pairs.links:
        script = "mount -t sysfs sysfs /sys && echo 1 > /sys/class/net/$1/threaded"
        interface = link.device.interface
        run(pairs.at_device(["unshare", "--mount", "sh", "-c", script, "sh", interface]))
        pin_thread(f"napi/{interface}-", min(os.sched_getaffinity(0)))
    generator.use(TrafficProfile.parse("64B", {}))
    before = count_delivered(pairs)

    count = generator.count(1e8, 0.002)

    assert 200_000 == count.sent == count_delivered(pairs) - before + count.refused
    assert count.refused > 0


def pin_thread(name: str, core: int) -> None:
    """Pin a thread of the kernel, by the beginning of its name."""
    for path in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            if path.read_text().startswith(name):
                os.sched_setaffinity(int(path.parent.name), {core})


def test_port_that_no_longer_accepts_xdp_frames_is_an_error_and_no_loss(
    pairs: VethPairs, generator: XdpGenerator
) -> None:
    generator.use(TrafficProfile.parse("64B", {}))
    run(pairs.at_device(["ethtool", "-K", "d1", "gro", "off"]))

    with pytest.raises(TestbedError, match="only 50 of 100 XDP frames reached the device's ports"):
        generator.count(10_000, 0.01)


def test_port_that_goes_down_loses_all_frames_as_that_of_the_embedded_generator(
    pairs: VethPairs, generator: XdpGenerator
) -> None:
    generator.use(TrafficProfile.parse("64B", {}))
    run(pairs.at_device(["ip", "link", "set", "d1", "down"]))

    count = generator.count(10_000, 0.01)

    assert (100, 50) == (count.sent, count.refused)


def test_port_that_is_down_from_the_beginning_makes_it_the_embedded_generator(
    pairs: VethPairs, capsys: pytest.CaptureFixture[str]
) -> None:
    run(pairs.at_device(["ip", "link", "set", "d0", "down"]))
    with closing(XdpGenerator(pairs, Node(), {})) as generator:
        generator.open()

    assert "only 1 of 2 XDP frames reached the device's ports" in generator.fallback
    assert "sending through sockets instead" in capsys.readouterr().err


def test_user_without_rights_gets_the_embedded_generator(
    require: Require, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a user namespace, not even root may use BPF."""
    wiring = VethPairs(user_namespace="yes")
    require(not wiring.unusable(), wiring.unusable())
    with lock.hold("this-machine", wait_s=600), closing(wiring):
        wiring.open()
        with closing(XdpGenerator(wiring, Node(), {})) as generator:
            generator.open()
            generator.use(TrafficProfile.parse("64B", {}))
            before = count_delivered(wiring)
            count = generator.count(10_000, 0.1)

            assert 1000 == count.sent == count_delivered(wiring) - before

    assert "the kernel refuses the BPF program (Operation not permitted)" in generator.fallback
    [line] = capsys.readouterr().err.splitlines()
    assert generator.fallback in line


def test_terminated_process_ends_in_the_middle_of_a_trial(generator: XdpGenerator) -> None:
    generator.use(TrafficProfile.parse("64B", {}))
    [process] = generator.busy_processes()
    failures: list[TestbedError] = []

    def measure() -> None:
        try:
            generator.count(10_000, 600.0)
        except TestbedError as error:
            failures.append(error)

    trial = threading.Thread(target=measure)
    trial.start()
    wait_until(lambda: is_in_trial(process))
    os.kill(process, signal.SIGTERM)
    trial.join()

    assert "traffic generator has ended" == str(failures[0])


def is_in_trial(process: int) -> bool:
    """Return whether the second thread of a generator runs, which it does only in a trial."""
    return len(list(Path(f"/proc/{process}/task").iterdir())) > 1


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


JOB = """
from perftrend.measure.interfaces import Node
from perftrend.measure.traffic import TrafficProfile
from perftrend.measure.wiring import VethPairs
from perftrend.measure.xdp.generator import XdpGenerator

wiring = VethPairs()
wiring.open()
generator = XdpGenerator(wiring, Node(), {})
generator.open()
generator.use(TrafficProfile.parse("64B", {}))
print(*generator.busy_processes(), flush=True)
generator.count(10_000, 600.0)
"""


@pytest.mark.usefixtures("generator")
def test_killed_job_leaves_no_generator_behind() -> None:
    """The fixture shows that this user can use it."""
    with subprocess.Popen([sys.executable, "-c", JOB], stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        process = int(job.stdout.readline())
        wait_until(lambda: is_in_trial(process))
        job.send_signal(signal.SIGKILL)

    wait_until(lambda: not Path(f"/proc/{process}").exists())


@pytest.mark.parametrize("forwarding", ["ip4", "l2"])
def test_kernel_returns_every_frame_at_a_low_rate(require: Require, forwarding: str) -> None:
    spec = specification.load("1n-xdp")
    testbed = Testbed(spec)
    require(not testbed.unusable(), testbed.unusable())
    with lock.hold(spec.lock, wait_s=600), testbed:
        testbed.start_device({"forwarding": forwarding})
        testbed.use("64B")
        trial = testbed.generator.trial(5_000, 0.5, None)

    assert (2500, 2500) == (trial.sent, trial.received)


@pytest.mark.usefixtures("generator")
def test_benchmark_counts_the_frames_of_both_generators(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fixture shows that this user can use both, and holds the lock."""
    monkeypatch.setenv(lock.HELD, "this-machine")

    assert 0 == benchmark.main(["--frames", "64B", "--trials", "1", "--duration", "0.02", "--json"])

    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    rates = [row for row in found if "rate_pps" in row]
    assert ["embedded", "xdp"] * 5 == [row["generator"] for row in found]
    assert [0] * 8 == [row["wrong_counts"] for row in rates]
    assert all(row["flood_pps"] > 0 for row in found[-2:])

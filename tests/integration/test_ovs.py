"""Open vSwitch forwards real packets, and leaves nothing behind."""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from perftrend.errors import SettingsError, TestbedError
from perftrend.measure import lock, specification
from perftrend.measure.embedded.drivers import EmbeddedGenerator
from perftrend.measure.interfaces import Link, Node, Port
from perftrend.measure.ovs import OvsDevice
from perftrend.measure.specification import Specification
from perftrend.measure.testbed import Testbed
from perftrend.measure.traffic import TrafficProfile, parse_frame_bytes
from perftrend.measure.wiring import VethPairs, run
from perftrend.measurement import Trial
from tests.integration.quiet import count_received, interference
from tests.integration.servers import lab as labs

pytestmark = pytest.mark.packets

Require = Callable[[object, str], None]
SPECIFICATION = specification.load("1n-ovs")
FOLDERS = Path(f"/tmp/perftrend-{os.getuid()}")  # noqa: S108 - where programs on a node have their files


@pytest.fixture
def testbed(require: Require) -> Iterator[Testbed]:
    found = Testbed(SPECIFICATION)
    require(not found.unusable(), found.unusable())
    with lock.hold(SPECIFICATION.lock, wait_s=600), found:
        yield found


@pytest.fixture
def measure(require_quiet: Callable[[str], None]) -> Callable[..., Trial]:
    """Give a function that makes a trial, if the cores are quiet enough for one that is valid."""

    def trial(testbed: Testbed, rate_pps: float, duration_s: float, **options: float) -> Trial:
        found = testbed.trials.measure(rate_pps, duration_s, **options)
        require_quiet(interference(found.invalid))
        assert "" == found.invalid
        return found

    return trial


@pytest.fixture
def wiring(require: Require) -> Iterator[VethPairs]:
    found = VethPairs()
    reason = found.unusable() or OvsDevice(found, Node()).unusable()
    require(not reason, reason)
    found.open()
    try:
        yield found
    finally:
        found.close()


@pytest.mark.parametrize("frame", ["64B", "1518B", "IMIX"])
@pytest.mark.parametrize("forwarding", ["ip4", "l2"])
def test_every_frame_comes_back_once_at_a_low_rate(
    testbed: Testbed, measure: Callable[..., Trial], frame: str, forwarding: str
) -> None:
    testbed.start_device({"forwarding": forwarding, "acl_rules": "20"})
    testbed.use(frame)

    trial = measure(testbed, 10_000, 0.5)

    assert (5000, 5000) == (trial.sent, trial.received)


@pytest.mark.parametrize(("frame", "options"), [
    ("78B", {"forwarding": "ip6", "acl_rules": "20"}),
    ("1518B", {"forwarding": "ip6", "protocol": "tcp", "vlan": "7"}),
    ("64B", {"forwarding": "ip4", "routes": "10000", "flow_count": "1000"}),
    ("78B", {"forwarding": "ip6", "routes": "200", "vlan": "7"}),
    ("IMIX", {"forwarding": "l2xc", "acl_rules": "20"}),
    ("64B", {"forwarding": "ip4", "vlan": "100", "acl_rules": "20"}),
    ("1518B", {"forwarding": "l2", "vlan": "100"}),
    ("64B", {"forwarding": "l2xc", "vlan": "4094", "flow_count": "1000"}),
    ("114B", {"forwarding": "l2", "tunnel": "vxlan", "acl_rules": "20"}),
    ("1518B", {"forwarding": "l2xc", "tunnel": "vxlan", "flow_count": "5000"}),
    ("1518B", {"forwarding": "l2", "tunnel": "geneve", "vlan": "7"}),
    ("114B", {"forwarding": "l2xc", "tunnel": "geneve"}),
])  # fmt: skip
def test_only_the_traffic_of_the_test_is_forwarded(
    testbed: Testbed, frame: str, options: dict[str, str]
) -> None:
    generator = cast(EmbeddedGenerator, testbed.generator)
    testbed.start_device(options)
    testbed.use(frame)

    assert 1000 == count_received(generator, 1000)

    if options.keys() & {"vlan", "tunnel"} or options["forwarding"] == "ip6":
        generator.use(TrafficProfile.parse("128B", {"forwarding": "ip4", "vlan": "9"}))
        assert 0 == count_received(generator, 0)


@pytest.mark.parametrize(("prepared", "sent"), [("vxlan", "geneve"), ("geneve", "vxlan"), ("vxlan", "none")])
def test_tunnel_of_another_kind_is_not_ended(testbed: Testbed, prepared: str, sent: str) -> None:
    generator = cast(EmbeddedGenerator, testbed.generator)
    testbed.start_device({"forwarding": "l2", "tunnel": prepared})
    testbed.use("128B")
    assert 1000 == count_received(generator, 1000)

    generator.use(TrafficProfile.parse("128B", {"forwarding": "l2", "tunnel": sent}))

    assert 0 == count_received(generator, 0)


def test_bridges_with_addresses_send_no_frames_of_their_own(wiring: VethPairs) -> None:
    """Linux looks for routers behind the interfaces of the bridges within two seconds."""
    run(wiring.at_device(["sh", "-c", "echo 0 > /proc/sys/net/ipv6/conf/default/disable_ipv6"]))
    device = OvsDevice(wiring, Node())
    device.start({"forwarding": "l2", "tunnel": "vxlan"})
    before = run(wiring.at_generator(["cat", "/proc/net/dev"]))

    time.sleep(3)

    after = run(wiring.at_generator(["cat", "/proc/net/dev"]))
    device.stop()
    assert before == after


def test_counters_of_rules_and_threads_agree_with_the_trials(
    testbed: Testbed, measure: Callable[..., Trial]
) -> None:
    testbed.start_device({"acl_rules": "60"})
    testbed.use("64B")
    measure(testbed, 10_000, 0.3)

    counters = testbed.device.counters()

    forwarding, generated = counters["threads"], testbed.generator.counters()
    received = sum(thread["packets received"] for thread in forwarding.values())
    assert generated["received"] == received <= generated["sent"]
    assert 400 + 60 + 2 == counters["rules"]["rules"]
    assert counters["cache"]["flows"] == counters["cache"]["missed"] > 460
    assert "Open vSwitch 3" in testbed.versions()["device"]


def test_cycles_per_packet_are_measured(testbed: Testbed) -> None:
    testbed.start_device({})
    testbed.use("64B")
    before = testbed.device.counters()
    testbed.generator.trial(10_000, 0.3, None)

    found = testbed.device.cycles_per_packet(before, testbed.device.counters())

    assert ["total"] == list(found)
    assert 0 < found["total"] < math.inf


@pytest.mark.parametrize(("options", "rules"), [
    ({"acl_rules": "20"}, 22),
    ({"forwarding": "l2", "tunnel": "vxlan", "vlan": "7"}, 1),
])  # fmt: skip
def test_switch_on_another_machine_forwards(
    tmp_path: Path, require: Require, options: dict[str, str], rules: int
) -> None:
    require(not labs.lacking(), labs.lacking())
    with labs.built(tmp_path) as lab:
        file = lab.file(device={"driver": "ovs"})
        file["nodes"]["dut"]["cpu"] = 0
        with Testbed(Specification.model_validate(file)) as testbed:
            testbed.start_device(options)
            testbed.use("128B")
            trial = testbed.trials.measure(2_000, 0.5, 0.9)
            during = testbed.device.counters()

        assert 1000 == trial.sent
        assert 0 < trial.received <= 1000
        assert rules == during["rules"]["rules"]
        assert {"0", "main"} == set(during["threads"])
        wait_until(lambda: not lab.processes("dut"))


@pytest.mark.parametrize("forwarding", ["ip4", "ip6", "l2xc"])
def test_frames_pass_a_chain_of_links_with_vlans(tmp_path: Path, require: Require, forwarding: str) -> None:
    """Each switch forwards only frames with the tags of its links, which are those that the others send."""
    require(not labs.lacking(), labs.lacking())
    require(len(os.sched_getaffinity(0)) > 1, "needs a core for each switch")
    with labs.built(tmp_path, ["tg", "dut", "dut2"]) as lab:
        file = lab.file(device={"driver": "ovs"})
        for vlan, link in zip((10, 20, 4094), file["links"], strict=True):
            link["vlan"] = vlan
        for core, node in zip(sorted(os.sched_getaffinity(0)), ("dut", "dut2"), strict=False):
            file["nodes"][node]["cpu"] = core
        with Testbed(Specification.model_validate(file)) as testbed:
            testbed.start_device({"forwarding": forwarding})
            testbed.use("128B")
            trial = testbed.trials.measure(2_000, 0.5, 0.9)

            assert all(0 < received <= 500 for received in trial.received_each)
            assert "frames have one tag only" in testbed.lacks({"forwarding": forwarding, "vlan": "100"})


def test_each_core_forwards_the_frames_of_a_port(wiring: VethPairs, require: Require) -> None:
    cores = sorted(os.sched_getaffinity(0))
    require(len(cores) > 1 and cores[1] == cores[0] + 1, "needs two cores in a row")
    device = OvsDevice(wiring, Node(cpu=cores[0]))
    generator = EmbeddedGenerator(wiring, Node(), {})
    device.start({"cores": "2"})
    generator.open()
    generator.use(TrafficProfile.parse("64B", {}))
    received = generator.trial(2_000, 0.5, None).received
    threads = device.counters()["threads"]
    generator.close()
    device.stop()

    assert received > 0
    assert {str(core) for core in cores[:2]} | {"main"} == set(threads)
    assert all(threads[str(core)]["packets received"] > 0 for core in cores[:2])
    assert set() == leftovers(wiring)


@pytest.mark.parametrize(("frame", "options"), [
    ("64B", {"forwarding": "ip4"}),
    ("1518B", {"forwarding": "l2", "vlan": "7"}),
    ("9000B", {"forwarding": "l2xc", "frame_bytes": "9000"}),
    ("128B", {"forwarding": "l2", "tunnel": "vxlan"}),
])  # fmt: skip
def test_ports_of_linux_forward(wiring: VethPairs, frame: str, options: dict[str, str]) -> None:
    """They may lose single bursts at any load."""
    wiring.carry(parse_frame_bytes(options))
    device = OvsDevice(wiring, Node(cpu=max(os.sched_getaffinity(0))))
    generator = EmbeddedGenerator(wiring, Node(), {})
    device.start({"port_type": "system", **options})
    generator.open()
    generator.use(TrafficProfile.parse(frame, options))
    trial = generator.trial(2_000, 0.5, None)
    counters = device.counters()
    generator.close()
    device.stop()

    assert 1000 == trial.sent
    assert 900 < trial.received <= 1000
    assert "0" not in counters["threads"] or not counters["threads"]["0"].get("packets received")
    assert counters["threads"]["main"]["packets received"] >= trial.received


def test_rules_of_a_file_override_those_of_the_driver(
    testbed: Testbed, measure: Callable[..., Trial], tmp_path: Path
) -> None:
    """A frame of either direction is dropped if its source has an odd address: half of them."""
    file = tmp_path / "flows.txt"
    file.write_text("# Half of the hosts are blocked.\n\nip,nw_src=0.0.0.1/0.0.0.1,actions=drop\n")
    testbed.start_device({"flows": str(file)})
    testbed.use("64B")

    trial = measure(testbed, 10_000, 0.3)

    assert 400 + 2 + 1 == testbed.device.counters()["rules"]["rules"]
    assert (3000, 1500) == (trial.sent, trial.received)


def test_rules_of_a_file_can_replace_those_of_the_driver(wiring: VethPairs, tmp_path: Path) -> None:
    file = tmp_path / "flows.txt"
    file.write_text("delete\nin_port=1,actions=resubmit(,1)\ntable=1,actions=output:2\n")
    device = OvsDevice(wiring, Node())
    device.start({"flows": str(file), "acl_rules": "10"})
    counters = device.counters()
    device.stop()

    assert 2 == counters["rules"]["rules"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("udp,tp_dst=53,actions=dropp", "line 3: unknown action dropp"),
        ("actions=group:9", "rule actions=group:9: the switch refuses it (OFPBAC_BAD_OUT_GROUP)"),
    ],
)
def test_wrong_rule_of_a_file_is_an_error_of_one_line(
    wiring: VethPairs, tmp_path: Path, line: str, problem: str
) -> None:
    file = tmp_path / "flows.txt"
    file.write_text(f"priority=5,udp,actions=drop\n\n{line}\n")

    with pytest.raises(SettingsError) as refused:
        OvsDevice(wiring, Node()).start({"flows": str(file)})

    assert f"device option flows='{file}', {problem}" == str(refused.value)
    assert set() == leftovers(wiring)


def test_rules_make_the_lookup_of_cached_flows_longer(
    testbed: Testbed, measure: Callable[..., Trial]
) -> None:
    """Counted, not timed: each frame is compared with the masks of the cached flows."""
    lookups = []
    for rules in ("0", "400"):
        testbed.start_device({"base_rules": rules})
        testbed.use("64B")
        measure(testbed, 10_000, 0.3)
        (thread,) = (each for name, each in testbed.device.counters()["threads"].items() if name != "main")
        lookups.append(thread["subtable lookups per megaflow hit"])

    assert 1 == lookups[0]
    assert lookups[1] > 20


@pytest.mark.measure
def test_rules_slow_the_switch_down(
    testbed: Testbed, measure: Callable[..., Trial], record_property: Callable[[str, object], None]
) -> None:
    rates = []
    for rules in ("0", "112"):
        testbed.start_device({"acl_rules": rules})
        testbed.use("64B")
        rates.append(measure(testbed, testbed.maximum_pps, 0.5, deviation=0.05).receive_rate_pps)

    record_property("measured", f"0 and 112 further rules: {rates[0]:.0f} and {rates[1]:.0f} pps")
    assert rates[1] < 0.9 * rates[0]


def test_port_that_does_not_exist_is_an_error_of_one_line(wiring: VethPairs) -> None:
    wiring.links = [wiring.links[0], Link(Port("tg1"), Port("d9", "02:00:00:00:0d:01"))]

    with pytest.raises(TestbedError) as refused:
        OvsDevice(wiring, Node()).start({})

    assert "Open vSwitch, port d9: could not open network device d9 (No such device)" == str(refused.value)
    assert set() == leftovers(wiring)


def test_build_without_dpdk_is_an_error_that_names_the_package(wiring: VethPairs, require: Require) -> None:
    if "dpdk" in run(["ovs-vswitchd", "--version"]).lower():
        require(False, "needs Open vSwitch without DPDK")
    wiring.links = [wiring.links[0], Link(Port("tg1"), Port(mac="02:00:00:00:0d:01", pci="0000:01:00.0"))]

    with pytest.raises(TestbedError, match=r"built without ports of type dpdk.*openvswitch-switch-dpdk"):
        OvsDevice(wiring, Node()).start({})

    assert set() == leftovers(wiring)


def test_missing_schema_is_an_error_of_one_line(
    wiring: VethPairs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OVS_PKGDATADIR", str(tmp_path))

    with pytest.raises(TestbedError, match=r"^ovs has ended: .*vswitch\.ovsschema.*No such file"):
        OvsDevice(wiring, Node()).start({})

    assert set() == leftovers(wiring)


def test_missing_program_of_another_machine_is_an_error_of_one_line(
    wiring: VethPairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "is_remote", True)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")

    with pytest.raises(TestbedError, match=r"ovs-vswitchd is missing .*apt-get install openvswitch-switch"):
        OvsDevice(wiring, Node()).start({})


def test_core_that_does_not_exist_is_an_error(wiring: VethPairs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring, "is_remote", True)

    with pytest.raises(TestbedError, match="port d0: no thread polls it; does core 1000 exist"):
        OvsDevice(wiring, Node(cpu=1000)).start({})

    assert set() == leftovers(wiring)


@pytest.mark.parametrize("options", [{"acl_rules": "10"}, {"forwarding": "l2", "tunnel": "geneve"}])
def test_stopped_switch_leaves_nothing(wiring: VethPairs, options: dict[str, str]) -> None:
    device = OvsDevice(wiring, Node())
    device.start(options)
    during = leftovers(wiring)
    device.stop()
    device.stop()

    assert {"folder", "process", "XDP program", "bridge"} == during
    assert set() == leftovers(wiring)


def test_killed_switch_is_reported_and_starts_again(wiring: VethPairs) -> None:
    device = OvsDevice(wiring, Node())
    device.start({})
    status = Path(f"/proc/{device.busy_processes()[0]}/status").read_text()
    killed = os.pidfd_open(int(status.partition("Tgid:")[2].split()[0]))
    signal.pidfd_send_signal(killed, signal.SIGKILL)
    select.select([killed], [], [])
    os.close(killed)

    with pytest.raises(TestbedError, match=r"^(ovs has ended|Open vSwitch: .* cannot connect).*$"):
        device.counters()
    device.start({})
    device.stop()

    assert set() == leftovers(wiring)


JOB = """
import sys
from perftrend.measure.interfaces import Node
from perftrend.measure.ovs import OvsDevice
from perftrend.measure.wiring import VethPairs

wiring = VethPairs()
wiring.at_device = lambda command: ["nsenter", "-t", sys.argv[1], "--net", "--", *command]
device = OvsDevice(wiring, Node())
device.start({})
print("started", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_switch_ends_with_its_job(wiring: VethPairs, number: signal.Signals) -> None:
    (holder,) = (word for word in wiring.at_device([]) if word.isdigit())
    job = subprocess.Popen(
        [sys.executable, "-c", JOB, holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert job.stdout is not None
    started = job.stdout.readline()
    during = leftovers(wiring)
    job.send_signal(number)
    job.communicate()

    assert "started\n" == started
    assert {"folder", "process", "XDP program", "bridge"} == during
    wait_until(lambda: not leftovers(wiring))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def leftovers(wiring: VethPairs) -> set[str]:
    """Return the kinds of what a switch has left in the device's namespace."""
    network = run(wiring.at_device(["readlink", "/proc/self/ns/net"])).strip()
    found = set()
    if list(FOLDERS.glob(f"ovs-{''.join(filter(str.isdigit, network))}")):
        found.add("folder")
    interfaces = run(wiring.at_device(["ip", "-details", "link", "show"]))
    found |= {
        kind
        for kind, word in {"XDP program": "prog/xdp", "bridge": "perftrend"}.items()
        if word in interfaces
    }
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_switch = (path / "comm").read_text().startswith("ovs")
            if is_switch and network == str((path / "ns/net").readlink()):
                found.add("process")
        except OSError:
            continue  # It ended in the meantime.
    return found

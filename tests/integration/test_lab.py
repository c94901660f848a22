"""Testbeds on other machines: real SSH to two namespaces that stand for them."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from robot.api import ExecutionResult

from perftrend.builds import Builds, load
from perftrend.clients.git import Repository
from perftrend.errors import TestbedError
from perftrend.execution.robot import LockReference, hold_testbed, run_suites
from perftrend.measure import lock, specification
from perftrend.measure.interfaces import Device, Node
from perftrend.measure.program import Program
from perftrend.measure.specification import Specification
from perftrend.measure.ssh import SshWiring
from perftrend.measure.testbed import Testbed
from perftrend.measure.wiring import run
from perftrend.settings import Settings
from tests.integration.servers import lab as labs
from tests.integration.servers.lab import Lab
from tests.products.histories import History

pytestmark = pytest.mark.packets

ROOT = Path(__file__).parents[2]
DEADLINE_S = 120.0


@pytest.fixture
def lab(tmp_path: Path, require: Callable[[object, str], None]) -> Iterator[Lab]:
    require(not labs.lacking(), labs.lacking())
    with labs.built(tmp_path) as made:
        yield made


def wiring_of(lab: Lab) -> SshWiring:
    nodes = {name: Node(options={"host": name}) for name in labs.NODES}
    return SshWiring(nodes, [], ssh_config=str(lab.config))


@contextlib.contextmanager
def opened(wiring: SshWiring) -> Iterator[SshWiring]:
    wiring.open()
    try:
        yield wiring
    finally:
        wiring.close()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def make_testbed(lab: Lab, **values: object) -> Testbed:
    # The machine of the lock may not know yet that the connection of the job before was cut.
    return Testbed(Specification.model_validate(lab.file(**values)), wait_s=DEADLINE_S)


def test_frames_pass_between_two_machines(lab: Lab) -> None:
    with make_testbed(lab) as testbed:
        testbed.start_device({"acl_rules": "0"})
        testbed.use("64B")
        trial = testbed.trials.measure(2_000, 0.5, 0.9)

        assert 1000 == trial.sent
        assert 0 < trial.received <= 1000
        assert {"tg", "dut"} == set(testbed.counters()["interfaces"])
        assert {"d0", "d1", "lo", "mgmt"} == set(testbed.counters()["interfaces"]["dut"])
        environment = testbed.read_environment()
        assert {"dut: kernel", "tg: kernel", "dut: host"} <= set(environment)
        assert ("veth", "veth") == (environment["tg: port tg0 driver"], environment["dut: port d1 driver"])
    until(lambda: not lab.processes("dut") | lab.processes("tg"))


@pytest.mark.parametrize("count", [1, 4])
def test_frames_of_each_link_pass_between_two_machines(
    tmp_path: Path, require: Callable[[object, str], None], count: int
) -> None:
    require(not labs.lacking(), labs.lacking())
    with labs.built(tmp_path, link_count=count) as lab, make_testbed(lab) as testbed:
        testbed.start_device({})
        testbed.use("64B")
        trial = testbed.trials.measure(2_000, 0.5, 0.9)

    assert (1000 // count,) * count == trial.sent_each
    assert all(0 < received <= 1000 // count for received in trial.received_each)


def test_testpmd_forwards_on_another_machine(lab: Lab, require: Callable[[object, str], None]) -> None:
    require(shutil.which("dpdk-testpmd"), "needs dpdk-testpmd (dpdk-dev)")
    device = specification.load("1n-testpmd").device.model_dump()
    with make_testbed(lab, device=device) as testbed:
        testbed.start_device({"forwarding": "l2"})
        testbed.use("64B")
        trial = testbed.trials.measure(2_000, 0.5, 0.9)

        assert 1000 == trial.sent
        assert 0 < trial.received <= 1000
        assert testbed.counters()["device"]
    until(lambda: not lab.processes("dut") | lab.processes("tg"))


@pytest.mark.parametrize("forwarding", ["ip4", "l2"])
def test_frames_pass_a_chain_of_machines(
    tmp_path: Path, require: Callable[[object, str], None], forwarding: str
) -> None:
    require(not labs.lacking(), labs.lacking())
    with labs.built(tmp_path, ["tg", "dut", "dut2"]) as lab:
        with make_testbed(lab) as testbed:
            testbed.start_device({"forwarding": forwarding})
            testbed.use("64B")
            trial = testbed.trials.measure(2_000, 0.5, 0.9)

            assert 1000 == trial.sent
            assert 0 < trial.received <= 1000
            assert {"tg", "dut", "dut2"} == set(testbed.counters()["interfaces"])
            lab.kill("dut2")
            with pytest.raises(TestbedError, match="dut2: device has ended"):
                testbed.trials.measure(2_000, 0.5, 0.9)
        until(lambda: not any(map(lab.processes, ("tg", "dut", "dut2"))))


def test_commands_run_on_their_node_word_by_word(lab: Lab) -> None:
    with opened(wiring_of(lab)) as wiring:
        assert "$(reboot); '*'\n" == run(wiring.at_device(["echo", "$(reboot); '*'"]))
        assert "d0" in run(wiring.at_device(["ls", "/proc/sys/net/ipv4/conf"]))
        assert "tg0" in run(wiring.at_generator(["ls", "/proc/sys/net/ipv4/conf"]))
        assert "in\n" == run(wiring.at_device(["cat"]), "in\n")


def test_machine_is_reached_through_a_jump_host(lab: Lab) -> None:
    """Which is the machine itself here: to its server, the connection comes from there."""
    nodes = {"tg": Node(options={"host": "tg"}), "dut": Node(options={"host": "dut", "jump": "dut"})}
    with opened(SshWiring(nodes, [], ssh_config=str(lab.config))) as wiring:
        [source, *_] = run(wiring.at_device(["printenv", "SSH_CONNECTION"])).split()
        [direct, *_] = run(wiring.at_generator(["printenv", "SSH_CONNECTION"])).split()

    assert lab.hosts["dut"] == source
    assert lab.hosts["tg"] != direct


def test_sockets_of_a_node_are_reached(lab: Lab, tmp_path: Path) -> None:
    server = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX if sys.argv[1] else socket.AF_INET); "
        "s.bind(sys.argv[1] or ('127.0.0.1', 4501)); s.listen(); print('ready', flush=True); "
        "c = s.accept()[0]; c.sendall(b'hello'); c.close()"
    )
    ready = re.compile("ready\n")
    path = str(tmp_path / "api.sock")
    with (
        opened(wiring_of(lab)) as wiring,
        Program(wiring.at_device, "by-path", ["python3", "-c", server, path]) as by_path,
        Program(wiring.at_generator, "by-port", ["python3", "-c", server, ""]) as by_port,
    ):
        by_path.read_until(ready, 60)
        by_port.read_until(ready, 60)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(wiring.forward_device(path))
            assert b"hello" == client.recv(100)
        with socket.create_connection(("127.0.0.1", wiring.forward_generator(4501))) as client:
            assert b"hello" == client.recv(100)


def test_machine_with_another_key_is_refused(lab: Lab) -> None:
    with (
        lab.other_key("tg"),
        pytest.raises(TestbedError, match=r"^node tg: .*Host key verification failed"),
    ):
        wiring_of(lab).open()


def test_machine_that_is_off_is_reported(lab: Lab) -> None:
    lab.stop_server("dut")

    with pytest.raises(TestbedError, match=r"^node dut: .*Connection refused"):
        wiring_of(lab).open()


def test_lock_is_on_the_generators_machine(lab: Lab) -> None:
    """Two jobs on two machines have no file in common but there."""
    with opened(wiring_of(lab)) as first, opened(wiring_of(lab)) as second, opened(wiring_of(lab)) as third:
        first.lock("lab", "the nightly job on agent1", 0)
        with pytest.raises(
            TestbedError, match="testbed lab is in use by the nightly job on agent1; wait longer"
        ):
            second.lock("lab", "another", 0)
        third.lock("other", "another", 0)
        first.close()

        second.lock("lab", "another", 60)


OWN_SUITE = """
*** Settings ***
Resource          perftrend/keywords/forwarding.resource
Suite Setup       Open Testbed
Suite Teardown    Close Testbed

*** Test Cases ***
Device Starts
    [Tags]    MRR    64B    1C
    Start Device
"""


def run_suite(lab: Lab, spec: Specification, held: LockReference) -> str:
    """Start the device in a process of Robot Framework; return what the test or its set-up reports."""
    place = lab.folder / "suites"
    place.mkdir(exist_ok=True)
    (place / "own.robot").write_text(OWN_SUITE)
    (place / "lab.yaml").write_text(json.dumps(lab.file(lock=spec.lock)))
    settings = Settings(testbed="lab", testbeds=place)
    run_suites(settings, place, suites=place / "own.robot", metadata={}, tags=[], held=held)
    test: str = ExecutionResult(place / "output.xml").suite.tests[0].message
    return test


def test_job_holds_the_lock_until_it_ends(lab: Lab) -> None:
    """While it installs, and between the runs of its suites, which share the lock."""
    spec = Specification.model_validate(lab.file(lock=f"job-{os.getpid()}"))
    with opened(wiring_of(lab)) as other:
        with hold_testbed(spec, owner="the bisection", wait_s=0) as held:
            for _ in range(2):
                with pytest.raises(TestbedError, match=r"in use by the bisection on .*; wait longer"):
                    other.lock(spec.lock, "another", 0)
                assert "" == run_suite(lab, spec, held)
                held.verify()

        other.lock(spec.lock, "another", 60)


def test_job_that_lost_its_lock_installs_and_measures_nothing(lab: Lab) -> None:
    spec = Specification.model_validate(lab.file(lock=f"job-{os.getpid()}"))
    with hold_testbed(spec, owner="the bisection", wait_s=0) as held:
        lab.stop_server("tg")
        lab.start_server("tg")
        with opened(wiring_of(lab)) as other:
            other.lock(spec.lock, "another", 60)

            with pytest.raises(TestbedError, match="lock on the generator's node is lost"):
                held.verify()
            assert "has lost its lock on the generator's node, and another may have used" in run_suite(
                lab, spec, held
            )
    assert not lab.processes("dut")


PROFILE = """
description: A file with the commit
parameters:
  target: {description: The path of the file on the machine of the device}
build: [[sh, -c, "echo {commit} >version.txt"]]
artifacts: [version.txt]
install:
  - [scp, -q, "{ssh_options...}", "{artifacts}/version.txt", "{device}:{target}"]
  - [ssh, "{ssh_options...}", "{device}", ls, /proc/sys/net/ipv4/conf]
identify: [ssh, "{ssh_options...}", "{device}", cat, "{target}"]
"""


def test_build_is_installed_on_the_device_of_the_instance_that_is_measured(lab: Lab) -> None:
    """The machines of the lab have the same files, but each has interfaces of its own."""
    history = History(lab.folder / "product")
    commit = history.commit("Begin", {"readme.txt": "a file"})
    (lab.folder / "copied.yaml").write_text(PROFILE)
    target = lab.folder / "installed"
    profile = load("copied", lab.folder, {"target": str(target)})
    instances = [{"dut": {"host": "nowhere.invalid"}}, {"dut": {"host": "dut"}}]
    spec = Specification.model_validate(lab.file(instances=instances))
    with (
        Builds(profile, Repository.local(history.folder, timeout_s=60), lab.folder / "builds") as product,
        lock.hold(spec.lock, capacity=spec.places),
        hold_testbed(spec, owner="the bisection", wait_s=60) as held,
    ):
        product.install(product.build(commit), held.ssh())
        log = product.log_of(commit, "install").read_text()

    assert f"{commit}\n" == target.read_text()
    assert "\nd0\n" in log
    assert "\ntg0\n" not in log


def test_lock_of_a_dead_job_is_taken_over(lab: Lab) -> None:
    """Its connection was cut, and the server does not notice that."""
    with opened(wiring_of(lab)) as first, opened(wiring_of(lab)) as second:
        first.lock("lab", "the one that was cut", 0)
        file = Path("/tmp/perftrend-locks/lab")  # noqa: S108 - see the script
        old = time.time() - 3600
        os.utime(file, (old, old))

        second.lock("lab", "another", 60)

        assert file.read_text().endswith(" another\n")


@pytest.mark.parametrize("ends", ["cut", "stop_server"])
def test_lost_connection_is_one_line_and_the_next_run_is_clean(lab: Lab, ends: str) -> None:
    with make_testbed(lab) as testbed:
        testbed.start_device({"acl_rules": "0"})
        getattr(lab, ends)("dut")
        with pytest.raises(TestbedError, match=r"the connection to dut is lost$"):
            testbed.restart_device()

    {"cut": lab.plug, "stop_server": lab.start_server}[ends]("dut")
    test_frames_pass_between_two_machines(lab)


@pytest.mark.parametrize(("name", "node"), [("device", "dut"), ("traffic generator", "tg")])
def test_program_that_is_killed_is_one_line_and_the_next_run_is_clean(lab: Lab, name: str, node: str) -> None:
    """A device that has ended loses every frame, which must not become a result."""
    with make_testbed(lab) as testbed:
        testbed.start_device({"acl_rules": "0"})
        testbed.use("64B")
        lab.kill(node)
        with pytest.raises(TestbedError, match=f"^{name} has ended") as caught:
            testbed.trials.measure(2_000, 0.5)
    assert "\n" not in str(caught.value)

    test_frames_pass_between_two_machines(lab)


def test_cut_during_a_trial_is_one_line_and_the_next_run_is_clean(lab: Lab) -> None:
    with make_testbed(lab) as testbed:
        testbed.start_device({"acl_rules": "0"})
        testbed.use("64B")
        cutting = threading.Timer(0.5, lab.cut, ["tg"])
        cutting.start()
        with pytest.raises(TestbedError, match=r"^traffic generator: the connection to tg is lost$"):
            testbed.trials.measure(2_000, 3)
        cutting.join()

    lab.plug("tg")
    test_frames_pass_between_two_machines(lab)


def test_full_disk_of_a_node_is_one_line(lab: Lab) -> None:
    fill = (
        "mount -t tmpfs -o size=64k tmpfs /tmp && mkdir -m 700 /tmp/perftrend-$(id -u) && "
        'dd if=/dev/zero of=/tmp/full 2>/dev/null; exec "$@"'
    )
    with opened(wiring_of(lab)) as wiring:

        def at_full_node(command: Sequence[str]) -> list[str]:
            return wiring.at_device(["unshare", "--mount", "sh", "-c", fill, "sh", *command])

        with pytest.raises(
            TestbedError, match=r"^device has ended: /tmp/.*pid cannot be written; free space"
        ):
            Program(at_full_node, "device", ["sleep", "603"])
    assert not [words for words in lab.processes("dut") if "sleep 603" in words]


def test_left_over_program_of_a_cut_connection_is_ended(lab: Lab) -> None:
    first = wiring_of(lab)
    first.open()
    left = Program(first.at_device, "device", ["sleep", "601"])
    lab.cut("dut")
    first.close()
    left.close()
    assert lab.processes("dut")
    lab.plug("dut")

    with opened(wiring_of(lab)) as second, Program(second.at_device, "device", ["sleep", "602"]):
        assert not [words for words in lab.processes("dut") if "sleep 601" in words and "sh" not in words]


@pytest.mark.parametrize("driver", ["kernel", "ovs", "testpmd"])
def test_left_over_programs_of_another_driver_are_ended(
    lab: Lab, require: Callable[[object, str], None], driver: str
) -> None:
    for program, package in (("ovs-vswitchd", "openvswitch-switch"), ("dpdk-testpmd", "dpdk-dev")):
        require(shutil.which(program), f"needs {program} ({package})")
    options = specification.load("1n-testpmd").device.options if driver == "testpmd" else {}
    with make_testbed(lab, device={"driver": driver, "options": options}) as testbed:
        testbed.start_device({})
        lab.cut("dut")
        with pytest.raises(TestbedError, match=r"the connection to dut is lost$"):
            testbed.restart_device()
    assert lab.processes("dut")
    lab.plug("dut")

    test_frames_pass_between_two_machines(lab)


def example() -> type[Device]:
    """Return the driver that the documentation shows."""
    found = importlib.util.spec_from_file_location("example_driver", ROOT / "docs/examples/driver.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    driver: type[Device] = module.BridgeDevice
    return driver


def test_driver_of_the_documentation_works_here_and_by_ssh(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    load = specification.driver
    monkeypatch.setattr(
        specification,
        "driver",
        lambda group, name: example() if (group, name) == ("devices", "bridge") else load(group, name),
    )
    here = specification.load("1n-bridge", ROOT / "docs/examples")
    assert len((ROOT / "docs/examples/driver.py").read_text().splitlines()) <= 60
    for spec in (here, Specification.model_validate(lab.file(device={"driver": "bridge"}))):
        with lock.hold(spec.lock, wait_s=600), Testbed(spec) as testbed:
            assert "a bridge does not support forwarding=ip4" == testbed.lacks({"forwarding": "ip4"})
            for learning in ("on", "off"):
                testbed.start_device({"forwarding": "l2", "learning": learning})
                testbed.use("64B")
                trial = testbed.trials.measure(2_000, 0.5)

                assert (1000, 1000) == (trial.sent, trial.received)
            testbed.device.stop()
            assert [] == testbed.device.busy_processes()


JOB = """
import json, sys, time
from perftrend.measure.specification import Specification
from perftrend.measure.testbed import Testbed
with Testbed(Specification.model_validate(json.loads(sys.argv[1]))) as testbed:
    testbed.start_device({})
    print("started", flush=True)
    time.sleep(600)
"""


def test_killed_job_leaves_nothing_on_the_nodes(lab: Lab) -> None:
    job = subprocess.Popen(
        [sys.executable, "-c", JOB, json.dumps(lab.file())],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'resources'}"},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert job.stdout is not None
    assert select.select([job.stdout], [], [], DEADLINE_S)[0]
    assert "started\n" == job.stdout.readline()
    assert lab.processes("dut")
    job.kill()
    job.communicate()

    until(lambda: not lab.processes("dut") | lab.processes("tg"))

"""TRex and VPP in a lab in a box: both drivers, over real SSH, with doubles of the two programs.

No frames are sent: the double of TRex answers what its model of a device would let pass, and that of VPP
counts one burst for each reading. All else is real: the testbed's file, sshd, its forwards, the client of
VPP's API and ZeroMQ.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from perftrend.errors import TestbedError
from perftrend.measure import specification
from perftrend.measure.testbed import Testbed
from perftrend.measurement import Trial
from perftrend.store import Store
from tests.doubles.installation import TrexInstallation, VppInstallation
from tests.integration.servers import lab as labs
from tests.integration.servers.lab import Lab
from tests.integration.test_lab import DEADLINE_S, lab, until
from tests.integration.test_trending import run

__all__ = ("lab",)  # a fixture

pytestmark = pytest.mark.packets

NAME = "2n-doubles"
READY = "server of the double listens"
TRIAL_S = 60
"""Simulated time: a trial takes as long as its requests."""
LINK_PPS = 2 * 10e9 / 8 / (64 + 20)
RATE_PPS = 2_000


class DoubleLab:
    """A lab with both doubles installed, and the file of its testbed."""

    def __init__(self, lab: Lab, trex: TrexInstallation, vpp: VppInstallation) -> None:
        self.lab, self.trex, self.vpp = lab, trex, vpp
        self.runtime_dir = vpp.folder / "run/vpp"
        file = lab.file(
            generator={"driver": "trex"},
            device={"driver": "vpp", "options": vpp.options(runtime_dir=str(self.runtime_dir))},
            link={"bits_per_s": 10e9},
        )
        for link in file["links"]:
            # The server has taken the port from the kernel.
            del link["tg"]["interface"]
        (lab.folder / f"{NAME}.yaml").write_text(yaml.safe_dump({**file, "name": NAME}))
        self.processes: dict[str, set[str]] = {}

    def testbed(self) -> Testbed:
        return Testbed(specification.load(NAME, self.lab.folder), wait_s=DEADLINE_S)

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Run the server of TRex, which a job neither starts nor ends."""
        with self.lab.running("tg", [str(self.trex.program), "-i"], READY):
            self.processes = {node: self.lab.processes(node) for node in labs.NODES}
            yield

    def measure(self) -> Trial:
        """Run a job that makes a trial, and check that it leaves nothing on the nodes."""
        with self.testbed() as testbed:
            testbed.start_device({})
            testbed.use("64B")
            trial = testbed.trials.measure(RATE_PPS, TRIAL_S)
        self.check_left_overs()
        return trial

    def check_left_overs(self) -> None:
        until(lambda: self.processes == {node: self.lab.processes(node) for node in labs.NODES})
        assert not self.runtime_dir.exists()
        assert [] == list(Path("/dev/shm").glob("perftrend-vpp-*"))  # noqa: S108 - where Linux has it


@pytest.fixture
def doubles(lab: Lab, require: Callable[[object, str], None], shared_memory: None) -> Iterator[DoubleLab]:
    for package in ("vpp_papi", "zmq"):
        require(find_spec(package), f"needs {package}")
    with TrexInstallation.installed() as trex, VppInstallation.installed() as installed:
        yield DoubleLab(lab, trex, installed)


def test_trending_measures_vpp_by_trex(doubles: DoubleLab, tmp_path: Path) -> None:
    """Two starts of VPP with a trial each, and all that it counts."""
    with doubles.serving():
        done = run(
            tmp_path, "--testbed", NAME, "--tags", "mrrAND64bAND1cANDethip4-ip4base-acl20",
            PERFTREND_TESTBEDS=str(doubles.lab.folder), PERFTREND_TRIAL_DURATION_S=str(TRIAL_S),
            PERFTREND_TRIAL_MULTIPLICITY="2", PERFTREND_TRIAL_STARTS="2",
        )  # fmt: skip
        doubles.check_left_overs()

    assert (0, "") == (done.returncode, done.stderr)
    with Store.open(tmp_path / "perftrend.sqlite") as store:
        measured = {series.key["metric"]: series.samples.tolist() for series in store.series(NAME)}
    assert {"cycles_af-packet-input", "cycles_ip4-lookup", "mrr"} == set(measured)
    assert [pytest.approx(LINK_PPS)] == measured["mrr"]
    (file,) = tmp_path.glob("archives/*/1/counters/*.json")
    collected = json.loads(file.read_text())
    counters = collected["mrr"]["after"]
    # The double has processed another burst at each reading: those of the trial and the one after it.
    assert 768 == counters["device"]["runtime"]["vpp_main"]["ip4-lookup"]["packets"]
    lookups = [each["device"]["runtime"]["vpp_main"]["ip4-lookup"] for each in collected["trials"]]
    assert [256, 256] == [each["packets"] for each in lookups]
    assert {"node": "ip4-input", "reason": "ip4 ttl <= 1", "count": 5} in counters["device"]["errors"]
    assert {"rx packets": 256, "rx-miss": 9} == counters["device"]["interfaces"]["host-d1"]
    assert round(LINK_PPS * TRIAL_S) == counters["generator"]["port 1"]["ipackets"]
    assert 2 == doubles.vpp.requests.count("acl 21 rules, 1 permit")
    neighbour = doubles.lab.links[1].generator.mac
    assert 2 == doubles.vpp.requests.count(f"neighbor host-d1 198.18.1.2 {neighbour} static")
    assert ["release", "release"] == doubles.trex.requests[-2:]


KILLED = (r"the TRex server closed the connection during .*t-rex-64 -i", r"vpp has ended.*")
LOST = (r"the connection to tg is lost", r"vpp: the connection to dut is lost")


def plug(lab: Lab) -> None:
    for node in labs.NODES:
        lab.plug(node)
    # The generator's machine has noticed the cut. That of the device has not: VPP still runs there.
    lab.stop_server("tg")
    lab.start_server("tg")


def start_servers(lab: Lab) -> None:
    for node in labs.NODES:
        lab.start_server(node)


@pytest.mark.parametrize(("fail", "restore", "lines"), [
    ("cut", plug, LOST),
    ("stop_server", start_servers, LOST),
    ("kill", None, KILLED),
])  # fmt: skip
def test_failure_during_a_trial_is_a_line_for_each_node_and_the_next_run_is_clean(
    doubles: DoubleLab, fail: str, restore: Callable[[Lab], None] | None, lines: tuple[str, str]
) -> None:
    """Except after a kill, the server of TRex still sends, and the ports still belong to the failed job."""

    def fail_in_trial() -> None:
        until(lambda: doubles.trex.requests.count("start_traffic") == len(doubles.lab.links))
        for node in labs.NODES:
            getattr(doubles.lab, fail)(node)

    doubles.trex.install(TREX_DOUBLE_STUCK=len(doubles.lab.links))
    with doubles.serving():
        with doubles.testbed() as testbed:
            testbed.start_device({})
            testbed.use("64B")
            failing = threading.Thread(target=fail_in_trial)
            failing.start()
            for line, action in zip(
                lines, (lambda: testbed.trials.measure(RATE_PPS, TRIAL_S), testbed.counters), strict=True
            ):
                with pytest.raises(TestbedError) as caught:
                    action()
                assert re.fullmatch(line, str(caught.value))
            failing.join()

        doubles.trex.install()
        if restore:
            restore(doubles.lab)
        with contextlib.nullcontext() if restore else doubles.serving():
            assert RATE_PPS * TRIAL_S == doubles.measure().received


def test_machine_with_another_key_is_one_line_and_the_next_run_is_clean(doubles: DoubleLab) -> None:
    with doubles.serving():
        with (
            doubles.lab.other_key("dut"),
            pytest.raises(TestbedError, match=r"^node dut: .*Host key verification failed"),
        ):
            doubles.measure()

        assert RATE_PPS * TRIAL_S == doubles.measure().received

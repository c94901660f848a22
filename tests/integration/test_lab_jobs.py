"""What goes wrong in a lab while a whole job measures there: one line each, and the next job is clean.

The job is the real one, over real SSH, with the embedded drivers on both machines.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import yaml

from perftrend.errors import EXIT_PASS, EXIT_TESTBED
from perftrend.measure import lock
from tests.integration.servers import lab as labs
from tests.integration.servers.lab import Lab
from tests.integration.test_lab import lab, until
from tests.integration.test_trending import clean

__all__ = ("lab",)  # a fixture

pytestmark = pytest.mark.packets

NAME = "2n-lab"
LINK_PPS = 50_000
TRIAL_S = 15
"""Long enough for a failure during the trial. That of a device is noticed at its end."""
FRAMES_BEFORE = 60_000
"""At a port of the device, from which on the trial runs: two bursts of 50,000 frames into both precede it."""
BRIEF = {
    "PERFTREND_TRIAL_ATTEMPTS": "1",
    "PERFTREND_TRIAL_MULTIPLICITY": "1",
    "PERFTREND_TRIAL_STARTS": "1",
    "PERFTREND_OFFICIAL": "true",
}


class LabJobs:
    """Jobs that measure in a lab, each in the same folder."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.folder = lab.folder / "jobs"
        self.folder.mkdir()
        file = lab.file(link={"pps": LINK_PPS}, name=NAME)
        self.lock = file["lock"]
        (lab.folder / f"{NAME}.yaml").write_text(yaml.safe_dump(file))

    def start(self, trial_s: float, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        own = {"PERFTREND_TRIAL_DURATION_S": str(trial_s), "PERFTREND_TESTBEDS": str(self.lab.folder)}
        return subprocess.Popen(
            [
                sys.executable, "-P", "-m", "perftrend.cli.trending", "--testbed", NAME,
                "--tags", "mrrAND64bAND1cANDethip4-ip4base", *arguments,
            ],
            cwd=self.folder, env=clean() | BRIEF | own | environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    @contextlib.contextmanager
    def in_trial(self) -> Iterator[subprocess.Popen[str]]:
        """Start a job, and wait until its trial runs."""
        with self.start(TRIAL_S) as job:
            try:
                until(lambda: job.poll() is not None or self.frames_at_device() > FRAMES_BEFORE)
                assert job.poll() is None, job.communicate()[0]
                yield job
            finally:
                job.kill()

    def frames_at_device(self) -> int:
        namespace = self.lab.namespaces["dut"]
        text = namespace.run("cat", "/proc/net/dev")
        [line] = [line for line in text.splitlines() if line.strip().startswith("d0:")]
        return int(line.split()[2])

    def check_next(self) -> None:
        """Run another job, which finds nothing of the one before."""
        output, _ = (job := self.start(0.2)).communicate()

        # Without quiet cores the result is not valid, but there is one.
        assert job.returncode in (EXIT_PASS, EXIT_TESTBED), output
        assert "  64b-1c-ethip4-ip4base-mrr                MRR 0." in output
        until(lambda: not any(map(self.lab.processes, labs.NODES)))


@pytest.fixture
def jobs(lab: Lab) -> LabJobs:
    return LabJobs(lab)


def failures(output: str) -> list[str]:
    """Return the reasons of the tests that failed, one line each."""
    return re.findall(r"^  \S+ +FAILED: (.*)$", output, re.MULTILINE)


def restart_server(lab: Lab, node: str) -> None:
    lab.stop_server(node)
    lab.start_server(node)


@pytest.mark.parametrize(("node", "fail", "restore", "reason"), [
    ("tg", Lab.cut, Lab.plug, "traffic generator: the connection to tg is lost"),
    ("tg", Lab.kill, None, "traffic generator has ended"),
    ("tg", restart_server, None, "traffic generator: the connection to tg is lost"),
    ("dut", Lab.cut, Lab.plug, "device: the connection to dut is lost"),
    ("dut", Lab.kill, None, "device has ended"),
    ("dut", restart_server, None, "device: the connection to dut is lost"),
])  # fmt: skip
def test_failure_during_a_trial_is_one_line_of_the_job(
    jobs: LabJobs,
    node: str,
    fail: Callable[[Lab, str], None],
    restore: Callable[[Lab, str], None] | None,
    reason: str,
) -> None:
    with jobs.in_trial() as job:
        fail(jobs.lab, node)
        output, _ = job.communicate()
    if restore:
        restore(jobs.lab, node)

    assert EXIT_PASS != job.returncode, output
    [line] = failures(output)
    assert line.startswith(f"TestbedError: {reason}"), output
    assert "Traceback" not in output
    jobs.check_next()


def test_machine_with_another_key_is_one_line_of_the_job(jobs: LabJobs) -> None:
    with jobs.lab.other_key("dut"):
        output, _ = (job := jobs.start(0.2)).communicate()

    assert EXIT_TESTBED == job.returncode, output
    assert re.search(r"node dut: .*Host key verification failed", output), output
    assert "Traceback" not in output
    jobs.check_next()


def test_full_disk_of_the_device_is_one_line_of_the_job(jobs: LabJobs) -> None:
    jobs.lab.stop_server("dut")
    jobs.lab.start_server("dut", disk_is_full=True)
    output, _ = (job := jobs.start(0.2)).communicate()
    restart_server(jobs.lab, "dut")

    assert EXIT_PASS != job.returncode, output
    [line] = failures(output)
    assert re.fullmatch(r"TestbedError: device has ended: /tmp/\S+ cannot be written; free space .*", line)
    assert "Traceback" not in output
    jobs.check_next()


def test_second_job_on_another_machine_is_refused(jobs: LabJobs) -> None:
    """Which has no lock of the first one: only the machine of the generator has."""
    with jobs.in_trial() as first:
        for file in lock.FOLDER.glob(f"*{jobs.lock}*"):
            file.unlink()
        output, _ = (second := jobs.start(0.2, "--wait", "0.5")).communicate()

        assert EXIT_TESTBED == second.returncode, output
        assert "in use by" in output.splitlines()[-1]
        assert first.poll() is None
    until(lambda: not any(map(jobs.lab.processes, labs.NODES)))
    jobs.check_next()

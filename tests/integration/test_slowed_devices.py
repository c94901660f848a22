"""A real device that became slower is found by the jobs, however busy the machine is.

The device is at least twice as slow. The rates are low, so that its queues hold what arrives while it waits
for its core. The generator sends no later than it should, because nothing else may use its core meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import perftrend
from perftrend.errors import EXIT_REGRESSION
from perftrend.measure import specification
from perftrend.measure.testbed import Testbed
from perftrend.measure.trial_validity import two_cores
from tests.integration.servers.environment import inherited
from tests.integration.test_bisection import Job
from tests.integration.test_trending import children_in
from tests.products.histories import History

pytestmark = [pytest.mark.packets, pytest.mark.slow]

Require = Callable[[object, str], None]

ROOT = Path(__file__).parents[2]
SHIPPED = Path(perftrend.__path__[0]) / "testbeds"
TAGS = "mrrAND64bAND1cANDeth-l2xcbase"
STEADY_RUNS = 4
LINK_PPS = 20_000.0
"""The rings of the devices hold the frames of a tenth of a second and more."""
BRIEF = {
    "PERFTREND_TRIAL_ATTEMPTS": "10",
    # A kernel takes real-time processes off their core if they use more than 0.95 s of a second.
    "PERFTREND_TRIAL_DURATION_S": "0.25",
    "PERFTREND_TRIAL_MULTIPLICITY": "2",
    "PERFTREND_TRIAL_STARTS": "1",
}
FORGETFUL = "priority=10,in_port=1,actions=drop\n"
"""Half of the frames, in an access list that forgot the hosts behind the first port."""


def write_testbed(folder: Path, name: str, **device: str) -> None:
    """Write the shipped testbed with a rate that its device reaches whatever else runs on the machine."""
    content = yaml.safe_load((SHIPPED / f"{name}.yaml").read_text(encoding="utf-8"))
    # No core is watched: other work may use it, too.
    cores = dict(zip(("tg", "dut"), two_cores(), strict=True))
    nodes = {name: {"cpu": core} for name, core in cores.items()}
    content |= {"nodes": nodes, "remote": True, "link": {"pps": LINK_PPS}}
    content["device"]["options"] |= device
    folder.mkdir()
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")


def trend(folder: Path, testbed: str, *arguments: str) -> int:
    """Run the nightly job and return its exit code."""
    environment = {
        **inherited(), **BRIEF, "PYTHONPATH": str(ROOT), "PERFTREND_OFFICIAL": "true",
        "PERFTREND_TESTBEDS": str(folder / "testbeds"),
    }  # fmt: skip
    command = [
        sys.executable, "-P", "-m", "perftrend.cli.trending", "--testbed", testbed,
        "--cadence", "nightly", "--tags", TAGS, *arguments,
    ]  # fmt: skip
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


def read_mrr(folder: Path) -> dict[str, Any]:
    report = json.loads((folder / "report/report.json").read_text())
    [test] = [test for test in report["tests"] if test["parameters"]["metric"] == "mrr"]
    return dict(test)


@contextlib.contextmanager
def punctual_generators(folder: Path) -> Iterator[None]:
    """Give the generators of the jobs in a folder real-time priority: they run only while they send."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            for process in children_in(folder, b"perftrend.measure.embedded.generator"):
                # It may end in the meantime.
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setscheduler(int(process), os.SCHED_RR, os.sched_param(1))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@dataclass(frozen=True)
class SlowedDevice:
    """The device of a testbed, its usual options, and those that slow it down."""

    testbed: str
    usual: Mapping[str, str]
    slow: Mapping[str, str]


SLOWED = [
    SlowedDevice("1n-testpmd", {"lookups": "0"}, {"lookups": "30000", "descriptors": "32"}),
    SlowedDevice("1n-ovs", {"base_rules": "0"}, {"flows": "flows.txt"}),
]
"""By more work and fewer buffers, and by an access list."""


@pytest.mark.parametrize("device", SLOWED, ids=lambda device: device.testbed)
def test_slowed_device_is_a_regression_of_the_nightly_job(
    tmp_path: Path, require: Require, device: SlowedDevice
) -> None:
    reason = Testbed(specification.load(device.testbed)).unusable()
    require(not reason, reason)
    write_testbed(tmp_path / "testbeds", device.testbed, **device.usual)
    (tmp_path / "flows.txt").write_text(FORGETFUL)

    with punctual_generators(tmp_path):
        trend(tmp_path, device.testbed, "--repeat", str(STEADY_RUNS))
    options = [word for name, value in device.slow.items() for word in ("--device-option", f"{name}={value}")]
    with punctual_generators(tmp_path):
        code = trend(tmp_path, device.testbed, *options)
        # If the machine paused in one of the steady runs, the job waits for one more before it decides.
        if read_mrr(tmp_path)["suspected"]:
            code = trend(tmp_path, device.testbed, *options)

    assert (EXIT_REGRESSION, "regression") == (code, read_mrr(tmp_path)["outcome"])


SETTINGS = """
project: {{profile: ovs-flows, repository: {repository}}}
testbeds: {testbeds}
tags: [{tags}]
bisect: {{maximum_changes: 1}}
"""


def test_commit_whose_access_list_drops_half_of_the_frames_is_found_by_bisecting(
    tmp_path: Path, require: Require
) -> None:
    reason = Testbed(specification.load("1n-ovs")).unusable()
    require(not reason, reason)
    write_testbed(tmp_path / "testbeds", "1n-ovs", base_rules="0")
    history = History(tmp_path / "configuration")
    good, bad, later = (
        history.commit(subject, {"flows.txt": f"{comment}\n{rules}"})
        for subject, comment, rules in (
            ("Begin with a comment", "# No rules yet", ""),
            ("Drop what nobody permitted", "# No rules yet", FORGETFUL),
            ("Explain the rule", "# Everything is dropped that nobody permitted", FORGETFUL),
        )
    )
    settings = SETTINGS.format(repository=history.folder, testbeds=tmp_path / "testbeds", tags=TAGS)
    job = Job(tmp_path / "work", settings, "1n-ovs", BRIEF)

    with punctual_generators(job.folder):
        ended = job.run("--old", good, "--new", later)

    assert EXIT_REGRESSION == ended.returncode, ended.stdout + ended.stderr
    assert [[bad]] == [each["commits"] for each in job.report()["culprits"]], ended.stdout

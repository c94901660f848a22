"""The trending job on real packets: what it measures, waits for and cleans up, and what it finds."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perftrend.errors import EXIT_PASS, EXIT_REGRESSION, EXIT_TESTBED
from perftrend.measure import specification
from perftrend.measure.testbed import Testbed
from perftrend.store import Store
from tests.integration.quiet import interference_in
from tests.integration.servers.environment import inherited

pytestmark = pytest.mark.packets

Require = Callable[[object, str], None]
RequireQuiet = Callable[[str], None]

ROOT = Path(__file__).parents[2]
SLOWED = {"64b-1c-ethip4-ip4base-mrr", "64b-1c-ethip4-ip4base-acl20-mrr"}
"""What 60 rules slow down: the tests that have fewer of their own. A bridge has no access list."""
STEADY_RUNS = 8
DECIDING_RUNS = 3

SHORT = {
    "PERFTREND_TRIAL_ATTEMPTS": "2",
    "PERFTREND_TRIAL_DURATION_S": "0.1",
    "PERFTREND_TRIAL_MULTIPLICITY": "6",
    "PERFTREND_TRIAL_STARTS": "3",
    "PERFTREND_OFFICIAL": "true",
}


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "perftrend.cli.trending", *arguments],
        cwd=folder, env=clean() | SHORT | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def clean() -> dict[str, str]:
    """Return this environment without what Jenkins or a person may have set, and with our modules."""
    return inherited() | {"PYTHONPATH": str(ROOT)}


def outcomes(folder: Path) -> dict[str, str]:
    report = json.loads((folder / "report/report.json").read_text())
    return {test["parameters"]["test"]: test["outcome"] for test in report["tests"]}


@pytest.mark.measure
@pytest.mark.slow
def test_slow_down_is_a_regression_and_its_end_is_none(
    tmp_path: Path,
    require: Require,
    require_quiet: RequireQuiet,
    record_property: Callable[[str, object], None],
) -> None:
    """The same story on simulated packets is in tests/integration/test_trending_simulated.py.

    There, the first slow run is a regression. Here a run may have been bad before, by chance: then one or two
    slow ones may be bad, too, and the third decides.
    """
    reason = Testbed(specification.load("1n-veth")).unusable()
    require(not reason, reason)

    def measure(*arguments: str) -> tuple[int, dict[str, str]]:
        code = run(tmp_path, *arguments).returncode
        require_quiet(interference_in(tmp_path / "report/report.json"))
        return code, {test: what for test, what in outcomes(tmp_path).items() if what != "normal"}

    steady = measure("--repeat", str(STEADY_RUNS))
    slowed = [measure("--device-option", "acl_rules=60", "--official") for _ in range(DECIDING_RUNS)]
    code, back = measure()
    with Store.open(tmp_path / "perftrend.sqlite") as store:
        for series in store.series("1n-veth"):
            record_property("measured", f"{series.key['test']}: {series.samples.round().tolist()} pps")

    assert (EXIT_PASS, {}) == steady
    codes = [EXIT_REGRESSION if unusual else EXIT_PASS for _, unusual in slowed]
    assert codes == [night for night, _ in slowed]
    reported = sorted((test, what) for _, unusual in slowed for test, what in unusual.items())
    assert sorted((test, "regression") for test in SLOWED) == reported
    assert EXIT_PASS == code
    assert back.keys() <= SLOWED
    assert set(back.values()) <= {"progression"}


def test_search_on_real_packets_finds_ndr_and_pdr_with_their_counters(
    tmp_path: Path, require_quiet: RequireQuiet
) -> None:
    done = run(
        tmp_path, "--testbed", "1n-loopback", "--tags", "ndrpdrAND64bAND1cANDethip4-ip4base-acl20",
        "--final-trial-duration", "0.25",
        PERFTREND_SEARCH_INITIAL_DURATION_S="0.1", PERFTREND_SEARCH_RELATIVE_WIDTH="0.1",
    )  # fmt: skip
    require_quiet(interference_in(tmp_path / "report/report.json"))

    assert EXIT_PASS == done.returncode, done.stdout + done.stderr
    archive = tmp_path / "archives/perftrend-trending-nightly-1n-loopback/1"
    counters = json.loads(next((archive / "counters").iterdir()).read_text())
    assert {"ndr", "pdr"} == set(counters)
    assert "NDR " in done.stdout
    assert "PDR_LOWER: " in (archive / "output.xml").read_text()


def test_fallback_of_the_default_measures_and_the_report_says_so(tmp_path: Path) -> None:
    without_ip = tmp_path / "bin"
    without_ip.mkdir()
    for program in ("setpriv", "sh", "cat", "git"):
        (without_ip / program).symlink_to(Path("/usr/bin") / program)

    done = run(tmp_path, "--tags", "mrrAND64bAND1cANDethip4-ip4base", PATH=str(without_ip))

    # Without quiet cores the result is not valid; where it was measured must be right all the same.
    assert done.returncode in (EXIT_PASS, EXIT_TESTBED), done.stdout + done.stderr
    assert 1 == len(done.stderr.splitlines())
    assert "measuring on 1n-loopback instead" in done.stderr
    assert "measuring on 1n-loopback instead" in (tmp_path / "report/index.html").read_text()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.root
@pytest.mark.parametrize("option", ["--archive", "--store", "--report"])
def test_a_full_disk_is_told_in_one_line(tmp_path: Path, small_disk: Path, option: str) -> None:
    (small_disk / "filler").write_bytes(bytes(280_000))

    done = run(
        tmp_path, "--testbed", "simulated", "--tags", "mrrAND64bAND1cANDethip4-ip4base", option,
        str(small_disk / ("store.sqlite" if option == "--store" else "folder")),
    )  # fmt: skip

    assert 3 == done.returncode, done.stdout + done.stderr
    assert 1 == len(done.stderr.splitlines()), done.stderr
    assert done.stderr.startswith("perftrend: ")
    assert "Traceback" not in done.stderr
    assert [] == list(small_disk.rglob("*.unfinished"))


def test_a_second_job_waits_with_a_message_and_gives_up(tmp_path: Path) -> None:
    waits = [
        sys.executable,
        "-P",
        "-m",
        "perftrend.cli.trending",
        "--testbed",
        "1n-loopback",
        "--tags",
        "mrrAND64b",
    ]
    first = subprocess.Popen(
        waits, cwd=tmp_path, env=clean() | SHORT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert first.stdout is not None
    first.stdout.readline()  # It has the testbed by now.
    second = run(tmp_path, "--testbed", "1n-loopback", "--wait", "0.5")
    first.send_signal(signal.SIGINT)
    first.communicate()

    assert 4 == second.returncode
    assert "in use by perftrend-trending-nightly-1n-loopback" in second.stderr
    assert "waiting for up to" in second.stderr
    assert "--wait SECONDS" in second.stderr.splitlines()[-1]


def test_kill_9_of_the_job_leaves_nothing_and_the_next_start_cleans_up(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "perftrend.cli.trending", "--testbed", "1n-loopback"]
    first = subprocess.Popen(
        [*command, "--tags", "mrrAND64b"],
        cwd=tmp_path,
        env=clean() | SHORT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert first.stdout is not None
    first.stdout.readline()
    eventually(lambda: len(children_in(tmp_path)) > 0)
    first.kill()
    first.communicate()
    eventually(lambda: not children_in(tmp_path))
    abandoned = list((tmp_path / "archives").rglob("*.unfinished"))

    again = run(tmp_path, "--testbed", "1n-loopback", "--tags", "mrrAND64bAND1cANDethip4-ip4base")

    assert 1 == len(abandoned)
    assert again.returncode in (EXIT_PASS, EXIT_TESTBED), again.stdout + again.stderr
    assert [] == list((tmp_path / "archives").rglob("*.unfinished"))


def children_in(folder: Path, module: bytes = b"perftrend.measure.embedded") -> list[str]:
    """Return the processes of generators and devices that work in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes()
            if module in command and (path / "cwd").readlink() == folder:
                found.append(path.name)
        except OSError:
            continue
    return found


def eventually(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < deadline, "it never became so"
        time.sleep(0.05)

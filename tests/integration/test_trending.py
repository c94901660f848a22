"""The whole story on real packets: a trend, a slow-down that is found, and its end that is found too."""

from __future__ import annotations

import json
import math
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perftrend.errors import EXIT_PASS, EXIT_REGRESSION, EXIT_TESTBED
from perftrend.measure import specification
from perftrend.measure.testbed import Testbed
from perftrend.store import Store
from tests.integration.servers.environment import inherited

pytestmark = pytest.mark.packets

ROOT = Path(__file__).parents[2]
SLOWED = {"64b-1c-ethip4-ip4base-mrr", "64b-1c-ethip4-ip4base-acl20-mrr"}
"""What 60 rules slow down: the tests that have fewer of their own. A bridge has no access list."""

UNUSUAL: dict[str, dict[str, str]] = {
    "steady": {},
    "slowed": dict.fromkeys(SLOWED, "regression"),
    "back": dict.fromkeys(SLOWED, "progression"),
}
"""The chapters of the story, and the tests that are not normal after each."""

ATTEMPTS = 3
"""A neighbour on a shared machine may spoil the story for five minutes, twice in a row."""

STEADY_RUNS = 8
SURE = {"slowed": 8.0, "back": 11.0}
"""From so many deviations of the first runs on, a change must be told at once: one new run against eight
needs 6.4 of them, and against a single slow one 8.5 (see ``significance``)."""
LEAST_DEVIATION = 0.001
"""What runs are taken to scatter by, relatively, if they are all the same."""

Samples = dict[str, dict[str, list[float]]]
"""By test and chapter: what its runs measured, in packets per second."""

SHORT = {
    "PERFTREND_TRIAL_DURATION_S": "0.1",
    "PERFTREND_TRIAL_MULTIPLICITY": "6",
    "PERFTREND_TRIAL_STARTS": "3",
    # The machine may be busy now and then; a trial that it disturbed is measured again. Short ones find
    # a moment in which it is not.
    "PERFTREND_TRIAL_ATTEMPTS": "40",
}


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "jobs.trending", *arguments],
        cwd=folder, env=clean() | SHORT | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def clean() -> dict[str, str]:
    """Return this environment without what Jenkins or a person may have set, and with our modules."""
    return inherited() | {"PYTHONPATH": str(ROOT)}


def outcomes(folder: Path) -> dict[str, str]:
    report = json.loads((folder / "report/report.json").read_text())
    return {test["parameters"]["test"]: test["outcome"] for test in report["tests"]}


@dataclass(frozen=True)
class Chapter:
    """What a job ended with, and the tests that were not normal after it."""

    code: int
    unusual: dict[str, str]


@pytest.mark.slow
def test_a_slow_down_is_a_regression_and_its_end_a_progression(
    tmp_path: Path, require: Callable[[object, str], None]
) -> None:
    """Told again, from an empty store, when a busy machine has spoilt it: noise is not what it shows.

    Where a machine stays so, a change that hides in the noise need not be told, and what was no valid
    measurement must be told as such.
    """
    reason = Testbed(specification.load("1n-veth")).unusable()
    require(not reason, reason)

    spoilt: list[str] = []
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        story = told(folder)
        samples = measured(folder / "perftrend.sqlite")
        wrong = {chapter: story[chapter] for chapter in UNUSUAL if not as_expected(chapter, story, samples)}
        if not wrong:
            return
        spoilt += [f"wrong: {wrong}", *(f"{test}: {runs}" for test, runs in samples.items())]

    pytest.fail("\n".join(spoilt))


def as_expected(name: str, story: dict[str, Chapter], samples: Samples) -> bool:
    """Whether nothing was told that is not so, and everything that no noise can hide."""
    chapter = story[name]
    strays = {test for test, runs in samples.items() if name == "steady" and has_stray(runs[name])}
    unusual = {test: what for test, what in chapter.unusual.items() if test not in strays}
    lost = {
        test: "not valid"
        for test, runs in samples.items()
        if math.isnan(runs[name][-1]) and test not in strays
    }
    possible = UNUSUAL[name] | lost
    certain = {
        test: what for test, what in UNUSUAL[name].items() if deviations(name, samples[test]) >= SURE[name]
    }
    return (
        code_of(chapter.unusual) == chapter.code
        and (certain | lost).items() <= unusual.items() <= possible.items()
    )


def has_stray(runs: list[float]) -> bool:
    """Whether one of the first runs is far from all others: that was measured, and is rightly told.

    A test that forwards all of the line rate every time is so even where a neighbour takes 4 % once.
    """
    logs = [math.log(value) for value in runs if not math.isnan(value)]
    rests = [logs[:place] + logs[place + 1 :] for place in range(len(logs))]
    return len(logs) > 2 and any(
        abs(log - statistics.fmean(rest)) > SURE["slowed"] * max(statistics.stdev(rest), LEAST_DEVIATION)
        for log, rest in zip(logs, rests, strict=True)
    )


def deviations(name: str, runs: dict[str, list[float]]) -> float:
    """Return how far a chapter moved a test, in relative deviations of its first runs; 0 if unknown."""
    steady = [math.log(value) for value in runs["steady"] if not math.isnan(value)]
    before = {"slowed": statistics.fmean(steady), "back": math.log(runs["slowed"][-1])}[name]
    # A quiet machine forwards all of the line rate, every time.
    found = abs(math.log(runs[name][-1]) - before) / max(statistics.stdev(steady), LEAST_DEVIATION)
    return 0.0 if math.isnan(found) else found


def code_of(unusual: dict[str, str]) -> int:
    """Return the exit code that says the worst of what happened to tests."""
    if "regression" in unusual.values():
        return EXIT_REGRESSION
    return EXIT_TESTBED if "not valid" in unusual.values() else EXIT_PASS


def measured(place: Path) -> Samples:
    """Return what each chapter measured of each test; what was no valid measurement is nan."""
    with Store.open(place) as store:
        found = {series.key["test"]: series.samples.tolist() for series in store.series("1n-veth")}
    assert {STEADY_RUNS + 2} == {len(values) for values in found.values()}
    return {
        test: {"steady": values[:-2], "slowed": values[-2:-1], "back": values[-1:]}
        for test, values in found.items()
    }


def told(folder: Path) -> dict[str, Chapter]:
    """Tell the story."""
    chapters = {
        "steady": ["--repeat", str(STEADY_RUNS)],
        "slowed": ["--device-option", "acl_rules=60"],
        "back": [],
    }
    story = {}
    for name, arguments in chapters.items():
        code = run(folder, *arguments).returncode
        unusual = {test: outcome for test, outcome in outcomes(folder).items() if outcome != "normal"}
        story[name] = Chapter(code, unusual)
    return story


def test_a_search_on_real_packets_finds_ndr_and_pdr_with_their_counters(tmp_path: Path) -> None:
    """Searched again when a busy machine has spoilt it."""
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        done = run(
            folder, "--testbed", "1n-loopback", "--tags", "ndrpdrAND64bANDethip4-ip4base-acl20",
            "--final-trial-duration", "0.5",
            PERFTREND_SEARCH_INITIAL_DURATION_S="0.25", PERFTREND_SEARCH_RELATIVE_WIDTH="0.05",
        )  # fmt: skip
        if done.returncode != EXIT_TESTBED:
            break

    assert EXIT_PASS == done.returncode, done.stdout + done.stderr
    archive = folder / "archives/perftrend-trending-nightly-1n-loopback/1"
    counters = json.loads(next((archive / "counters").iterdir()).read_text())
    assert {"ndr", "pdr"} == set(counters)
    assert "NDR " in done.stdout
    assert "PDR_LOWER: " in (archive / "output.xml").read_text()


def test_where_the_default_cannot_be_had_its_fallback_measures_and_the_report_says_so(tmp_path: Path) -> None:
    without_ip = tmp_path / "bin"
    without_ip.mkdir()
    for program in ("setpriv", "sh", "cat", "git"):
        (without_ip / program).symlink_to(Path("/usr/bin") / program)

    done = run(tmp_path, "--tags", "mrrAND64bANDethip4-ip4base", PATH=str(without_ip))

    assert 0 == done.returncode, done.stdout + done.stderr
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
        tmp_path, "--testbed", "simulated", "--tags", "mrrAND64bANDethip4-ip4base", option,
        str(small_disk / ("store.sqlite" if option == "--store" else "folder")),
    )  # fmt: skip

    assert 3 == done.returncode, done.stdout + done.stderr
    assert 1 == len(done.stderr.splitlines()), done.stderr
    assert done.stderr.startswith("perftrend: ")
    assert "Traceback" not in done.stderr
    assert [] == list(small_disk.rglob("*.unfinished"))


def test_a_second_job_waits_with_a_message_and_gives_up(tmp_path: Path) -> None:
    waits = [sys.executable, "-P", "-m", "jobs.trending", "--testbed", "1n-loopback", "--tags", "mrrAND64b"]
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
    command = [sys.executable, "-P", "-m", "jobs.trending", "--testbed", "1n-loopback"]
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

    again = run(tmp_path, "--testbed", "1n-loopback", "--tags", "mrrAND64bANDethip4-ip4base")

    assert 1 == len(abandoned)
    assert 0 == again.returncode, again.stdout + again.stderr
    assert [] == list((tmp_path / "archives").rglob("*.unfinished"))


def children_in(folder: Path) -> list[str]:
    """Return the processes of generators and devices that work in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes()
            if b"perftrend.measure.embedded" in command and (path / "cwd").readlink() == folder:
                found.append(path.name)
        except OSError:
            continue
    return found


def eventually(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, "it never became so"
        time.sleep(0.05)

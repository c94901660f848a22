"""``git bisect run`` with the job as its command: over merges, in both directions, and killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.servers.environment import inherited
from tests.products.histories import History

ROOT = Path(__file__).parents[2]
MEASURE = """printf . >> "$1"
sed -n "$(wc -c < "$1")p" rates | tr ' ' '\\n'
"""
"""Prints a line of rates: at the first run of the test the first one, and so on."""
MOST_RUNS = 400
COMMAND = """
project:
  profile: command
  parameters: {{build: sh build.sh, measure: sh measure.sh {runs}, unit: ops, remote: "yes"}}
testbed: simulated
"""
"""Remote, because the rates are those of the number of starts, and a disturbed start would be repeated."""


def rates(level: float) -> str:
    """Return lines of rates; the noise between lines is of one per cent, and the same for each level."""
    noise = random.Random(1)  # noqa: S311 - noise, no secret
    levels = [level * noise.gauss(1, 0.01) for _ in range(MOST_RUNS)]
    return "".join(f"{' '.join(f'{each * noise.gauss(1, 0.002)}' for _ in range(5))}\n" for each in levels)


@dataclass
class Bisected:
    """A checkout in which a person bisects."""

    folder: Path

    def __post_init__(self) -> None:
        self.history = History(self.folder / "product")
        self.hashes: list[str] = []
        settings = COMMAND.format(runs=self.folder / "runs")
        (self.folder / "settings.yaml").write_text(settings)

    def commit(self, level: float, *, builds: bool = True) -> str:
        number = len(self.hashes)
        files = {
            "measure.sh": MEASURE,
            "rates": rates(level),
            "number": f"{number}",
            "build.sh": f"exit {0 if builds else 2}\n",
        }
        self.hashes.append(self.history.commit(f"Commit {number}", files))
        return self.hashes[-1]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start ``git bisect run`` as a person does."""
        kept = inherited()
        job = [
            sys.executable,
            "-P",
            "-m",
            "perftrend.cli.bisectrun",
            "--settings",
            str(self.folder / "settings.yaml"),
        ]
        return subprocess.Popen(
            ["git", "bisect", "run", *job, *arguments],
            cwd=self.history.folder, env=kept | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        out, err = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    @property
    def log(self) -> list[str]:
        """What git was told, and what it found."""
        return self.history.git("bisect", "log").splitlines()

    def measurements(self) -> dict[Path, str]:
        """Return what is archived of measurements that ended; folders of others vanish at any moment."""
        found = {}
        for folder, folders, files in os.walk(self.history.folder / ".git" / "perftrend" / "archives"):
            folders[:] = [each for each in folders if not each.startswith(".")]
            if "measured.json" in files:
                file = Path(folder, "measured.json")
                found[file] = file.read_text()
        return found

    @property
    def runs(self) -> int:
        """How often the product was measured."""
        runs = self.folder / "runs"
        return runs.stat().st_size if runs.exists() else 0


@pytest.fixture
def bisected(tmp_path: Path) -> Bisected:
    return Bisected(tmp_path)


def merged(bisected: Bisected) -> tuple[str, str]:
    """Return a slow commit on a branch, and its merge; a commit on either line does not build."""
    git = bisected.history.git
    bisected.commit(100)
    bisected.commit(100)
    git("checkout", "--quiet", "-b", "side")
    bisected.commit(100, builds=False)
    bisected.commit(100)
    slow = bisected.commit(90)
    git("checkout", "--quiet", "main")
    bisected.history.commit("Meanwhile", {"README": "more\n"})
    merge = bisected.history.merge("side", "Merge the side")
    bisected.hashes.append(merge)
    bisected.commit(90, builds=False)
    bisected.commit(90)
    return slow, merge


# ---- what git finds


def test_slow_commit_is_found_behind_a_merge(bisected: Bisected) -> None:
    slow, _ = merged(bisected)
    bisected.history.git("bisect", "start", bisected.hashes[-1], bisected.hashes[0])

    ended = bisected.run()

    assert 0 == ended.returncode, ended.stdout + ended.stderr
    assert f"# first bad commit: [{slow}] Commit 4" == bisected.log[-1]
    assert "" == bisected.history.git("status", "--porcelain")


def test_merge_itself_is_found_along_first_parents(bisected: Bisected) -> None:
    _, merge = merged(bisected)
    bisected.history.git("bisect", "start", "--first-parent", bisected.hashes[-1], bisected.hashes[0])

    ended = bisected.run()

    assert 0 == ended.returncode, ended.stdout + ended.stderr
    assert f"# first bad commit: [{merge}] Merge the side" == bisected.log[-1]


def test_faster_commit_is_found_by_other_terms_and_builds_that_fail_are_skipped(bisected: Bisected) -> None:
    for number in range(7):
        bisected.commit(100 if number < 5 else 110, builds=number != 3)
    bisected.history.git("bisect", "start", "--term-old=slow", "--term-new=fast")
    bisected.history.git("bisect", "fast", bisected.hashes[-1])
    bisected.history.git("bisect", "slow", bisected.hashes[0])

    ended = bisected.run()

    assert 0 == ended.returncode, ended.stdout + ended.stderr
    assert f"# first fast commit: [{bisected.hashes[5]}] Commit 5" == bisected.log[-1]
    assert any(line.startswith("# skip: ") for line in bisected.log)
    assert "build failed: sh build.sh ended with 2" in ended.stderr


def test_only_commits_that_do_not_build_are_left(bisected: Bisected) -> None:
    for number in range(5):
        bisected.commit(100 if number < 4 else 90, builds=number not in {2, 3})
    bisected.history.git("bisect", "start", bisected.hashes[-1], bisected.hashes[0])

    ended = bisected.run()

    assert 0 != ended.returncode
    left = {
        line.split("[")[1][:40] for line in bisected.log if line.startswith("# possible first bad commit")
    }
    assert set(bisected.hashes[2:5]) == left


# ---- what stops git


def test_ends_that_agree_stop_git_and_it_has_learnt_nothing(bisected: Bisected) -> None:
    for _ in range(3):
        bisected.commit(100)
    bisected.history.git("bisect", "start", bisected.hashes[-1], bisected.hashes[0])
    before = bisected.log

    ended = bisected.run()

    assert 0 != ended.returncode
    assert "exit code 200" in ended.stdout + ended.stderr
    assert "cannot be judged by these ends: no difference was shown; " in ended.stderr
    assert before == bisected.log


def test_product_that_builds_nowhere_stops_git_at_once(bisected: Bisected) -> None:
    for _ in range(6):
        bisected.commit(100, builds=False)
    bisected.history.git("bisect", "start", bisected.hashes[-1], bisected.hashes[0])
    before = bisected.log

    ended = bisected.run()

    assert "exit code 202" in ended.stdout + ended.stderr
    assert "nothing can be compared with the old end: " in ended.stderr
    assert before == bisected.log
    assert {} == bisected.measurements()


# ---- what is kept


def test_second_run_of_the_same_range_measures_nothing(bisected: Bisected) -> None:
    for number in range(4):
        bisected.commit(100 if number < 2 else 90)
    start = ["bisect", "start", bisected.hashes[-1], bisected.hashes[0]]
    bisected.history.git(*start)
    bisected.run()
    first, found = bisected.measurements(), bisected.log[-1]
    bisected.history.git("bisect", "reset")
    bisected.history.git(*start)

    ended = bisected.run()

    assert (0, found) == (ended.returncode, bisected.log[-1])
    assert (first, len(first)) == (bisected.measurements(), bisected.runs)


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on(bisected: Bisected) -> None:
    for number in range(9):
        bisected.commit(100 if number < 5 else 90)
    bisected.history.git("bisect", "start", bisected.hashes[-1], bisected.hashes[0])
    seen = dict[Path, str]()
    # Git needs at least five measurements, so that work is left for each of them.
    moments: list[Callable[[], bool]] = [
        lambda: len(bisected.measurements()) >= 1,
        lambda: bisected.runs >= 3,
        lambda: len(bisected.measurements()) >= 3,
    ]
    for is_reached in moments:
        process = bisected.start()
        while not is_reached() and process.poll() is None:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert -signal.SIGKILL == process.returncode
        assert seen.items() <= bisected.measurements().items()
        seen = bisected.measurements()

    ended = bisected.run()

    assert 0 == ended.returncode, ended.stdout + ended.stderr
    assert f"# first bad commit: [{bisected.hashes[5]}] Commit 5" == bisected.log[-1]
    assert seen.items() <= bisected.measurements().items()
    assert bisected.runs <= len(bisected.measurements()) + len(moments), (
        "only what was under way is done again"
    )
    assert [] == list((bisected.history.folder / ".git" / "perftrend").rglob("*.unfinished"))

"""The bisect job: killed at random, on real packets, and reporting to a real Gerrit."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from perftrend.builds import example
from perftrend.clients.gerrit import Comment, connect
from perftrend.errors import EXIT_TESTBED
from perftrend.measure import specification
from perftrend.measure.testbed import Testbed
from perftrend.settings import GerritSettings
from tests.integration.servers.environment import inherited
from tests.integration.servers.gerrit import Server, User, git
from tests.products.histories import History
from tests.products.printed import SCRIPT, scattered
from tests.products.router import RouterProduct

ROOT = Path(__file__).parents[2]
BUILD = "sleep 0.1; exit {code}\n"
# Whether the instructions of two scripts differ by 0.1 % depends on the length of the path of the folder.
COMMAND = """
project:
  profile: command
  repository: {repository}
  parameters: {{build: sh build.sh, measure: sh measure.sh, unit: ops, instructions: 'no'}}
"""


@dataclass
class Job:
    """The job in a folder of its own."""

    folder: Path
    settings: str
    testbed: str = "simulated"
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "settings.yaml").write_text(self.settings)
        kept = inherited()
        command = [sys.executable, "-P", "-m", "perftrend.cli.bisect", "--settings", "settings.yaml"]
        return subprocess.Popen(
            [*command, "--testbed", self.testbed, *arguments],
            cwd=self.folder, env=kept | {"PYTHONPATH": str(ROOT)} | self.environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        out, err = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    @property
    def archive(self) -> Path:
        name = "command" if "profile: command" in self.settings else self.testbed
        return self.folder / "archives" / f"perftrend-bisect-{name}"

    def report(self) -> Any:
        return json.loads((self.folder / "report" / "bisection.json").read_text())

    def records(self) -> list[str]:
        """Return the whole lines of the session, wherever it is by now."""
        places = [*self.folder.glob("bisections/*.jsonl"), *self.archive.glob("*/session.jsonl")]
        return [
            line for place in places[:1] for line in place.read_text().splitlines(True) if line[-1] == "\n"
        ]

    def measurements(self) -> dict[str, str]:
        """Return all finished measurements in the archive by their place."""
        found = self.archive.glob("*/*/[!.]*/measured.json")
        return {str(each.relative_to(self.archive)): each.read_text() for each in found}


# ---- killed

KILLS = 4
MANY_KILLS = 30
"""With ``--thorough``."""


def long_history(folder: Path) -> tuple[History, list[str]]:
    """Return 60 commits with a merge; the forty-third is slow, and a tenth does not build."""
    history, hashes = History(folder), []
    for number in range(60):
        code = 2 if number % 10 == 4 else 0
        files = {
            SCRIPT: scattered(100 if number < 43 else 94, seed=str(number), count=5),
            "number": str(number),
            "build.sh": BUILD.format(code=code),
        }
        hashes.append(history.commit(f"Commit {number}", files))
        if number == 20:
            history.git("checkout", "--quiet", "-b", "side")
            history.commit("Aside", {"NOTES": "aside\n"})
            history.git("checkout", "--quiet", "main")
        if number == 25:
            history.merge("side", "Merge the side")
    return history, hashes


@pytest.mark.slow
def test_killed_at_random_moments_it_reaches_the_same_answer(tmp_path: Path, *, thorough: bool) -> None:
    history, hashes = long_history(tmp_path / "product")
    settings = COMMAND.format(repository=history.folder)
    ends = ["--old", hashes[0], "--new", hashes[-1]]
    undisturbed = Job(tmp_path / "undisturbed", settings)
    whole = undisturbed.run(*ends)
    assert whole.returncode == 1, whole.stderr

    job, chance = Job(tmp_path / "killed", settings), random.Random(None if thorough else 7)  # noqa: S311
    seen: list[tuple[list[str], dict[str, str]]] = []
    # Not near the end: what is killed after its last step is whole, and is begun again.
    kills = MANY_KILLS if thorough else KILLS
    for so_many in sorted(chance.choices(range(len(undisturbed.records()) - 5), k=kills)):
        process = job.start(*ends)
        while len(job.records()) < so_many and process.poll() is None:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.1))
        process.kill()
        _, err = process.communicate()
        assert -signal.SIGKILL == process.returncode, err
        seen.append((job.records(), job.measurements()))
    ended = job.run(*ends)

    assert (1, whole.stdout.splitlines()[-1]) == (ended.returncode, ended.stdout.splitlines()[-1])
    assert [[hashes[43]]] == [each["commits"] for each in job.report()["culprits"]]
    assert steps(undisturbed) == steps(job)
    for records, measurements in seen:
        # What was recorded is the beginning of what there is now: nothing was built or measured again.
        assert records == job.records()[: len(records)]
        assert measurements.items() <= job.measurements().items()
    assert ["1"] == [each.name for each in job.archive.iterdir()]
    assert [] == list(job.folder.rglob("*.unfinished"))


def steps(job: Job) -> list[str]:
    return [each["commit"] for each in job.report()["measurements"]]


@pytest.mark.parametrize("signalled", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_says_what_is_known(tmp_path: Path, signalled: signal.Signals) -> None:
    history, hashes = long_history(tmp_path / "product")
    job = Job(tmp_path / "work", COMMAND.format(repository=history.folder))
    ends = ["--old", hashes[0], "--new", hashes[-1]]
    process = job.start(*ends)
    said = [next(iter(process.stdout or ())) for _ in range(12)]
    process.send_signal(signalled)
    out, err = process.communicate()

    assert process.returncode == 130, err
    assert "perftrend verdict: Undecided, because it was interrupted" in out
    assert "Traceback" not in err
    again = job.run(*ends)

    assert 1 == again.returncode, again.stderr
    first = [line for line in said if line.startswith("  ")]
    (known,) = re.findall(r"continuing after (\d+) measurements", again.stdout)
    (total,) = re.findall(r" builds, (\d+) measurements", again.stdout)
    more = re.findall(r"^  [0-9a-f]{12}: command ", again.stdout, re.MULTILINE)
    assert len(first) <= int(known)
    assert int(known) + len(more) == int(total), "what was measured is not measured again"


# ---- the embedded router, by packets


@pytest.mark.measure
@pytest.mark.slow
def test_commit_that_slows_the_router_is_found_by_packets(
    tmp_path: Path,
    require: Callable[[object, str], None],
    require_quiet: Callable[[str], None],
    record_property: Callable[[str, object], None],
) -> None:
    reason = Testbed(specification.load("1n-veth")).unusable()
    require(not reason, reason)
    product = RouterProduct(tmp_path / "product")
    hashes = [product.commit(0)]
    hashes += [product.change_nothing(f"Reword {number}") for number in range(5)]
    hashes += [product.break_build(), product.commit(0, "Repair the build"), product.commit(60)]
    hashes += [product.change_nothing(f"Reword {number}") for number in range(5, 9)]
    job = Job(
        tmp_path / "work",
        f"project: {{profile: embedded-router, repository: {product.folder}}}\n"
        # Whether there is a second, small change could take long to tell on a machine that others use.
        "tags: [mrrAND64bAND1cANDethip4-ip4base]\nbisect: {maximum_changes: 1}\n",
        "1n-veth",
        {
            "PERFTREND_TRIAL_DURATION_S": "0.25",
            "PERFTREND_TRIAL_MULTIPLICITY": "4",
            "PERFTREND_TRIAL_STARTS": "2",
        },
    )

    ended = job.run("--old", hashes[0], "--new", hashes[-1])
    require_quiet(ended.stdout if ended.returncode == EXIT_TESTBED else "")
    record_property("measured", ended.stdout)

    assert 1 == ended.returncode, ended.stdout + ended.stderr
    assert [hashes[8]] == job.report()["culprits"][0]["commits"], ended.stdout
    assert '"Compare with 60 more rules" made the only test slower by ' in ended.stdout.splitlines()[-1]
    assert (job.archive / "1" / "parent" / "1" / "output.xml").is_file()


@pytest.mark.measure
@pytest.mark.slow
def test_example_finds_its_slow_commit_and_starts_again_the_next_time(
    tmp_path: Path,
    require: Callable[[object, str], None],
    require_quiet: Callable[[str], None],
    record_property: Callable[[str, object], None],
) -> None:
    reason = Testbed(specification.load("1n-veth")).unusable()
    require(not reason, reason)
    job = Job(tmp_path / "work", "{}\n", "1n-veth")

    ended = job.run("--example")
    require_quiet(ended.stdout if ended.returncode == EXIT_TESTBED else "")
    record_property("measured", ended.stdout)

    assert 1 == ended.returncode, ended.stdout + ended.stderr
    [culprit] = job.report()["culprits"]
    told = {each["commit"]: each["subject"] for each in job.report()["commits"]}
    assert [example.SLOW] == [told[each] for each in culprit["commits"]]
    assert f'"{example.SLOW}" made the only test slower by ' in ended.stdout.splitlines()[-1]
    assert "--testbed 1n-veth --example" in job.report()["command"]
    assert {"settings.yaml", "archives", "bisections", "builds", "report"} == {
        each.name for each in job.folder.iterdir()
    }
    assert [] == list(job.folder.glob("bisections/*")), "the next one starts from the beginning"


# ---- a change under review


@dataclass
class Change:
    """A change on the real Gerrit, and the job beside it."""

    job: Job
    number: int
    hashes: list[str]
    """Of the branch, oldest first."""
    comments: Callable[[], list[Comment]]


@pytest.fixture(scope="module")
def robot(gerrit_server: Server) -> User:
    return gerrit_server.create_user("bisecting-robot", ["Service Users"])


@pytest.fixture
def change(gerrit_server: Server, robot: User, tmp_path: Path) -> Change:
    name = f"team/bisected-{tmp_path.name}"
    gerrit_server.create_project(name)
    clone = gerrit_server.clone(name, tmp_path / "clone")
    hashes = []
    for number in range(12):
        files = {
            SCRIPT: scattered(100 if number < 7 else 80, seed=str(number), count=5),
            "number": str(number),
            "build.sh": BUILD.format(code=0),
        }
        for file, text in files.items():
            (clone / file).write_text(text)
        git("-C", str(clone), "add", "--all")
        git("-C", str(clone), "commit", "--quiet", "-m", f"Commit {number}")
        hashes.append(git("-C", str(clone), "rev-parse", "HEAD").strip())
    git("-C", str(clone), "push", "--quiet", "origin", "HEAD:refs/heads/master")
    pushed = gerrit_server.push(clone, {"README": "words\n"}, "Explain it")
    account = {"url": gerrit_server.url, "user": robot.name, "token": robot.password}
    environment = {f"PERFTREND_GERRIT_{name.upper()}": value for name, value in account.items()}
    settings = COMMAND.format(repository="null")
    gerrit = connect(GerritSettings(**account))
    job = Job(tmp_path / "work", settings, environment=environment)
    return Change(
        job,
        pushed.number,
        hashes,
        lambda: [each for each in gerrit.comments(pushed.number) if "perftrend" in (each.tag or "")],
    )


def test_answer_is_told_under_the_change(change: Change) -> None:
    ended = change.job.run("--old", change.hashes[0][:10], "--change", str(change.number))

    assert 1 == ended.returncode, ended.stderr
    begun, said = change.comments()
    assert "Looking for the commit that changed the performance: 12 commits, " in begun.text
    assert "This replaces my verdict of " in said.text.splitlines()[-1]
    assert {"autogenerated:perftrend:perftrend-bisect-command"} == {begun.tag, said.tag}
    assert f'{change.hashes[7][:12]} "Commit 7" made the only test slower by 20 %' in said.text
    assert "[CHANGED HERE] Commit 7" in said.text
    assert f"--old {change.hashes[0]} --change {change.number}" in said.text


def test_change_that_is_not_to_be_told_is_not(change: Change) -> None:
    ended = change.job.run("--old", change.hashes[0], "--change", str(change.number), "--no-post")

    assert 1 == ended.returncode, ended.stderr
    assert [] == change.comments()


def test_old_commit_of_another_history_is_told_under_the_change(change: Change) -> None:
    ended = change.job.run("--old", "1234567", "--change", str(change.number))

    assert 2 == ended.returncode
    [said] = change.comments()
    assert "1234567 does not exist in the repository" in said.text

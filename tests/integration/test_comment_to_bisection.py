"""From a comment under a change to the culprit: Gerrit, the listener, the job, and all between them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perftrend.builds.example import FILE, PROGRAM
from perftrend.listener import supervisor
from perftrend.measure import specification
from perftrend.measure.testbed import Testbed
from tests.integration.servers.gerrit import Pushed, Server, User, git
from tests.integration.servers.listening import Listener, until
from tests.integration.servers.review import Project
from tests.products.printed import SCRIPT, scattered

BEGUN = "Looking for the commit that changed the performance: "
PLENTY_S = 900

# Whether there is a second, small change could take long to decide on a machine that others use.
BY_PACKETS: Mapping[str, Any] = {
    "project": {"profile": "embedded-router"},
    "bisect": {"maximum_changes": 1, "maximum_measurements": 40},
    "trial": {"starts": 2},
}
FAST, SLOW = (scattered(level, seed="1", spread=0.0002, count=5) for level in (100, 90))
BY_A_COMMAND: Mapping[str, Any] = {
    "project": {"profile": "command", "parameters": {"measure": "sh measure.sh", "unit": "ops"}},
    "bisect": {"maximum_changes": 1},
}


class Branch:
    """The branch of a project, to which commits are added."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.hashes: list[str] = []

    def land(self, subject: str, files: Mapping[str, str]) -> None:
        """Add a commit without a review."""
        self._git("reset", "--quiet", "--hard", "origin/HEAD")
        for name, text in files.items():
            path = self.project.clone / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message", subject)
        self._git("push", "--quiet", "origin", "HEAD:refs/heads/master")
        self._landed()

    def land_notes(self, count: int) -> None:
        """Add commits that change nothing about the speed."""
        for _ in range(count):
            number = len(self.hashes)
            self.land(f"Note number {number}", {"NOTES": f"{number}\n"})

    def submit(self, change: Pushed) -> None:
        """Let a change become a commit of the branch."""
        server, where = self.project.server, f"changes/{change.number}"
        server.ask("POST", f"{where}/revisions/current/review", body={"labels": {"Code-Review": 2}})
        server.ask("POST", f"{where}/submit", body={})
        self._git("fetch", "--quiet", "origin")
        self._landed()

    def _landed(self) -> None:
        self.hashes.append(self._git("rev-parse", "origin/HEAD").strip())

    def _git(self, *arguments: str) -> str:
        return git("-C", str(self.project.clone), *arguments)


@pytest.fixture(scope="module")
def developer(gerrit_server: Server) -> User:
    return gerrit_server.create_user("bisection-developer")


@pytest.fixture(scope="module")
def robot(gerrit_server: Server) -> User:
    return gerrit_server.create_user("bisection-robot", ["Service Users"])


@pytest.fixture
def project(gerrit_server: Server, robot: User, tmp_path: Path) -> Project:
    return Project.create(gerrit_server, f"data plane/{tmp_path.name}", tmp_path / "clone", robot)


@pytest.fixture
def branch(project: Project) -> Branch:
    return Branch(project)


@pytest.fixture
def listener(tmp_path: Path, gerrit_server: Server, robot: User, project: Project) -> Iterator[Listener]:
    with Listener(tmp_path / "listener", gerrit_server, robot, project.name) as found:
        yield found


Ask = Callable[[Pushed, str], None]


@pytest.fixture
def ask(gerrit_server: Server, developer: User) -> Ask:
    def comment(change: Pushed, line: str) -> None:
        gerrit_server.comment(change, developer, f"Where did the packets go?\n\n{line}\n")

    return comment


@dataclass(frozen=True)
class Case:
    """How a product is measured, and the files that make it fast or slow."""

    testbed: str
    settings: Mapping[str, Any]
    fast: Mapping[str, str]
    slow: Mapping[str, str]
    selection: str = ""
    """What the comment asks for after the hash."""

    @property
    def job(self) -> str:
        return f"perftrend-bisect-{self.testbed}"


CASES = [
    pytest.param(
        Case("simulated", BY_A_COMMAND, {SCRIPT: FAST}, {SCRIPT: SLOW}),
        id="command",
    ),
    pytest.param(
        Case(
            "1n-veth",
            BY_PACKETS,
            {FILE: PROGRAM.format(rules=0)},
            {FILE: PROGRAM.format(rules=20)},
            " mrrAND64bAND1cANDethip4-ip4base -- --duration 0.3 --multiplicity 4",
        ),
        id="packets",
        marks=pytest.mark.measure,
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_culprit_is_reported_under_the_request_and_under_its_own_change(  # noqa: PLR0917 - fixtures
    case: Case, listener: Listener, project: Project, branch: Branch, ask: Ask,
    require: Callable[[object, str], None], record_property: Callable[[str, object], None],
) -> None:  # fmt: skip
    reason = Testbed(specification.load(case.testbed)).unusable()
    require(not reason, reason)
    branch.land("The first version", case.fast)
    branch.land_notes(13)
    culprit = project.push(case.slow)
    branch.submit(culprit)
    branch.land_notes(5)
    asked_on = project.push({"README": "words\n"})
    listener.settings |= case.settings
    listener.settings["gerrit"]["notify_culprit"] = True
    old = branch.hashes[0]
    line = f"bisecttest-{case.testbed} {old[:12]}{case.selection}"
    listener.start()
    until(listener.is_connected)

    ask(asked_on, line)
    until(listener.has_served, PLENTY_S, every_s=0.5)
    record_property("measured", "\n".join(listener.consoles()))

    assert 2 == len(project.said(asked_on, case.job)), (project.answers(asked_on), listener.consoles())
    [answer], [begun, verdict] = project.answers(asked_on), project.said(asked_on, case.job)
    assert answer.startswith(f'"{line}" started: ')
    # 19 on the branch after the older one, and the change itself.
    assert f"{BEGUN}20 commits, " in begun.text
    assert f'{culprit.revision[:12]} "Look up the next hop" made the only test slower by ' in verdict.text
    assert "This replaces my verdict of " in verdict.text.splitlines()[-1]
    assert f"--old {old} --change {asked_on.number}" in verdict.text
    [notified] = project.said(culprit, case.job)
    assert f"This change, as commit {culprit.revision[:12]}, made the only test slower by " in notified.text
    assert f"/+/{asked_on.number}" in notified.text
    assert [0, 0] == [project.vote(each) for each in (asked_on, culprit)]
    assert 0 == listener.end()


def test_bisection_that_is_aborted_says_so_and_goes_on_when_it_is_started_again(
    listener: Listener, project: Project, branch: Branch, ask: Ask
) -> None:
    """Every process of the job gets the signal, as from a Jenkins that aborts a build."""
    branch.land("Count", {SCRIPT: f"sleep 0.5\n{FAST}"})
    branch.land_notes(8)
    branch.land("Count twice", {SCRIPT: f"sleep 0.5\n{SLOW}"})
    branch.land_notes(6)
    change = project.push({"README": "words\n"})
    listener.settings |= BY_A_COMMAND
    job = "perftrend-bisect-simulated"
    listener.once()
    ask(change, f"bisecttest-simulated {branch.hashes[0]}")

    listener.start()
    until(lambda: any(console.count("ops") > 3 for console in listener.consoles()))
    listener.end(signal.SIGKILL)
    abort_jobs(listener)
    until(lambda: len(project.said(change, job)) == 2)
    begun, aborted = (each.text for each in project.said(change, job))
    listener.once()

    *_, begun_again, told = (each.text for each in project.said(change, job))
    assert BEGUN in begun
    assert "Undecided, because it was interrupted, and resumes when the same command " in aborted
    assert "What was measured, oldest first:" in aborted
    assert ", continuing after " in begun_again
    assert f'{branch.hashes[9][:12]} "Count twice" made the only test slower by 10 %' in told
    assert ["ended"] == listener.states()


def abort_jobs(listener: Listener) -> None:
    """Tell the processes of the jobs to end, one after the other."""
    ours = [supervisor.__name__.encode(), *map(os.fsencode, listener.folder.glob("archives/requests/*"))]
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if len(set(ours) & set(words)) > 1:
                os.killpg(int(process.name), signal.SIGTERM)

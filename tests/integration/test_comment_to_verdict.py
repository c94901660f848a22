"""From a comment under a change to the verdict on it: Gerrit, the listener, the job, and all between them."""

from __future__ import annotations

import os
import re
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from lxml import etree

from perftrend.clients.jenkins import Jenkins, JenkinsBuild
from perftrend.listener import supervisor
from perftrend.measure import specification
from perftrend.measure.testbed import Testbed
from tests.integration.conftest import fetch
from tests.integration.servers import checkout, hudson
from tests.integration.servers.gerrit import Pushed, Server, User
from tests.integration.servers.listening import Listener, until
from tests.integration.servers.review import Project
from tests.products import router
from tests.products.printed import SCRIPT, scattered
from tests.unit.jjb import rendering

TESTBED = "1n-veth"
JOB = f"perftrend-perftest-{TESTBED}"
CI_TESTBED = "simulated"
CI_JOB = f"perftrend-perftest-{CI_TESTBED}"
FORWARDING = "64b-1c-ethip4-ip4base-mrr"
PERFTEST = (
    f"perftest-{TESTBED} 64bANDmrrAND1cANDethip4-ip4baseNOTacl20NOTacl60 -- --duration 0.1 --multiplicity 5"
)
ROUTER, SLOW_ROUTER = ({router._FILE: router._MAIN.format(rules=rules)} for rules in (0, 40))
MEASURED = "the product's own command, duration unknown until a first job has ended"
TIME = r"about \d+ minutes?, at most \d+ minutes"
PLENTY_S = 900

# A threshold of 15 %: what is shown is a change of half, and not how quiet this machine is.
BY_PACKETS = {
    "project": {"profile": "embedded-router"},
    "perftest": {"threshold": 0.15, "maximum_rounds": 8},
    "trial": {"starts": 2},
}
FAST, SLOW = (scattered(level, seed="1", spread=0.0002, count=5) for level in (100, 90))
BY_A_COMMAND = {
    "project": {"profile": "command", "parameters": {"measure": "sh measure.sh", "unit": "ops"}},
    "perftest": {"maximum_rounds": 6},
}


@pytest.fixture(scope="module")
def developer(gerrit_server: Server) -> User:
    return gerrit_server.create_user("verdict-developer")


@pytest.fixture(scope="module")
def robot(gerrit_server: Server) -> User:
    return gerrit_server.create_user("verdict-robot", ["Service Users"])


@pytest.fixture
def project(gerrit_server: Server, robot: User, tmp_path: Path) -> Project:
    return Project.create(gerrit_server, f"data plane/{tmp_path.name}", tmp_path / "clone", robot)


@pytest.fixture
def listener(tmp_path: Path, gerrit_server: Server, robot: User, project: Project) -> Iterator[Listener]:
    with Listener(tmp_path / "listener", gerrit_server, robot, project.name) as found:
        yield found


@pytest.fixture
def ask(gerrit_server: Server, developer: User) -> Callable[[Pushed, str], None]:
    def comment(change: Pushed, line: str) -> None:
        gerrit_server.comment(change, developer, f"Does this cost anything?\n\n{line}\n")

    return comment


Ask = Callable[[Pushed, str], None]


def answer_to(line: str, more: str = ", plus building") -> str:
    """Return the pattern of the answer to a request that measures one test."""
    return rf'"{re.escape(line)}" started: 1 test, {TIME}{re.escape(more)}'


def assert_tells_that_it_is_slower(verdict: str) -> None:
    """And by how much, in the line of the table that is about forwarding."""
    [row] = [line.split() for line in verdict.splitlines() if line.startswith(f"    {FORWARDING}")]
    assert "The only test is slower by " in verdict
    assert "slower" == row[-1]
    assert float(row[1]) > 1.2 * float(row[2])


@pytest.fixture
def by_packets(require: Callable[[object, str], None]) -> dict[str, Any]:
    """Return the settings of jobs that measure packets, where the testbed can be had."""
    reason = Testbed(specification.load(TESTBED)).unusable()
    require(not reason, reason)
    return BY_PACKETS


# ---- on this machine


@pytest.mark.measure
@pytest.mark.slow
def test_slow_change_and_its_repair_are_told_after_a_comment(
    listener: Listener,
    project: Project,
    ask: Ask,
    by_packets: dict[str, Any],
    record_property: Callable[[str, object], None],
) -> None:
    """On real packets; the durations are those that the comment asks for.

    On simulated ones, tests/integration/test_perftest.py has the verdicts of one patch set after the other.
    """
    listener.settings |= by_packets
    project.start(ROUTER)
    listener.start()
    until(listener.is_connected)

    slower = project.push(SLOW_ROUTER)
    ask(slower, PERFTEST)
    until(listener.has_served, PLENTY_S, every_s=2)
    assert project.said(slower, JOB), (project.answers(slower), listener.consoles())

    [answer], [first] = project.answers(slower), project.said(slower, JOB)
    assert re.fullmatch(answer_to(PERFTEST), answer)
    assert_tells_that_it_is_slower(first.text)
    assert -1 == project.vote(slower)

    repaired = project.push({"NOTES": "repaired\n"}, slower)
    assert 0 == project.vote(repaired)
    ask(repaired, PERFTEST)
    until(lambda: listener.has_served(2), PLENTY_S, every_s=2)

    [_, answer_again], [first_again, second] = project.answers(repaired), project.said(repaired, JOB)
    # By now it is known how long building takes.
    assert re.fullmatch(answer_to(PERFTEST, more=""), answer_again)
    assert "The only test shows no difference of 15 % or more." in second.text
    assert (first.text, [1, 2], 1) == (
        first_again.text, [first.patch_set, second.patch_set], project.vote(repaired)
    )  # fmt: skip
    record_property("measured", "\n".join(listener.consoles()))
    assert 0 == listener.end()


def test_job_outlives_its_listener_and_the_verdict_comes_once(
    listener: Listener, project: Project, ask: Ask
) -> None:
    """On a testbed that nobody else waits for."""
    listener.settings |= BY_A_COMMAND
    project.start({SCRIPT: f"sleep 2\n{FAST}"})
    slower = project.push({SCRIPT: f"sleep 2\n{SLOW}"})
    listener.once()
    ask(slower, "perftest-simulated")

    listener.start()
    until(lambda: any("round 1 of" in console for console in listener.consoles()))
    listener.end(signal.SIGKILL)
    [folder] = listener.folder.glob("archives/requests/*")
    assert supervisor.is_held(folder)
    listener.start()
    until(listener.has_served)

    [verdict] = project.said(slower, "perftrend-perftest-simulated")
    assert "The only test is slower by 10 %." in verdict.text
    assert -1 == project.vote(slower)
    assert [f'"perftest-simulated" started: {MEASURED}'] == project.answers(slower)
    assert [1] == [console.count("after round 6:") for console in listener.consoles()]
    assert 0 == listener.end()


def test_job_that_was_killed_goes_on_with_what_it_has_measured(
    listener: Listener, project: Project, ask: Ask
) -> None:
    listener.settings |= BY_A_COMMAND
    project.start({SCRIPT: f"sleep 0.5\n{FAST}"})
    slower = project.push({SCRIPT: f"sleep 0.5\n{SLOW}"})
    listener.once()
    ask(slower, "perftest-simulated")

    listener.start()
    until(lambda: any("round 2 of" in console for console in listener.consoles()))
    listener.end(signal.SIGKILL)
    kill_jobs(listener)
    done = listener.once()

    [verdict], [console] = project.said(slower, "perftrend-perftest-simulated"), listener.consoles()
    assert (0, ["ended"], 1) == (done.returncode, listener.states(), len(project.answers(slower)))
    assert "The only test is slower by 10 %." in verdict.text
    assert 2 == console.count("perftrend-perftest-simulated #1: ")
    assert [1, 1] == [console.count(f"round 1 of at most 6: {side}") for side in ("parent", "current")]


def test_job_that_is_ended_posts_nothing_besides_the_reply(
    listener: Listener, project: Project, ask: Ask
) -> None:
    listener.settings |= BY_A_COMMAND
    project.start({SCRIPT: f"sleep 2\n{FAST}"})
    change = project.push({SCRIPT: f"sleep 2\n{SLOW}"})
    listener.start()
    until(listener.is_connected)
    ask(change, "perftest-simulated")
    until(lambda: any("round 1 of" in console for console in listener.consoles()))

    ask(change, "canceltest-simulated")
    until(lambda: len(project.answers(change)) == 2)

    assert ["cancelled", "done"] == sorted(listener.states())
    aborted = '"canceltest-simulated": "perftest-simulated" on patch set 1 was aborted.'
    assert aborted in project.answers(change)
    assert [] == project.said(change, "perftrend-perftest-simulated")
    assert 0 == listener.end()


def kill_jobs(listener: Listener) -> None:
    """Kill what a dead listener has left running, as a machine does that goes down."""
    ours = [supervisor.__name__.encode(), *map(os.fsencode, listener.folder.glob("archives/requests/*"))]
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if len(set(ours) & set(words)) > 1:
                # Its job, and what that runs, are in its group.
                os.killpg(int(process.name), signal.SIGKILL)


def test_trending_is_told_beforehand_how_long_it_would_take(
    listener: Listener, project: Project, ask: Ask
) -> None:
    change = project.push({"NOTES": "words\n"})
    listener.once()
    line = f"trendingtest-{TESTBED} {FORWARDING.partition('-')[0]}ANDmrr -- --dry-run"
    ask(change, line)

    done = listener.once()

    [answer] = project.answers(change)
    assert re.fullmatch(
        rf'"{re.escape(line)}" would measure \d+ tests, {TIME}\. Nothing was started\.', answer
    )
    assert (0, ["told"], []) == (done.returncode, listener.states(), listener.consoles())


# ---- through Jenkins


class Ci:
    """The perftest job that ``jjb/`` makes, on a server of its own.

    The server has neither the git nor the credentials-binding plugin, and drops their elements. What they
    do is done here: a clone in the workspace, and the token in the variable that stands there.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder = folder
        file = folder / "settings.yaml"
        file.touch(mode=stat.S_IRUSR | stat.S_IWUSR)
        file.write_text(yaml.safe_dump(settings))
        made = {
            "name": "test",
            "testbed": CI_TESTBED,
            "jobs": ["perftrend-on-change"],
            "perftrend-git-url": str(checkout.make_repository(folder / "repository")),
            "store": str(folder / "perftrend.sqlite"),
            "settings": str(file),
            "testbed-node": "master",
        }
        (folder / "project.yaml").write_text(yaml.safe_dump([{"project": made}]))
        self.xml = rendering.render([folder / "project.yaml"])[CI_JOB]
        self.made = etree.fromstring(self.xml.encode())

    @property
    def token_variable(self) -> str:
        """The variable that the job has Gerrit's password in."""
        [found] = self.made.iterfind("buildWrappers//bindings//variable")
        return found.text or ""

    def install(self, server: hudson.Server) -> Jenkins:
        """Make the job, and its checkout."""
        server.create_job(CI_JOB, self.xml)
        workspace = server.home / "jobs" / CI_JOB / "workspace"
        checkout.check_out(self.made.findtext("scm//url") or "", workspace)
        return Jenkins(server.url)


@pytest.mark.slow
def test_jenkins_runs_the_job_and_its_verdict_names_the_build(  # noqa: PLR0917 - fixtures
    listener: Listener, gerrit_server: Server, project: Project, robot: User, ask: Ask, tmp_path: Path,
    require: Callable[[object, str], None],
) -> None:  # fmt: skip
    """The first build blames the slow patch set, the second praises the repaired one."""
    fetch(hudson.fetched, require)
    folder = tmp_path / "ci"
    folder.mkdir()
    account = {"url": gerrit_server.url, "user": robot.name, "groups": ["Registered Users"]}
    ci = Ci(folder, {"gerrit": account, **BY_A_COMMAND})
    fast, slow = {SCRIPT: FAST}, {SCRIPT: SLOW}
    project.start(fast)
    slower = project.push(slow)
    with hudson.running(tmp_path / "jenkins", **{ci.token_variable: robot.password}) as server:
        jenkins = ci.install(server)
        listener.settings |= {"jenkins": {"url": server.url}, **BY_A_COMMAND}
        listener.settings["listener"]["runner"] = "jenkins"
        listener.once()

        def built(change: Pushed, number: int) -> tuple[JenkinsBuild, str]:
            """Ask for a verdict, and return the build that gave it, with what it said."""
            ask(change, f"perftest-{CI_TESTBED}")
            listener.once()
            build = jenkins.wait((CI_JOB, number), timeout_s=PLENTY_S, poll_s=0.5)
            return build, "".join(jenkins.console(CI_JOB, number))

        first, console = built(slower, 1)
        assert "FAILURE" == first.result, console
        assert -1 == project.vote(slower)
        repaired = project.push({"NOTES": "repaired\n"}, slower)
        second, console_of_second = built(repaired, 2)
        assert "SUCCESS" == second.result, console_of_second
        assert 1 == project.vote(repaired)

    [answer, _], [blame, praise] = project.answers(slower), project.said(slower, CI_JOB)
    assert f'"perftest-{CI_TESTBED}" started: {MEASURED}, {first.url}' == answer
    assert "The only test is slower by 10 %." in blame.text
    assert f"{first.url}artifact/report/index.html" in blame.text
    assert {"report/index.html", "report/perftest.json", f"archives/{CI_JOB}/1/asked.json"} <= {
        each.path for each in first.artifacts
    }
    assert "perftrend verdict: The only test is slower by 10 %" in console
    assert "The only test shows no difference of " in praise.text
    assert f"{second.url}artifact/report/index.html" in praise.text
    assert robot.password not in console + console_of_second + blame.text + praise.text + answer

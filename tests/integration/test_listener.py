"""The listener on a real Gerrit; the jobs that it runs are stand-ins that measure nothing."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from perftrend.clients.gerrit import Comment, Gerrit, connect
from perftrend.clients.jenkins import Jenkins
from perftrend.settings import GerritSettings
from perftrend.store import Store
from perftrend.store.requests import State
from tests.integration.servers import hudson
from tests.integration.servers.gerrit import Pushed, Server, User

PROJECT = "listened to"
LINE = "perftest-simulated mrrAND64bANDethip4-ip4base"
CHECKOUT = Path(__file__).resolve().parents[2]

STAND_IN = """
import base64, os, sys
sys.path[:0] = [{checkout!r}, {resources!r}]
import signal
from jobs import listener
from perftrend.listener import on_this_machine

JOB = "import base64, os; print(base64.b64decode(os.environ['GERRIT_EVENT_COMMENT_TEXT']).decode(), "
JOB += "os.environ['GERRIT_CHANGE_NUMBER'], os.environ['GERRIT_PATCHSET_NUMBER'])"
default = on_this_machine.OnThisMachine.__init__
def init(self, *arguments, **named):
    default(self, *arguments, **named, command=lambda request: [sys.executable, "-c", JOB])
on_this_machine.OnThisMachine.__init__ = init
{also}
sys.exit(listener.main(["--settings", "settings.yaml", *sys.argv[1:]]))
"""
"""A listener whose jobs only say what they were told."""

DIES_AFTER_THE_CLAIM = (
    "on_this_machine.OnThisMachine.begin = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)"
)


@pytest.fixture(scope="module")
def developer(gerrit_server: Server) -> User:
    return gerrit_server.create_user("listener-developer")


@pytest.fixture(scope="module")
def stranger(gerrit_server: Server) -> User:
    return gerrit_server.create_user("listener-stranger")


@pytest.fixture(scope="module")
def robot(gerrit_server: Server) -> User:
    return gerrit_server.create_user("listener-robot", ["Service Users"])


@pytest.fixture(scope="module")
def clone(gerrit_server: Server, developer: User, tmp_path_factory: pytest.TempPathFactory) -> Path:
    gerrit_server.create_project(PROJECT)
    return gerrit_server.clone(PROJECT, tmp_path_factory.mktemp("listener") / "clone", developer)


@pytest.fixture
def gerrit(gerrit_server: Server, robot: User) -> Gerrit:
    return connect(GerritSettings(**of_gerrit(gerrit_server, robot)))


def of_gerrit(server: Server, robot: User) -> dict[str, Any]:
    return {
        "url": server.url, "user": robot.name, "token": robot.password, "ssh_port": server.ssh_port,
        "ssh_key": str(robot.key), "known_hosts": str(server.known_hosts), "notify": "none", "attempts": 1,
    }  # fmt: skip


class Listener:
    """A listener with a folder of its own, which tests start, stop and kill."""

    def __init__(self, folder: Path, server: Server, robot: User) -> None:
        self.folder = folder
        self.settings: dict[str, Any] = {
            "gerrit": of_gerrit(server, robot),
            "perftest": {"maximum_rounds": 10},
            "listener": {
                "runner": "local", "address": "127.0.0.1:0", "projects": [PROJECT], "poll_s": 3600,
                # What earlier tests wrote on the same server is nobody's request here.
                "look_back_s": 1,
            },
        }  # fmt: skip
        self.process: subprocess.Popen[str] | None = None
        self.said: list[str] = []
        self._reader = threading.Thread()

    def write(self, also: str = "") -> list[str]:
        """Write down what it is; return what starts it."""
        (self.folder / "settings.yaml").write_text(yaml.safe_dump(self.settings))
        program = STAND_IN.format(checkout=str(CHECKOUT), resources=str(CHECKOUT / "resources"), also=also)
        (self.folder / "listen.py").write_text(program)
        return [sys.executable, "listen.py"]

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PERFTREND_")}
        return {**kept, "PYTHONPATH": f"{CHECKOUT}{os.pathsep}{CHECKOUT / 'resources'}", "NETRC": "/dev/null"}

    def once(self, also: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.write(also), "--once"], cwd=self.folder, env=self.environment(), text=True, timeout=120,
            capture_output=True, check=False,
        )  # fmt: skip

    def start(self, also: str = "") -> None:
        """Start it and wait until it serves its health."""
        self.said.clear()
        self.process = subprocess.Popen(
            self.write(also), cwd=self.folder, env=self.environment(), text=True, stderr=subprocess.PIPE
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        until(lambda: any("health at" in line for line in self.said) or not self.lives())

    def _read(self) -> None:
        assert self.process
        assert self.process.stderr
        with self.process.stderr as lines:
            self.said += lines

    def lives(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def health(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.page("healthz").content)
        return found

    def page(self, name: str) -> requests.Response:
        address = next(line for line in self.said if "health at" in line).split("health at ")[1].strip()
        return requests.get(address.replace("healthz", name), timeout=10)

    def is_connected(self) -> bool:
        return bool(self.health()["connected"])

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process
        self.process.send_signal(number)
        code = self.process.wait(60)
        self._reader.join()
        return code

    def consoles(self) -> list[str]:
        """Return what the jobs said, in no order."""
        return sorted(
            file.read_text().strip() for file in self.folder.glob("archives/requests/*/console.log")
        )

    def states(self) -> list[str]:
        with Store.open(self.folder / "perftrend.sqlite") as store:
            return [each.state.value for each in store.requests.in_states(*State)]


def until(condition: Callable[[], object]) -> None:
    """Wait for processes; the limit only ends a test that would hang."""
    end = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def listener(tmp_path: Path, gerrit_server: Server, robot: User) -> Iterator[Listener]:
    found = Listener(tmp_path, gerrit_server, robot)
    yield found
    if found.lives():
        found.end(signal.SIGKILL)


numbers = itertools.count()


@pytest.fixture
def pushed(gerrit_server: Server, clone: Path) -> Pushed:
    return gerrit_server.push(clone, {"main.c": f"int x = {next(numbers)};\n"}, "Make it faster")


@pytest.fixture
def say(gerrit_server: Server, pushed: Pushed, developer: User) -> Callable[..., None]:
    def comment(text: str = "", *, user: User = developer, **others: Any) -> None:
        gerrit_server.comment(pushed, user, text, **others)

    return comment


Say = Callable[..., None]


def answers(gerrit: Gerrit, pushed: Pushed) -> list[Comment]:
    return [
        each
        for each in gerrit.comments(pushed.number)
        if each.tag.startswith("autogenerated:perftrend:answer:") and not each.text.endswith("(1 comment)")
    ]


def texts(gerrit: Gerrit, pushed: Pushed) -> list[str]:
    return [
        each.text.partition("\n\n")[2] if each.is_message else each.text for each in answers(gerrit, pushed)
    ]


STARTED = f'"{LINE}" started: 1 test, at most about 10 minutes and building'


def test_comment_is_heard_run_and_answered_below_itself(
    listener: Listener, gerrit: Gerrit, pushed: Pushed, say: Say
) -> None:
    listener.start()
    until(listener.is_connected)
    say(f"Infra issue, again.\n\n{LINE}\n")
    until(lambda: answers(gerrit, pushed) and listener.states() == ["ended"])

    (asked,) = [each for each in gerrit.comments(pushed.number) if "Infra issue" in each.text]
    (answer,) = answers(gerrit, pushed)
    assert (STARTED, asked.identity) == (answer.text, answer.in_reply_to)
    assert [f"{LINE} {pushed.number} 1"] == listener.consoles()
    assert "perftrend_listener_answers_total 1.0" in listener.page("metrics").text
    assert 0 == listener.end()


def test_one_review_with_a_message_and_a_comment_is_one_request(
    listener: Listener, gerrit: Gerrit, pushed: Pushed, say: Say
) -> None:
    listener.once()
    say(LINE, message=LINE)

    done = listener.once()
    listener.once()

    assert (0, ["ended"]) == (done.returncode, listener.states())
    assert [STARTED] == texts(gerrit, pushed)


def test_what_asks_for_nothing_gets_nothing(
    listener: Listener, gerrit: Gerrit, pushed: Pushed, say: Say
) -> None:
    listener.once()
    say(f"> {LINE}\n\nWhy that?")
    say(f"{LINE} was green yesterday")
    say(f"On Monday, Jane Doe wrote:\n{LINE}")
    say(inline={"main.c": {1: LINE}})
    say(message=f"> {LINE}")

    assert 0 == listener.once().returncode
    assert ([], []) == (listener.states(), answers(gerrit, pushed))


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("perftest-simulatd mrr", "there is no testbed 'simulatd'; known are simulated. "
            "Please write: perftest-simulated mrr"),
        ("bisecttest-simulated 12345 mrr", "'12345' is a number, as changes have; write the hash of the "
            "older commit. Please write: bisecttest-simulated HASH mrr"),
        ("perftest-simulated mrrAND64bANDethip4-ip4bsae", "no test matches the tags "
            "'mrrAND64bANDethip4-ip4bsae'; did you mean 'ethip4-ip4base' for 'ethip4-ip4bsae'? "
            f"Please write: {LINE}"),
    ],
)  # fmt: skip
def test_wrong_request_is_answered_with_the_right_form(  # noqa: PLR0917 - fixtures
    line: str, answer: str, listener: Listener, gerrit: Gerrit, pushed: Pushed, say: Say
) -> None:
    listener.settings["trigger"] = {"testbeds": ["simulated"]}
    listener.once()
    say(line)

    listener.once()

    assert [f'"{line}" starts nothing: {answer}'] == texts(gerrit, pushed)


def test_who_may_not_start_jobs_is_told(  # noqa: PLR0917 - fixtures
    listener: Listener, gerrit_server: Server, gerrit: Gerrit, developer: User, stranger: User,
    pushed: Pushed, say: Say,
) -> None:  # fmt: skip
    gerrit_server.create_group("Those who may", [developer.name])
    listener.settings["gerrit"]["groups"] = ["Those who may"]
    listener.once()
    say(f"{LINE} -- --dry-run")
    say(LINE, user=stranger)

    listener.once()

    refused = f'"{LINE}" starts nothing: only members of Those who may may start jobs here.'
    assert {"told", "refused"} == set(listener.states())
    assert refused in texts(gerrit, pushed)


def test_group_that_nobody_knows_is_refused_at_the_start(listener: Listener) -> None:
    listener.settings["gerrit"]["groups"] = ["Those who migth"]

    done = listener.once()

    assert (2, 1) == (done.returncode, done.stderr.count("\n"))
    assert "sees no group 'Those who migth'" in done.stderr


def test_comment_of_while_the_listener_was_down_is_served_when_it_is_back(
    listener: Listener, gerrit: Gerrit, pushed: Pushed, say: Say
) -> None:
    listener.start()
    assert 0 == listener.end()
    say(LINE)

    listener.start()
    until(lambda: listener.states() == ["ended"] and answers(gerrit, pushed))
    until(listener.is_connected)

    assert [STARTED] == texts(gerrit, pushed)


def test_listener_killed_between_claim_and_start_starts_once(
    listener: Listener, gerrit: Gerrit, pushed: Pushed, say: Say
) -> None:
    listener.once()
    say(LINE)

    assert -signal.SIGKILL == listener.once(DIES_AFTER_THE_CLAIM).returncode
    assert (["claimed"], []) == (listener.states(), answers(gerrit, pushed))
    listener.once()
    listener.once()

    assert ([f"{LINE} {pushed.number} 1"], [STARTED]) == (listener.consoles(), texts(gerrit, pushed))


def test_listener_that_lost_its_store_starts_nothing_again(
    listener: Listener, gerrit: Gerrit, pushed: Pushed, say: Say
) -> None:
    listener.settings["listener"]["look_back_s"] = 600
    listener.settings["listener"]["projects"] = [PROJECT]
    say(LINE)
    listener.once()
    for file in listener.folder.glob("perftrend.sqlite*"):
        file.unlink()

    listener.once()

    assert 1 == len([each for each in texts(gerrit, pushed) if each == STARTED])
    assert 1 == len([each for each in listener.consoles() if each.endswith(f" {pushed.number} 1")])


def test_storm_of_200_comments_is_served_by_as_many_jobs_as_may_and_one_answer_more(
    listener: Listener, gerrit: Gerrit, pushed: Pushed, say: Say
) -> None:
    listener.settings["gerrit"]["jobs_per_day"] = 3
    listener.start()
    until(listener.is_connected)
    for _ in range(200):
        say(message=LINE)
    until(lambda: len(listener.states()) == 200 and not {"seen", "claimed"} & set(listener.states()))
    until(lambda: listener.states().count("ended") == 3 and len(answers(gerrit, pushed)) == 4)

    assert {"ended": 3, "limited": 1, "ignored": 196} == {
        state: listener.states().count(state) for state in set(listener.states())
    }
    assert 3 == len(listener.consoles())
    assert 3 == texts(gerrit, pushed).count(STARTED)
    assert 0 == listener.end()


JOB = """<project><quietPeriod>0</quietPeriod>
  <properties><hudson.model.ParametersDefinitionProperty><parameterDefinitions>{parameters}
  </parameterDefinitions></hudson.model.ParametersDefinitionProperty></properties>
  <builders><hudson.tasks.Shell><command>echo "$GERRIT_EVENT_COMMENT_TEXT" | base64 -d</command>
  </hudson.tasks.Shell></builders></project>"""
PARAMETER = """<hudson.model.StringParameterDefinition><name>{}</name><description/><defaultValue/>
  </hudson.model.StringParameterDefinition>"""
OF_GERRIT = (
    "GERRIT_EVENT_COMMENT_TEXT", "GERRIT_PROJECT", "GERRIT_BRANCH", "GERRIT_REFSPEC", "GERRIT_CHANGE_NUMBER",
    "GERRIT_PATCHSET_NUMBER", "GERRIT_PATCHSET_REVISION", "GERRIT_EVENT_HASH",
)  # fmt: skip
LOSES_THE_ANSWER = """
from perftrend.listener import on_jenkins
start = on_jenkins.Jenkins.start
def lost(*arguments):
    start(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
on_jenkins.Jenkins.start = lost
"""


def test_jobs_of_jenkins_are_started_once_and_the_answer_names_the_build(
    listener: Listener, jenkins_server: hudson.Server, gerrit: Gerrit, pushed: Pushed, say: Say
) -> None:
    """With a job that is a stand-in, and a listener that is killed after the first start."""
    job = "perftrend-perftest-simulated"
    jenkins_server.create_job(job, JOB.format(parameters="".join(map(PARAMETER.format, OF_GERRIT))))
    listener.settings["listener"]["runner"] = "jenkins"
    listener.settings["jenkins"] = {"url": jenkins_server.url}
    listener.once()
    say(LINE)

    assert -signal.SIGKILL == listener.once(LOSES_THE_ANSWER).returncode
    assert ["claimed"] == listener.states()
    done = listener.once()

    assert (0, ["started"]) == (done.returncode, listener.states())
    jenkins = Jenkins(jenkins_server.url)
    (build,) = jenkins.builds(job)
    assert str(pushed.number) == build.parameters["GERRIT_CHANGE_NUMBER"]
    assert LINE in "".join(jenkins.console(job, build.number, poll_s=0.2))
    # Ten rounds of two builds, each of five trials of ten seconds: what the job suite says.
    told = f"1 test, at most about 24 minutes and building, {jenkins_server.url}/job/{job}/1/"
    assert [f'"{LINE}" started: {told}'] == texts(gerrit, pushed)


# The last one, for it stops the server.
def test_comment_of_while_gerrit_broke_off_is_served_when_it_is_back(
    listener: Listener, gerrit_server: Server, gerrit: Gerrit, pushed: Pushed, say: Say
) -> None:
    listener.settings["listener"]["poll_s"] = 1
    listener.start()
    until(listener.is_connected)
    gerrit_server.stop()
    try:
        until(lambda: not listener.is_connected() and listener.page("healthz").status_code == 503)
        assert listener.lives()
    finally:
        gerrit_server.start()
    say(LINE)

    until(lambda: listener.states() == ["ended"] and answers(gerrit, pushed))
    until(listener.is_connected)
    assert (200, [STARTED]) == (listener.page("healthz").status_code, texts(gerrit, pushed))
    assert 0 == listener.end()

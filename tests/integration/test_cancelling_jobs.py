"""Jobs that are ended by a comment, a new patch set or an abandoned change, on a real Gerrit and Hudson."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perftrend.clients.gerrit import Gerrit, connect
from perftrend.clients.jenkins import Jenkins
from perftrend.settings import GerritSettings
from tests.integration.servers import hudson
from tests.integration.servers.gerrit import Pushed, Server, User
from tests.integration.servers.listening import Listener, of_gerrit, until
from tests.integration.test_listener import JOB, LINE, OF_GERRIT, PARAMETER, StandIns, texts

PROJECT = "cancelled in"
CANCEL = "canceltest-simulated"
OTHER_LINE = "perftest-simulated mrrAND64bAND1cANDethip4-ip4baseAND1c"
LONG = """
JOB = '''
import signal, sys, time
def end(*_):
    print("cleaned up", flush=True)
    sys.exit(130)
signal.signal(signal.SIGTERM, end)
print("runs", flush=True)
time.sleep(3600)
'''
"""
ABORTED = f'"{LINE}" on patch set 1 was aborted'
JENKINS_JOB = "perftrend-perftest-simulated"

Say = Callable[..., None]
numbers = itertools.count()


@pytest.fixture(scope="module")
def developer(gerrit_server: Server) -> User:
    return gerrit_server.create_user("cancel-developer")


@pytest.fixture(scope="module")
def stranger(gerrit_server: Server) -> User:
    return gerrit_server.create_user("cancel-stranger")


@pytest.fixture(scope="module")
def robot(gerrit_server: Server) -> User:
    return gerrit_server.create_user("cancel-robot", ["Service Users"])


@pytest.fixture(scope="module")
def clone(gerrit_server: Server, developer: User, tmp_path_factory: pytest.TempPathFactory) -> Path:
    gerrit_server.create_project(PROJECT)
    return gerrit_server.clone(PROJECT, tmp_path_factory.mktemp("cancel") / "clone", developer)


@pytest.fixture
def gerrit(gerrit_server: Server, robot: User) -> Gerrit:
    return connect(GerritSettings(**of_gerrit(gerrit_server, robot)))


@pytest.fixture
def listener(tmp_path: Path, gerrit_server: Server, robot: User) -> Iterator[StandIns]:
    found = StandIns(tmp_path, gerrit_server, robot, PROJECT)
    found.also = LONG
    yield found
    if found.lives():
        found.end()


@pytest.fixture
def pushed(gerrit_server: Server, clone: Path) -> Pushed:
    return gerrit_server.push(clone, {"main.c": f"int x = {next(numbers)};\n"}, "Make it faster")


@pytest.fixture
def say(gerrit_server: Server, pushed: Pushed, developer: User) -> Say:
    def comment(text: str = "", *, user: User = developer) -> None:
        gerrit_server.comment(pushed, user, text)

    return comment


def begin(listener: Listener, say: Say) -> None:
    """Start the listener and a job that runs until it is ended."""
    listener.start()
    until(listener.is_connected)
    say(LINE)
    until(lambda: "runs" in listener.consoles())


def has_ended(listener: Listener) -> bool:
    return ["cancelled", "done"] == sorted(listener.states())


def test_comment_ends_the_running_job_which_cleans_up(
    listener: StandIns, gerrit: Gerrit, pushed: Pushed, say: Say
) -> None:
    begin(listener, say)

    say(CANCEL)
    until(lambda: has_ended(listener) and len(texts(gerrit, pushed)) == 2)

    assert ["runs\ncleaned up"] == listener.consoles()
    assert f'"{CANCEL}": {ABORTED}.' in texts(gerrit, pushed)


def test_waiting_job_is_ended_before_it_begins(
    listener: StandIns, gerrit: Gerrit, pushed: Pushed, say: Say
) -> None:
    begin(listener, say)
    say(OTHER_LINE)
    until(lambda: "waiting" in listener.states())

    say(CANCEL)
    until(lambda: len(texts(gerrit, pushed)) == 3)

    assert ["cancelled", "cancelled", "done"] == sorted(listener.states())
    assert ["runs\ncleaned up"] == listener.consoles()
    removed = f'"{OTHER_LINE}" on patch set 1 was removed from the queue'
    assert f'"{CANCEL}": {ABORTED}; {removed}.' in texts(gerrit, pushed)


def test_stranger_may_not_end_it(  # noqa: PLR0917 - fixtures
    listener: StandIns, gerrit_server: Server, gerrit: Gerrit, pushed: Pushed, say: Say,
    developer: User, stranger: User,
) -> None:  # fmt: skip
    gerrit_server.create_group("Those who cancel", [developer.name])
    listener.settings["gerrit"]["groups"] = ["Those who cancel"]
    begin(listener, say)

    say(CANCEL, user=stranger)
    until(lambda: len(texts(gerrit, pushed)) == 2)

    who = "only those who started jobs, the owner of the change and members of Those who cancel may end them"
    assert f'"{CANCEL}" starts nothing: {who}.' in texts(gerrit, pushed)
    assert ["refused", "running"] == sorted(listener.states())
    assert ["runs"] == listener.consoles()


def test_new_patch_set_ends_the_job_of_the_older_one(
    listener: StandIns, gerrit: Gerrit, gerrit_server: Server, pushed: Pushed, say: Say
) -> None:
    begin(listener, say)

    gerrit_server.push(pushed.folder, {"main.c": f"int y = {next(numbers)};\n"}, again=pushed)
    until(lambda: has_ended(listener) and len(texts(gerrit, pushed)) == 2)

    assert f"Patch set 2 was uploaded: {ABORTED}." in texts(gerrit, pushed)


def test_abandoned_change_ends_its_jobs(
    listener: StandIns, gerrit: Gerrit, gerrit_server: Server, pushed: Pushed, say: Say
) -> None:
    begin(listener, say)

    gerrit_server.ask("POST", f"changes/{pushed.number}/abandon", body={})
    until(lambda: has_ended(listener) and len(texts(gerrit, pushed)) == 2)

    assert f"The change was abandoned: {ABORTED}." in texts(gerrit, pushed)
    assert ["runs\ncleaned up"] == listener.consoles()


@pytest.mark.parametrize("cause", ["abandoned", "patch set"])
def test_listener_that_was_killed_finds_what_happened_meanwhile(  # noqa: PLR0917 - fixtures
    cause: str, listener: StandIns, gerrit: Gerrit, gerrit_server: Server, pushed: Pushed, say: Say
) -> None:  # fmt: skip
    begin(listener, say)
    listener.end(signal.SIGKILL)
    if cause == "abandoned":
        gerrit_server.ask("POST", f"changes/{pushed.number}/abandon", body={})
    else:
        gerrit_server.push(pushed.folder, {"main.c": f"int y = {next(numbers)};\n"}, again=pushed)

    done = listener.once()

    assert (0, True) == (done.returncode, has_ended(listener))
    assert ["runs\ncleaned up"] == listener.consoles()
    assert [True] == [each.endswith(f": {ABORTED}.") for each in texts(gerrit, pushed) if ABORTED in each]


@pytest.mark.parametrize(
    ("quiet_s", "state", "result"), [(3600, "queued", "removed from the queue"), (0, "running", "aborted")]
)
def test_build_of_jenkins_is_removed_from_the_queue_or_aborted(  # noqa: PLR0917 - fixtures
    quiet_s: int, state: str, result: str, listener: StandIns, jenkins_server: hudson.Server,
    gerrit: Gerrit, pushed: Pushed, say: Say,
) -> None:  # fmt: skip
    xml = JOB.format(parameters="".join(map(PARAMETER.format, OF_GERRIT)))
    xml = xml.replace("<quietPeriod>0<", f"<quietPeriod>{quiet_s}<").replace(
        "base64 -d", "base64 -d; sleep 3600"
    )
    jenkins_server.create_job(JENKINS_JOB, xml)
    jenkins = Jenkins(jenkins_server.url)
    listener.settings["listener"]["runner"] = "jenkins"
    listener.settings["jenkins"] = {"url": jenkins_server.url}
    listener.once()
    say(LINE)
    assert 0 == listener.once().returncode

    def builds() -> list[bool]:
        found = jenkins.find(JENKINS_JOB, "GERRIT_CHANGE_NUMBER", str(pushed.number))
        return [getattr(each, "is_finished", state == "queued" and None) for each in found]

    until(lambda: builds() == [None if state == "queued" else False])
    say(CANCEL)
    assert 0 == listener.once().returncode

    until(lambda: builds() in ([], [True]))
    assert has_ended(listener)
    assert f'"{CANCEL}": "{LINE}" on patch set 1 was {result}.' in texts(gerrit, pushed)

"""The listener from its command line to its exit code, on a double of a Gerrit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from jobs import listener
from perftrend.store import Store
from perftrend.store.requests import State
from tests.doubles import faulty
from tests.doubles.gerrit import GerritDouble, Handler, change, running

LINE = "trendingtest-simulated mrrAND64bAND*acl20"
DEV = {"_account_id": 1, "username": "dev"}


@pytest.fixture
def gerrit() -> Iterator[GerritDouble]:
    with running() as double:
        # As long as nothing else is said: no change was updated.
        double.files["/changes/"] = []
        double.files["/groups/"] = {}
        yield double


def now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S.000000000", time.gmtime())


def commented(double: GerritDouble, text: str) -> None:
    """Say something on the change, and let it be found."""
    number = len(double.messages)
    double.messages.append({
        "id": f"p{number}", "author": DEV, "date": now(), "_revision_number": 1,
        "message": f"Patch Set 1:\n\n{text}",
    })  # fmt: skip
    double.files["/changes/"] = [change(1, updated=now())]


@pytest.fixture
def settings(bench: Any, gerrit: GerritDouble, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NETRC", "/dev/null")
    file: Path = bench.folder / "settings.yaml"
    told = {
        "gerrit": {"url": gerrit.url, "user": "perftrend", "token": "t0ken", "attempts": 1, "ssh_port": 1},
        "listener": {"address": "127.0.0.1:0", "runner": "local"},
        "trial": {"multiplicity": 1, "duration_s": 0.1},
    }
    file.write_text(yaml.safe_dump(told))
    return file


def run(bench: Any, *arguments: str) -> Any:
    return bench._job(listener.main, ["--settings", "settings.yaml", *arguments])


def states(bench: Any) -> list[str]:
    with Store.open(bench.folder / "perftrend.sqlite") as store:
        return [each.state.value for each in store.requests.in_states(*State)]


@pytest.mark.usefixtures("settings")
def test_look_that_finds_nothing_ends_well(bench: Any) -> None:
    ended = run(bench, "--once")

    assert (0, "", "") == (ended.exit_code, ended.out, ended.err)


@pytest.mark.usefixtures("settings")
def test_one_look_runs_what_is_asked_on_this_machine_and_answers(bench: Any, gerrit: GerritDouble) -> None:
    commented(gerrit, LINE)

    ended = run(bench, "--once")

    assert (0, ["ended"]) == (ended.exit_code, states(bench))
    assert [f'"{LINE}" started: 1 test, about 1 minute'] == [each["message"] for each in gerrit.posted]
    assert f"{LINE}: ended with exit code 0" in ended.err
    with Store.open(bench.folder / "perftrend.sqlite") as store:
        assert ["simulated"] == [each.testbed for each in store.runs("simulated")]


@pytest.mark.usefixtures("settings")
def test_second_look_does_nothing_twice(bench: Any, gerrit: GerritDouble) -> None:
    commented(gerrit, f"{LINE} -- --dry-run")
    run(bench, "--once")

    run(bench, "--once")

    assert (["told"], 1) == (states(bench), len(gerrit.posted))


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize(
    ("status", "hint"),
    [(500, "500 Internal Server Error"), (401, "401 Unauthorized; check gerrit.user and gerrit.token")],
)
def test_gerrit_that_fails_ends_one_look(bench: Any, gerrit: GerritDouble, status: int, hint: str) -> None:
    gerrit.always = faulty.status(status)

    ended = run(bench, "--once")

    assert (3, True, 1) == (ended.exit_code, hint in ended.err, ended.err.count("\n"))
    assert "t0ken" not in ended.err


def refusing_posts(status: int, *, times: int) -> faulty.Fault:
    """Refuse what is posted so often; answer everything else."""
    left = [None] * times

    def fault(handler: faulty.Handler) -> None:
        assert isinstance(handler, Handler)
        if handler.command == "POST" and left:
            left.pop()
            handler.send(status, b"no")
        else:
            posted = handler.double.requests[-1].body
            handler.tell(f"/{handler.path.partition('?')[0].removeprefix('/a/').lstrip('/')}", posted)

    return fault


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("status", [500, 401])
def test_answer_that_gerrit_does_not_take_is_given_later(
    bench: Any, gerrit: GerritDouble, status: int
) -> None:
    commented(gerrit, f"{LINE} -- --dry-run")
    gerrit.always = refusing_posts(status, times=1)

    assert 3 == run(bench, "--once").exit_code
    assert 0 == run(bench, "--once").exit_code

    assert 1 == len([each for each in gerrit.messages if "would measure" in each["message"]])


@pytest.mark.usefixtures("settings")
def test_change_that_refuses_answers_is_left_alone(bench: Any, gerrit: GerritDouble) -> None:
    commented(gerrit, f"{LINE} -- --dry-run")
    gerrit.always = refusing_posts(409, times=1)

    first, second = run(bench, "--once"), run(bench, "--once")

    assert (0, 0, 1) == (first.exit_code, second.exit_code, len(gerrit.posted))
    assert "change 1 takes no answer: POST" in first.err


@pytest.mark.parametrize(
    ("wrong", "exit_code", "hint"),
    [
        ({"gerrit": {"url": None}}, 2, "gerrit.url is not set"),
        ({"gerrit": {"user": None}}, 2, "gerrit.user and gerrit.token belong together"),
        ({"gerrit": {"groups": ["nobodies"]}}, 2, "sees no group 'nobodies'"),
        ({"trigger": {"words": {"x": "perftest"}}}, 2, "trigger word 'x': {testbed} should stand in it once"),
        (
            {"trigger": {"testbeds": ["1n-vethh"]}},
            2,
            "testbed '1n-vethh' is unknown; did you mean '1n-veth'?",
        ),
        ({"listener": {"runner": "jenkins"}}, 2, "jenkins.url is not set"),
        ({"store": "no/such/folder.sqlite"}, 3, "is its folder there"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(
    wrong: dict[str, Any], exit_code: int, hint: str, bench: Any, settings: Path
) -> None:
    told = yaml.safe_load(settings.read_text())
    for section, values in wrong.items():
        told[section] = {**told.get(section, {}), **values} if isinstance(values, dict) else values
    settings.write_text(yaml.safe_dump(told))

    ended = run(bench, "--once")

    assert (exit_code, 1) == (ended.exit_code, ended.err.count("\n"))
    assert hint in ended.err


@pytest.mark.usefixtures("settings")
def test_address_that_is_in_use_is_told(
    bench: Any, gerrit: GerritDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFTREND_LISTENER_ADDRESS", gerrit.url.removeprefix("http://"))

    ended = run(bench)

    assert 3 == ended.exit_code
    assert "health cannot be served there (Address already in use); choose another one" in ended.err


# ---- the hash of a bisection


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=dev", "-c", "user.email=dev@example.org")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def history(bench: Any, gerrit: GerritDouble, settings: Path) -> dict[str, str]:
    """Make a repository with a change on its second commit of three; return the commits' hashes."""
    folder = bench.folder / "product"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    commits = {}
    for name in ("first", "patch", "later"):
        git(folder, "commit", "--quiet", "--allow-empty", "-m", name)
        commits[name] = git(folder, "rev-parse", "HEAD")
    git(folder, "update-ref", "refs/changes/01/1/1", commits["patch"])
    told = change(1)
    (revision,) = told["revisions"].values()
    gerrit.files["/changes/1"] = told | {
        "revisions": {commits["patch"]: revision},
        "messages": gerrit.messages,
    }
    content = yaml.safe_load(settings.read_text())
    content["project"] = {"profile": "vpp", "repository": str(folder)}
    settings.write_text(yaml.safe_dump(content))
    return commits


@pytest.mark.parametrize(
    ("old", "answer"),
    [
        ("first", "would measure 1 test, about"),
        ("patch", "is the patch set itself; write the hash of an older commit. Please write: bisecttest"),
        ("later", "is no ancestor of this patch set; write the hash of a commit that is. Please write: bis"),
        ("0123456", "'0123456' is no commit of the repository, and looks like the number of a change"),
        ("abcdef0", "abcdef0 does not exist in the repository"),
    ],
)
def test_hash_is_looked_up_in_the_repository(
    old: str, answer: str, bench: Any, gerrit: GerritDouble, history: dict[str, str]
) -> None:
    commented(gerrit, f"bisecttest-simulated {history.get(old, old)[:10]} {LINE.split()[1]} -- --dry-run")

    ended = run(bench, "--once")

    assert (0, "") == (ended.exit_code, ended.err)
    assert [True] == [answer in each["message"] for each in gerrit.posted]


# ---- a service, in a process of its own


class Service:
    """A listener that runs."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jobs.listener", "--settings", "settings.yaml"],
            stderr=subprocess.PIPE, text=True, env={**os.environ},
        )  # fmt: skip
        assert self.process.stderr
        self.first = self.process.stderr.readline()

    def page(self, name: str) -> requests.Response:
        address = self.first.split("health at ")[1].strip().removesuffix("/healthz")
        return requests.get(f"{address}/{name}", timeout=10)

    def ended(self, number: signal.Signals) -> tuple[int, str]:
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said


@pytest.fixture
def service(settings: Path) -> Iterator[Service]:
    running = Service()
    yield running
    if running.process.poll() is None:
        running.process.kill()
    running.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_service_that_is_stopped_ends_well(service: Service, number: signal.Signals) -> None:
    code, said = service.ended(number)

    assert 0 == code
    assert "perftrend: stopped; what is under way goes on at the next start" == said.splitlines()[-1]


def test_service_tells_how_it_is(service: Service) -> None:
    health = service.page("healthz")

    assert (200, True) == (health.status_code, json.loads(health.content)["healthy"])
    assert "perftrend_listener_connected 0.0" in service.page("metrics").text
    assert 404 == service.page("").status_code


def test_second_listener_of_a_store_is_refused(service: Service) -> None:
    assert "listening to" in service.first

    second = Service()
    second.process.communicate(timeout=60)

    assert 2 == second.process.returncode
    assert (
        "perftrend: store perftrend.sqlite: another listener serves it; end that one first\n" == second.first
    )


def test_service_serves_what_is_asked_while_it_runs(
    bench: Any, gerrit: GerritDouble, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFTREND_LISTENER_POLL_S", "0.2")
    service = Service()
    try:
        commented(gerrit, "bisecttest-simulated mrr")
        end = time.monotonic() + 60
        while not gerrit.posted and time.monotonic() < end:
            time.sleep(0.02)
    finally:
        ended = service.ended(signal.SIGTERM)

    assert (0, 1) == (ended[0], len(gerrit.posted))
    assert "the hash of the older commit is missing" in gerrit.posted[0]["message"]


def test_listener_killed_between_claim_and_start_runs_the_job_once(
    bench: Any, gerrit: GerritDouble, settings: Path
) -> None:
    """Killed as hard as can be, in the very moment after the claim."""
    commented(gerrit, LINE)
    dies = (
        "import os, sys\n"
        "from jobs import listener\n"
        "from perftrend.listener.on_this_machine import OnThisMachine\n"
        "OnThisMachine.begin = lambda *_, **__: os.kill(os.getpid(), 9)\n"
        "listener.main(['--settings', 'settings.yaml', '--once'])\n"
    )
    killed = subprocess.run([sys.executable, "-c", dies], check=False, capture_output=True)
    assert (-9, ["claimed"], 0) == (killed.returncode, states(bench), len(gerrit.posted))

    run(bench, "--once")

    with Store.open(bench.folder / "perftrend.sqlite") as store:
        assert 1 == len(store.runs("simulated"))
    assert (["ended"], 1) == (states(bench), len(gerrit.posted))

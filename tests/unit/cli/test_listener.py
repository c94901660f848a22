"""The listener from its command line to its exit code, on a double of a Gerrit."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from perftrend.cli import listener
from perftrend.settings import Settings
from perftrend.store import Store
from perftrend.store.requests import RequestState
from tests.doubles import faulty
from tests.doubles.gerrit import GerritDouble, Handler, change, running

LINE = "trendingtest-simulated mrrAND64bAND1cAND*acl20"
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
        "gerrit": {
            "url": gerrit.url,
            "user": "perftrend",
            "token": "t0ken",
            "attempts": 1,
            "ssh_port": 1,
            "groups": ["Registered Users"],
        },
        "listener": {"address": "127.0.0.1:0", "runner": "local"},
        "trial": {"multiplicity": 1, "duration_s": 0.1},
    }
    file.write_text(yaml.safe_dump(told))
    return file


def run(bench: Any, *arguments: str) -> Any:
    return bench._job(listener.main, ["--settings", "settings.yaml", *arguments])


def states(bench: Any) -> list[str]:
    with Store.open(bench.folder / "perftrend.sqlite") as store:
        return [each.state.value for each in store.requests.in_states(*RequestState)]


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
def test_log_has_only_problems_at_the_level_warning(
    bench: Any, gerrit: GerritDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFTREND_LOG_LEVEL", "warning")
    commented(gerrit, LINE)

    ended = run(bench, "--once")
    gerrit.always = faulty.status(404)
    failed = run(bench, "--once")

    assert (0, ["ended"], "") == (ended.exit_code, states(bench), ended.err)
    assert "404 Not Found" in failed.err


@pytest.mark.usefixtures("settings")
def test_log_has_every_step_at_the_level_debug(
    bench: Any, gerrit: GerritDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFTREND_LOG_LEVEL", "debug")
    commented(gerrit, f"a remark\n\n{LINE} -- --dry-run\n\nperftest-simulatd")

    log = run(bench, "--once").err

    assert f"\nperftrend: {LINE} -- --dry-run: told, change 1, patch set 1\n" in log
    assert "\nperftrend: perftest-simulatd: refused (unknown testbed 'simulatd'" in log
    assert f"\nperftrend: GET {gerrit.url}/a/changes/1/comments: 200 after " in log
    assert "a remark" not in log
    assert "t0ken" not in log


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
    assert "cannot reply to change 1: POST" in first.err


@pytest.mark.parametrize(
    ("wrong", "exit_code", "hint"),
    [
        ({"gerrit": {"user": None}}, 2, "gerrit.user and gerrit.token belong together"),
        ({"gerrit": {"groups": []}}, 2, "gerrit.groups is not set, so no comment may start a job; name the"),
        ({"gerrit": {"groups": ["nobodies"]}}, 2, "sees no group 'nobodies'"),
        ({"trigger": {"words": {"x": "perftest"}}}, 2, "trigger word 'x': it should contain {testbed} once"),
        (
            {"trigger": {"testbeds": ["1n-vethh"]}},
            2,
            "testbed '1n-vethh' is unknown; did you mean '1n-veth'?",
        ),
        ({"listener": {"runner": "jenkins"}}, 2, "jenkins.url is not set"),
        ({"store": "no/such/folder.sqlite"}, 3, "does its folder exist"),
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
    assert "listening there failed (Address already in use); choose another one" in ended.err


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
        ("later", "is not an ancestor of this patch set; write the hash of one. Please write: bis"),
        ("0123456", "'0123456' is not a commit of the repository, but looks like the number of a change"),
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


def test_job_uses_the_store_that_the_listener_has_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("postgresql://perftrend:secret@db/p\n")
    own = {"PERFTREND_STORE_FILE": str(tmp_path / "store")}
    loaded = Settings.load(environment=own)

    passed = listener._environment(listener.parser().parse_args([]), loaded)

    assert "postgresql://perftrend:secret@db/p" == Settings.load(environment={**own, **passed}).store

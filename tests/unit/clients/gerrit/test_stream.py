"""Events from a program in place of ssh, and lines that no Gerrit would send."""

from __future__ import annotations

import json
import os
import shlex
import stat
import threading
from itertools import islice
from pathlib import Path

import pytest

from perftrend.clients.gerrit import CommentAdded, EventStream, Gerrit, UnavailableError, stream
from perftrend.clients.gerrit.stream import ssh_command
from perftrend.errors import ServiceError, SettingsError
from tests.doubles.gerrit import event

NAME = "ssh://me@review.example.org:29418"
LINE = json.dumps(event())
WRITE = f"printf '%s\\n' {shlex.quote(LINE)}"


def shell(script: str) -> EventStream:
    """Return the stream of a program that somebody wrote for a test."""
    return EventStream(["sh", "-c", script], NAME)


def told(script: str, idle_s: float | None = None) -> list[object]:
    """Return what comes by a stream until it breaks off."""
    found: list[object] = []
    with shell(script) as connection, pytest.raises(UnavailableError, match="broke off; connect again"):
        found.extend(connection.events(idle_s))
    return found


def test_events_come_whole_in_whatever_pieces_they_are_written() -> None:
    half = len(LINE) // 2
    first, second = shlex.quote(LINE[:half]), shlex.quote(LINE[half:])
    script = f"printf %s {first}; sleep 0.05; printf '%s\\n\\n%s' {second} {first}; printf '%s\\n' {second}"

    with shell(script) as connection:
        taken = list(islice(connection.events(), 2))

    assert [1, 1] == [each.change for each in taken if isinstance(each, CommentAdded)]
    assert (0, 0) == (connection.refused, connection.ignored)


def test_lines_that_are_no_events_are_counted_and_passed_over() -> None:
    script = f'echo no json; echo \'{{"type": "ref-updated"}}\'; {WRITE}; printf half'
    with shell(script) as connection:
        events = connection.events()

        assert isinstance(next(events), CommentAdded)
        with pytest.raises(UnavailableError):
            next(events)
    assert (1, 1) == (connection.refused, connection.ignored)


def test_line_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LONGEST_LINE", 10_000)
    script = f"head -c 300000 /dev/zero; echo; head -c 10001 /dev/zero; echo; {WRITE}"

    with shell(script) as connection:
        assert isinstance(next(connection.events()), CommentAdded)

    assert 2 == connection.refused


def test_silence_is_told_so_that_other_things_can_be_done() -> None:
    with shell("exec sleep 60") as connection:
        assert next(connection.events(idle_s=0.01)) is None


@pytest.mark.parametrize("noise", ["echo noise", "printf noise", "echo noise >&2"])
def test_noise_that_is_no_event_counts_as_silence(noise: str) -> None:
    with shell(f"while :; do {noise}; done") as connection:
        assert next(connection.events(idle_s=0.05)) is None


def test_closing_ends_the_events_without_an_error() -> None:
    with shell(f"{WRITE}; exec sleep 60") as connection:
        events = connection.events()
        assert isinstance(next(events), CommentAdded)
        threading.Timer(0.05, connection.close).start()

        assert [] == list(events)
    assert connection._process.returncode is not None


def test_program_that_will_not_end_is_ended() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "_FAREWELL_S", 0.1)
        with shell(f"trap '' TERM; {WRITE}; while :; do sleep 1; done") as connection:
            next(connection.events())

    assert connection._process.returncode is not None


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ("Host key verification failed.", "its host key is not trusted; check it, and add it"),
        (
            "me@h: Permission denied (publickey).",
            "the login was refused; check gerrit.user and gerrit.ssh_key",
        ),
        ("stream events not permitted", "give the user the capability Stream Events"),
        (
            "Received disconnect: Too many authentication failures",
            "the login was refused; set gerrit.ssh_key to",
        ),
    ],
)
def test_what_lasts_is_told_with_what_to_do(errors: str, expected: str) -> None:
    script = f"echo {shlex.quote(errors)} >&2; exit 255"

    with shell(script) as connection, pytest.raises(ServiceError) as caught:
        list(connection.events())

    assert not isinstance(caught.value, UnavailableError)
    assert str(caught.value).startswith(f"{NAME}: {expected}")


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ("ssh: connect to host h port 1: Connection refused", "cannot be reached (Connection refused)"),
        ("ssh: Could not resolve hostname h: Name or service not known", "cannot be reached (Could not res"),
        ("Timeout, server h not responding.", "broke off; connect again"),
        ("", "broke off; connect again"),
    ],
)
def test_what_passes_is_told_as_such(errors: str, expected: str) -> None:
    script = f"echo {shlex.quote(errors)} >&2; exit 255"

    with shell(script) as connection, pytest.raises(UnavailableError) as caught:
        list(connection.events())

    assert expected.lower() in str(caught.value).lower()


def test_errors_without_end_are_not_kept() -> None:
    assert [] == told("head -c 3000000 /dev/zero >&2")


def test_program_that_is_missing_is_told() -> None:
    with pytest.raises(ServiceError, match="no-such-ssh cannot be started"):
        EventStream(["no-such-ssh"], NAME)


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program in the place of ssh that writes down how it was started."""
    program, log = tmp_path / "ssh", tmp_path / "log"
    program.write_text(f'#!/bin/sh\nprintf "%s\\0" "$@" >{log}\nenv >>{log}\nexec sleep 60\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return log


def test_ssh_gets_arguments_and_no_secret(ssh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFTREND_GERRIT_TOKEN", "t0ken")
    key, known = tmp_path / "a key", tmp_path / "50% known"
    key.touch()
    known.touch()
    gerrit = Gerrit("https://review.example.org/r", user="me", token="t0ken",  # noqa: S106 - it opens nothing
                    ssh_key=key, known_hosts=known)  # fmt: skip

    with gerrit.listen() as connection:
        assert next(connection.events(idle_s=0.3)) is None

    started = ssh.read_text()
    words = started.split("\0")
    assert "t0ken" not in started
    kinds = ["-s", "comment-added", "-s", "patchset-created", "-s", "change-abandoned"]
    assert ["--", "review.example.org", "gerrit", "stream-events", *kinds] == words[-11:-1]
    assert {"BatchMode=yes", "StrictHostKeyChecking=yes"} <= set(words)
    assert f'IdentityFile="{key}"' in words
    assert f'UserKnownHostsFile="{tmp_path}/50%% known"' in words


@pytest.mark.parametrize("name", ['a"b', "a$HOME", "a\\b"])
def test_file_whose_name_ssh_would_read_otherwise_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()

    with pytest.raises(SettingsError, match="ssh cannot read a name with quotes"):
        ssh_command("h", 1, "me", key=tmp_path / name, known_hosts=None, timeout_s=1)


def test_file_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="this file does not exist"):
        ssh_command("h", 1, "me", key=None, known_hosts=tmp_path / "none", timeout_s=1)


def test_nobody_can_listen() -> None:
    with pytest.raises(SettingsError, match="is not set; give a user who"):
        Gerrit("https://review.example.org").listen()

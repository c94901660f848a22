"""./run dashboard serves at the given address, or reports why it cannot."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perftrend.cli import dashboard, example_store
from perftrend.dashboard import AppContext, server
from perftrend.dashboard.auth import Person, Role, User
from perftrend.dashboard.auth.authentication import find_token, user_of
from perftrend.store import Store


@pytest.fixture(autouse=True)
def working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in an empty folder; nothing is really served."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dashboard, "log_to", lambda *_: None)
    before = signal.getsignal(signal.SIGTERM)
    yield tmp_path
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the applications that were served; each is ended by Ctrl-C at once."""
    apps: list[Any] = []

    def serve(app: object, *_: object) -> None:
        apps.append(app)
        raise KeyboardInterrupt

    monkeypatch.setattr(server, "serve", serve)
    return apps


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the examples that were made; they are empty here."""
    places: list[str] = []

    def fill(place: str) -> None:
        places.append(place)
        Store.open(place).close()

    monkeypatch.setattr(example_store, "fill", fill)
    return places


def test_store_of_the_settings_is_served(served: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    code = dashboard.main(["--store", "mine.sqlite", "--address", "127.0.0.1:0"])

    assert 0 == code
    assert ["mine.sqlite"] == [app.state.site.settings.store for app in served]
    said = capsys.readouterr().err.splitlines()
    assert said[-2].startswith("perftrend: dashboard at http://127.0.0.1:")
    assert "perftrend: stopped" == said[-1]
    assert any("users of this machine may edit" in line for line in said)


def test_level_of_the_log_is_that_of_the_settings(
    served: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels: list[str] = []
    monkeypatch.setattr(dashboard, "log_to", lambda _, level: levels.append(level))
    (tmp_path / "settings.yaml").write_text("log_level: warning\n")

    dashboard.main(["--settings", "settings.yaml", "--address", "127.0.0.1:0"])

    assert ["warning"] == levels


def test_dashboard_is_warm_before_its_address_is_told(
    served: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(_: AppContext) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dashboard, "warm_up", stopped)
    code = dashboard.main(["--address", "127.0.0.1:0"])

    assert (0, []) == (code, served)
    said = capsys.readouterr().err
    assert "dashboard at" not in said
    assert said.endswith("perftrend: stopped\n")


def test_example_is_made_once_and_shown_again(served: list[Any], made: list[str]) -> None:
    for _ in range(2):
        assert 0 == dashboard.main(["--example", "--address", "127.0.0.1:0"])

    assert [dashboard.EXAMPLE] == made
    assert [dashboard.EXAMPLE] * 2 == [app.state.site.settings.store for app in served]


def test_example_never_takes_the_place_of_a_store(
    served: list[Any], working: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Store.open("real.sqlite").close()
    before = (working / "real.sqlite").read_bytes()

    code = dashboard.main(["--example", "--store", "real.sqlite", "--address", "127.0.0.1:0"])

    assert (2, []) == (code, served)
    assert "real.sqlite already exists and is not changed" in capsys.readouterr().err
    assert before == (working / "real.sqlite").read_bytes()


def test_address_in_use_is_told_before_an_example_is_made(
    made: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        code = dashboard.main(["--example", "--address", address])

    assert (3, []) == (code, made)
    (line,) = capsys.readouterr().err.splitlines()
    assert address in line


@pytest.mark.parametrize("address", ["8080", "0.0.0.0:0", "127.0.0.1:99999"])
def test_address_that_cannot_be_is_told_in_one_line(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = dashboard.main(["--address", address])

    assert 2 == code
    (line,) = capsys.readouterr().err.splitlines()
    assert address in line


def user_of_text(store: Store, text: str) -> User | None:
    """Return the user of a request with a token that no owner limits."""

    def user_of_person(person: Person) -> User:
        raise AssertionError(person)

    token = find_token(store.tokens, text)
    return user_of(store.tokens, token, user_of_person) if token else None


def test_token_is_made_and_nothing_is_served(
    served: list[Any], working: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 0 == dashboard.main(["--store", "s.sqlite", "--new-token", "nightly", "--role", "editor"])

    text = capsys.readouterr().out.removesuffix("\n")
    with Store.open(working / "s.sqlite") as store:
        assert User("token nightly", Role.EDITOR) == user_of_text(store, text)
    assert [] == served


def test_token_for_the_example_is_made_in_an_example(
    served: list[Any], made: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever asks for both expects both, in whatever order the two commands are given."""
    for _ in range(2):
        assert 0 == dashboard.main(["--example", "--new-token", "nightly"])
    assert 0 == dashboard.main(["--example", "--address", "127.0.0.1:0"])

    tokens = capsys.readouterr().out.split()
    assert [dashboard.EXAMPLE] == made
    with Store.open(dashboard.EXAMPLE) as store:
        assert [User("token nightly", Role.VIEWER)] * 2 == [user_of_text(store, each) for each in tokens]


def test_what_is_said_of_users_is_said_at_the_start(
    served: list[Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFTREND_DASHBOARD_PUBLIC", "true")
    assert 0 == dashboard.main(["--store", "s.sqlite", "--address", "0.0.0.0:0"])

    said = capsys.readouterr().err
    assert "everyone who reaches 0.0.0.0:0 may read" in said
    assert "localhost only" in said


@pytest.mark.parametrize("options", [["--new-token", ""], ["--new-token", "x", "--days", "731"]], ids=str)
def test_token_that_cannot_be_is_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == dashboard.main(["--store", "s.sqlite", *options])

    assert 1 == capsys.readouterr().err.count("\n")

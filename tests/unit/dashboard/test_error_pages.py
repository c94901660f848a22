"""Every error is one line with the right status, as a page and as JSON."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fastapi import FastAPI, HTTPException
from httpx import Response
from markupsafe import escape
from sqlalchemy import event
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext, make_app
from perftrend.errors import (
    ArchiveError,
    FormulaError,
    ServiceError,
    StoreError,
    UsageError,
)
from tests.unit.dashboard.conftest import Filled, commit

FAULTS: dict[str, tuple[Exception, int, str]] = {
    "usage": (UsageError("no such <b>thing</b>"), 400, "no such <b>thing</b>"),
    "formula": (FormulaError("formula", 3, "a bracket lacks"), 400, "formula, character 4: a bracket lacks"),
    "service": (ServiceError("Gerrit:\n does not answer"), 502, "Gerrit: does not answer"),
    "store": (StoreError("store x: two results"), 503, "store x: two results"),
    "archive": (ArchiveError("output.xml ends"), 500, "output.xml ends"),
    "http": (HTTPException(409, "ann was faster"), 409, "ann was faster"),
}


@pytest.fixture
def client(site: AppContext) -> Iterator[TestClient]:
    app = make_app(site)
    for name, (error, _, _) in FAULTS.items():
        add(app, name, error)
    with TestClient(app, base_url="http://localhost") as opened:
        yield opened


def add(app: FastAPI, name: str, error: Exception) -> None:
    @app.get(f"/fault/{name}")
    def fault() -> None:
        raise error


@pytest.mark.parametrize("name", FAULTS)
def test_program_gets_the_line(client: TestClient, name: str) -> None:
    answer = client.get(f"/fault/{name}?format=json")

    _, status, line = FAULTS[name]
    assert (status, {"error": line}) == (answer.status_code, answer.json())


def test_person_gets_a_page_in_which_nothing_is_markup(client: TestClient) -> None:
    answer = client.get("/fault/usage")

    assert "no such &lt;b&gt;thing&lt;/b&gt;" in answer.text
    assert "<h1>This request cannot be fulfilled</h1>" in answer.text
    assert "no-store" == answer.headers["Cache-Control"]


def test_page_that_is_not_there(client: TestClient) -> None:
    answer = client.get("/nowhere", headers={"Accept": "application/json"})

    assert (404, {"error": "this page does not exist"}) == (answer.status_code, answer.json())


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/runs", "GET, HEAD"),
        ("/triage", "GET, HEAD, POST"),
        ("/clusters/7", "GET, HEAD, POST"),
        ("/clusters/progress", "GET, HEAD, POST"),
        ("/triage/undo", "GET, HEAD, POST"),
        ("/shortcuts", "POST"),
        ("/openapi.json", "GET, HEAD"),
    ],
)
def test_method_that_a_page_has_not_is_answered_with_all_that_it_has(
    client: TestClient, path: str, allowed: str
) -> None:
    answer = client.delete(path)

    assert (405, allowed) == (answer.status_code, answer.headers["Allow"])


def test_parameter_that_cannot_be_is_named(client: TestClient) -> None:
    answer = client.get("/runs?last=many&format=json")

    assert 422 == answer.status_code
    assert answer.json()["error"].startswith("last: Input should be a valid integer")


def test_database_may_go_and_come_back(client: TestClient, tmp_path: Path) -> None:
    assert 200 == client.get("/runs").status_code
    broken(tmp_path)
    answer, health = client.get("/runs?format=json"), client.get("/healthz")
    mended(tmp_path)

    assert 503 == answer.status_code
    said = "the database cannot be reached or is too slow; nothing is lost, try again in a moment"
    assert {"error": said} == answer.json()
    assert "Retry-After" in answer.headers
    assert (503, False) == (health.status_code, health.json()["healthy"])
    assert 200 == client.get("/runs").status_code
    assert 200 == client.get("/healthz").status_code


def test_who_writes_is_told_that_nothing_was_saved(
    editor: TestClient, token: str, site: AppContext, tmp_path: Path
) -> None:
    def limit(connection: sqlite3.Connection, *_: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")  # no more than there are

    def keep(address: str) -> Response:
        sent = {"url": address, "csrf": token}
        return editor.post("/short", data=sent, headers={"Accept": "application/json"})

    site.store._engine.dispose()
    event.listen(site.store._engine, "connect", limit)
    answers = [keep(f"/explore?q=metric%3Dm{number}{'x' * 150}") for number in range(200)]
    event.remove(site.store._engine, "connect", limit)
    site.store._engine.dispose()

    full = "the disk of the database is full; try again when it has free space"
    assert (503, {"error": f"your change was not saved: {full}"}) == (
        answers[-1].status_code, answers[-1].json(),
    )  # fmt: skip
    edited(tmp_path, "ALTER TABLE short_urls RENAME TO away")
    away = "the database cannot be written or is too slow; try again in a moment"
    assert {"error": f"your change was not saved: {away}"} == keep("/explore?q=metric%3Dy").json()


def test_person_gets_a_page_while_the_database_is_away(client: TestClient, tmp_path: Path) -> None:
    client.cookies.set("perftrend", "x")
    broken(tmp_path)

    answer = client.get("/runs")

    assert 503 == answer.status_code
    assert "the database cannot be reached" in answer.text


def test_text_that_was_not_saved_can_be_copied(
    filled: Filled, editor: TestClient, token: str, tmp_path: Path
) -> None:
    text = "a <b>fan</b> failed"
    form = {"commit": commit(7), "testbed": "", "text": text, "csrf": token}
    edited(tmp_path, "ALTER TABLE annotations RENAME TO away")

    answer = editor.post("/annotations", data=form, headers={"Accept": "text/html"})

    assert 503 == answer.status_code
    assert escape(text) in answer.text
    assert token not in answer.text


def test_text_of_another_site_is_not_shown(filled: Filled, editor: TestClient) -> None:
    form = {"commit": commit(7), "testbed": "", "text": "call 555-1234", "csrf": "x"}

    answer = editor.post("/annotations", data=form, headers={"Accept": "text/html"})

    assert 403 == answer.status_code
    assert "555" not in answer.text


def broken(folder: Path) -> None:
    """Take a table away, as somebody does who restores a copy."""
    edited(folder, "ALTER TABLE runs RENAME TO gone")


def mended(folder: Path) -> None:
    edited(folder, "ALTER TABLE gone RENAME TO runs")


def edited(folder: Path, command: str) -> None:
    with closing(sqlite3.connect(folder / "store.sqlite")) as connection, connection:
        connection.execute(command)

"""The permissions of each role on every endpoint, and forged forms."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext, make_app
from perftrend.dashboard.auth import Authenticator, Person
from perftrend.dashboard.auth.authorization import (
    administering,
    administering_testbed,
    editing_testbed,
    viewing,
)
from perftrend.settings import Settings
from tests.unit.dashboard.conftest import Filled, routes_of

JSON = {"Accept": "application/json"}
OPEN = ("/static/", "/healthz", "/livez", "/sign-in", "/sign-out/done")
"""What anybody may read where people sign in: no measurement and nothing that people keep is there."""
BY_VIEWERS = {"/sign-out", "/shortcuts", "/short", "/sessions/end-others", "/sessions/{key}/end"}
"""What viewers do: it adds to what people store, or ends their own sessions."""
WRITERS = {editing_testbed, administering_testbed, administering}
SIGNED = {"/ingest"}
"""Where machines prove by a signature who they are."""
FILE = b'--x\r\nContent-Disposition: form-data; name="csrf"; filename="f"\r\n\r\n\r\n--x--'
SAFE = {"GET", "HEAD", "OPTIONS"}


def guards(route: APIRoute) -> set[Any]:
    found, left = set(), [route.dependant]
    while left:
        dependant = left.pop()
        found.add(dependant.call)
        left.extend(dependant.dependencies)
    return found


def test_all_endpoints_are_looked_at(site: AppContext) -> None:
    app = make_app(site)

    assert set(app.openapi()["paths"]) <= {route.path for route in routes_of(app)}
    assert len(routes_of(app)) > 5


def test_whatever_changes_something_needs_an_editor(site: AppContext) -> None:
    unguarded = [
        f"{sorted(route.methods)} {route.path}"
        for route in routes_of(make_app(site))
        if not route.methods <= SAFE | ({"POST"} if route.path in SIGNED else set())
        and not guards(route) & ({viewing} if route.path in BY_VIEWERS else WRITERS)
    ]

    assert [] == unguarded


def test_whatever_shows_something_needs_a_viewer(site: AppContext) -> None:
    unguarded = [
        route.path
        for route in routes_of(make_app(site))
        if route.methods & SAFE
        and not guards(route) & {viewing, *WRITERS}
        and not route.path.startswith(OPEN)
    ]

    assert [] == unguarded


@pytest.mark.parametrize("path", sorted(SIGNED))
def test_what_is_signed_is_refused_without_a_signature(client: TestClient, path: str) -> None:
    assert client.post(path, json={}).status_code in {401, 403}


def unsafe(app: Any) -> list[tuple[str, str]]:
    """Return method and address of all that changes something, with something in its path."""
    return [
        (method, re.sub(r"{(\w+)}", lambda name: "0" * 12 if name[1] == "key" else "1", route.path))
        for route in routes_of(app)
        for method in sorted(route.methods - SAFE)
        if route.path not in SIGNED
    ]


@pytest.mark.parametrize("body", [{"json": {}}, {"data": {"csrf": "x"}}, {"content": b""}], ids=str)
def test_whatever_changes_something_is_refused_without_the_token_of_a_form(
    admin: TestClient, filled: Filled, tmp_path: Path, body: dict[str, Any]
) -> None:
    """Ada may do all of it. Her browser sends her cookie with whatever another page lets it send."""
    before = all_of(tmp_path)
    answers = {
        f"{method} {path}": admin.request(method, path, headers=JSON, **body).json()
        for method, path in unsafe(admin.app)
    }

    assert len(answers) > 15
    assert {} == {
        place: told
        for place, told in answers.items()
        if "form is from another site" not in told.get("error", "")
    }
    assert before == all_of(tmp_path)


def all_of(folder: Path) -> list[str]:
    """Return everything that the store has, as text."""
    with closing(sqlite3.connect(folder / "store.sqlite")) as connection:
        return list(connection.iterdump())


@pytest.fixture
def private(settings: Settings, site: AppContext) -> Iterator[TestClient]:
    """Give a client who has not said who they are, where people have to."""
    chosen = settings.dashboard.model_copy(
        update={"oidc_issuer": "https://idp.example", "oidc_client_id": "perftrend"}
    )
    closed = AppContext.of(settings.model_copy(update={"dashboard": chosen}), site.store)
    with TestClient(make_app(closed), base_url="http://localhost", follow_redirects=False) as opened:
        yield opened


def test_whom_nobody_knows_is_shown_nothing(private: TestClient) -> None:
    app: Any = private.app
    answers = {
        route.path: private.get(route.path, headers=JSON).status_code
        for route in routes_of(app)
        if "GET" in route.methods and "{" not in route.path and not route.path.startswith(OPEN)
    }

    assert {401} == set(answers.values()), answers


def test_viewer_may_read_and_do_no_more(client: TestClient) -> None:
    assert 200 == client.get("/activity").status_code
    assert 401 == client.get("/users", headers=JSON).status_code
    assert 401 == client.post("/users/tokens", json={"name": "x"}, headers=JSON).status_code


def test_editor_is_no_admin(editor: TestClient, token: str) -> None:
    answer = editor.post("/users/tokens", json={"name": "x"}, headers={**JSON, "X-CSRF-Token": token})

    assert (403, "this requires the role admin, and your role is editor") == (
        answer.status_code,
        answer.json()["error"],
    )
    assert [] == site_of(editor).store.tokens.all()


@pytest.fixture
def admin_token(admin: TestClient) -> str:
    return token_of(admin)


def test_form_of_ours_is_taken(admin: TestClient, admin_token: str) -> None:
    assert 201 == admin.post("/users/tokens", data={"csrf": admin_token, "name": "x"}).status_code
    assert (
        201
        == admin.post("/users/tokens", json={"name": "x"}, headers={"X-CSRF-Token": admin_token}).status_code
    )


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost.evil.example"},
        {"Origin": "http://localhost:81"},
        {"Origin": "http://[localhost"},
        {"Origin": "http://localhost", "Sec-Fetch-Site": "cross-site"},
    ],
    ids=str,
)
def test_request_from_elsewhere_is_refused_whatever_token_it_has(
    admin: TestClient, admin_token: str, headers: dict[str, str]
) -> None:
    answer = admin.post("/users/tokens", data={"csrf": admin_token, "name": "x"}, headers=headers)

    assert 403 == answer.status_code
    assert [] == site_of(admin).store.tokens.all()


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://localhost"}, {"Sec-Fetch-Site": "same-origin"}], ids=str
)
def test_request_from_here_is_taken(admin: TestClient, admin_token: str, headers: dict[str, str]) -> None:
    assert (
        201
        == admin.post("/users/tokens", data={"csrf": admin_token, "name": "x"}, headers=headers).status_code
    )


def test_other_site_writes_nothing_even_for_nobody(client: TestClient) -> None:
    """On a machine of one person nobody signs in, and a page elsewhere could still send a form."""
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
        answer = client.post("/short", data={"url": "/explore?q="}, headers={**JSON, **headers})

        assert 403 == answer.status_code
        assert "from another site" in answer.json()["error"]


@pytest.mark.parametrize("token", ["", "x", "W10.x", "é", "a" * 9000])
def test_form_without_the_right_token_is_refused(admin: TestClient, token: str) -> None:
    assert 403 == admin.post("/users/tokens", data={"csrf": token, "name": "x"}).status_code


def test_form_of_another_session_is_refused(admin: TestClient, token: str) -> None:
    """The token of Eva's session; and even one of another session of Ada."""
    authenticator = authenticator_of(admin)
    others = authenticator.csrf.token(authenticator.sessions.begin(Person("ada")).bound)

    for wrong in (token, others, authenticator.csrf.token("")):
        assert 403 == admin.post("/users/tokens", data={"csrf": wrong, "name": "x"}).status_code


def test_token_in_the_address_counts_for_nothing(admin: TestClient, admin_token: str) -> None:
    answer = admin.post("/users/tokens", params={"csrf": admin_token}, data={"name": "x"})

    assert 403 == answer.status_code


def test_each_form_has_another_token_that_holds(admin: TestClient) -> None:
    authenticator, found = authenticator_of(admin), {token_of(admin) for _ in range(10)}

    assert 10 == len(found)
    assert all(authenticator.csrf.is_ours(each, session_of(admin)) for each in found)


def test_page_carries_the_token_of_who_reads_it(admin: TestClient, client: TestClient) -> None:
    page = admin.get("/users").text
    token = page.partition('name="csrf" value="')[2].partition('"')[0]

    assert authenticator_of(admin).csrf.is_ours(token, session_of(admin))
    assert 'name="csrf"' not in client.get("/activity").text


def site_of(client: TestClient) -> AppContext:
    app: Any = client.app
    site: AppContext = app.state.site
    return site


def authenticator_of(client: TestClient) -> Authenticator:
    app: Any = client.app
    authenticator: Authenticator = app.state.authenticator
    return authenticator


def session_of(client: TestClient) -> str:
    authenticator = authenticator_of(client)
    session = authenticator.sessions.find(client.cookies[authenticator.session_cookie])
    assert session is not None
    return session.bound


def token_of(client: TestClient) -> str:
    return authenticator_of(client).csrf.token(session_of(client))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=x", b"--x\r\nbroken"),
        ("multipart/form-data; boundary=" + "x" * 300, b"--x--"),
        ("application/x-www-form-urlencoded", b"\xff=%ff&csrf=%zz&" + b"a&" * 2000),
        ("application/x-www-form-urlencoded; charset=utf-7", b"csrf=+AD4-"),
        ("application/json", b"{"),
        ("", b"csrf=x"),
        ("multipart/form-data; boundary=x", FILE),
    ],
)
def test_broken_form_is_refused(admin: TestClient, kind: str, body: bytes) -> None:
    answer = admin.post("/sign-out", content=body, headers={"Content-Type": kind})

    assert answer.status_code in {400, 403}
    assert admin.get("/me", headers=JSON).json()["signed_in"]

"""``/sessions``: users list and end their own sessions, and admins those of everyone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext, make_app
from perftrend.dashboard.auth import Authenticator, Person
from perftrend.store.access import StoredSession
from tests.unit.dashboard.conftest import token_of

JSON = {"Accept": "application/json"}


@pytest.fixture
def browser(site: AppContext) -> Iterator[Callable[[str], TestClient]]:
    """Return browsers of one dashboard, each with a session of its own."""
    app = make_app(site)
    authenticator: Authenticator = app.state.authenticator
    with ExitStack() as stack:

        def signed_in(name: str) -> TestClient:
            session = authenticator.sessions.begin(
                Person(name), browser="Firefox on Linux", address="192.0.2.7"
            )
            cookies = {authenticator.session_cookie: session.cookie}
            client = TestClient(app, base_url="http://localhost", follow_redirects=False, cookies=cookies)
            return stack.enter_context(client)

        yield signed_in


def listed(client: TestClient) -> Any:
    return client.get("/sessions", headers=JSON).json()


def send(client: TestClient, path: str, *, token: str | None = None) -> Any:
    form = {"csrf": token_of(client) if token is None else token}
    return client.post(f"/sessions/{path}", data=form, headers=JSON)


def key_of(client: TestClient) -> str:
    [current] = [each["key"] for each in listed(client)["own"] if each["current"]]
    return str(current)


def name_of(client: TestClient) -> str:
    return str(client.get("/me", headers=JSON).json()["name"])


def test_user_sees_only_own_sessions(browser: Callable[[str], TestClient]) -> None:
    first, _, _ = browser("eva"), browser("eva"), browser("ada")

    found = listed(first)

    assert ([False, True], []) == (sorted(each["current"] for each in found["own"]), found["others"])
    assert ("eva", "Firefox on Linux", "192.0.2.7") == tuple(
        found["own"][0][name] for name in ("person", "browser", "address")
    )


def test_admin_sees_those_of_everyone(browser: Callable[[str], TestClient]) -> None:
    admin, _, _ = browser("ada"), browser("eva"), browser("otto")

    found = listed(admin)

    assert ([True], ["eva", "otto"]) == (
        [each["current"] for each in found["own"]],
        sorted(each["person"] for each in found["others"]),
    )


def test_ended_session_is_over_at_the_next_request(
    browser: Callable[[str], TestClient], site: AppContext
) -> None:
    here, there = browser("eva"), browser("eva")
    # The page is in the response cache when the session ends.
    assert "Sign out" in there.get("/runs").text

    assert {"ended": 1} == send(here, f"{key_of(there)}/end").json()

    assert ("eva", "nobody") == (name_of(here), name_of(there))
    assert "Sign out" not in there.get("/runs").text
    assert [("eva", "ended", "session of eva")] == [
        (each.user, each.action, each.subject) for each in site.store.activity.newest(9)
    ]


def test_user_ends_all_other_sessions_of_their_own(browser: Callable[[str], TestClient]) -> None:
    here, there, again, other = (browser(name) for name in ("eva", "eva", "eva", "ada"))

    assert {"ended": 2} == send(here, "end-others").json()

    assert ["eva", "nobody", "nobody", "ada"] == [name_of(each) for each in (here, there, again, other)]


def test_user_does_not_end_sessions_of_others(browser: Callable[[str], TestClient]) -> None:
    editor, admin = browser("eva"), browser("ada")
    key = key_of(admin)

    assert (404, 403) == (
        send(editor, f"{key}/end").status_code,
        send(editor, "end-all").status_code,
    )
    assert "ada" == name_of(admin)


def test_admin_ends_sessions_of_others_and_remains(browser: Callable[[str], TestClient]) -> None:
    admin, editor, viewer = browser("ada"), browser("eva"), browser("otto")
    assert {"ended": 1} == send(admin, f"{key_of(editor)}/end").json()
    assert ["nobody", "otto"] == [name_of(editor), name_of(viewer)]

    assert {"ended": 1} == send(admin, "end-all").json()

    assert ["ada", "nobody"] == [name_of(admin), name_of(viewer)]


def test_end_of_the_current_session_deletes_its_cookie(browser: Callable[[str], TestClient]) -> None:
    client = browser("eva")
    answer = client.post(f"/sessions/{key_of(client)}/end", data={"csrf": token_of(client)})

    assert (303, "/sessions") == (answer.status_code, answer.headers["location"])
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert "nobody" == name_of(client)


@pytest.mark.parametrize("path", ["end-others", "end-all", f"{'0' * 64}/end"])
@pytest.mark.parametrize("token", ["", "x", "W10.x"])
def test_forged_form_ends_nothing(browser: Callable[[str], TestClient], path: str, token: str) -> None:
    admin, other = browser("ada"), browser("ada")

    assert 403 == send(admin, path, token=token).status_code
    assert "ada" == name_of(other)


@pytest.mark.parametrize("key", ["0" * 64, "0" * 63, "x", "..%2f..", "%00", "A" * 64])
def test_unknown_session_is_not_ended(browser: Callable[[str], TestClient], key: str) -> None:
    assert send(browser("ada"), f"{key}/end").status_code in {404, 422}


def test_page_has_a_form_for_each_other_session(browser: Callable[[str], TestClient]) -> None:
    admin, _, editor = browser("ada"), browser("ada"), browser("eva")

    page = admin.get("/sessions").text

    assert (2, 1, 1) == tuple(
        page.count(part) for part in ('/end"', "/sessions/end-others", "/sessions/end-all")
    )
    assert 2 == len(
        re.findall(r'<button aria-label="End (ada|eva), Firefox on Linux, since [^"]+">End<', page)
    )
    assert "/sessions/end-all" not in editor.get("/sessions").text


def test_text_of_a_hostile_store_is_escaped(browser: Callable[[str], TestClient], site: AppContext) -> None:
    admin = browser("ada")
    [own] = site.store.sessions.all()
    hostile = "<script>x()</script>"
    stored = StoredSession("b" * 64, hostile, (), own.begun, own.used, hostile, hostile)
    site.store.sessions.add(stored, begun_before=own.begun, used_before=own.used)

    assert "<script>x" not in admin.get("/sessions").text


def test_anonymous_user_has_no_sessions(client: TestClient) -> None:
    assert {"own": [], "others": []} == listed(client)
    assert "You are not signed in" in client.get("/sessions").text

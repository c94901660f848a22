"""Users of the dashboard's own machine are editors as long as nobody else can reach it."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext, make_app
from perftrend.dashboard.auth.authentication import has_local_editors, notices
from perftrend.dashboard.auth.users import LOCAL, is_name
from perftrend.settings import Settings
from perftrend.store import Store

HERE, THERE = ("127.0.0.1", 50000), ("192.0.2.7", 50000)
NOTE = {"commit": "0123abcd", "text": "a new compiler", "testbed": ""}


def load(**overrides: Any) -> Settings:
    given = {f"dashboard.{name}": value for name, value in overrides.items()}
    return Settings.load(environment={}, overrides=given)


def annotate(
    store: Store,
    settings: Settings,
    peer: tuple[str, int] = HERE,
    headers: dict[str, str] | None = None,
) -> int:
    app = make_app(AppContext.of(settings, store))
    with TestClient(app, base_url="http://127.0.0.1:8080", client=peer, follow_redirects=False) as client:
        answer = client.post(
            "/annotations", json=NOTE, headers={"Accept": "application/json", **(headers or {})}
        )
    return answer.status_code


def test_user_of_this_machine_edits_and_is_recorded(store: Store) -> None:
    assert 201 == annotate(store, load())
    assert [LOCAL] == [each.user for each in store.activity.newest(5)]


def test_form_of_the_page_is_accepted(store: Store) -> None:
    app = make_app(AppContext.of(load(), store))
    with TestClient(app, base_url="http://127.0.0.1:8080", client=HERE, follow_redirects=False) as client:
        assert "Annotate" in client.get("/annotations").text
        headers = {"Origin": "http://127.0.0.1:8080", "Sec-Fetch-Site": "same-origin"}
        assert 303 == client.post("/annotations", data={**NOTE, "csrf": ""}, headers=headers).status_code


@pytest.mark.parametrize("peer", [THERE, ("testclient", 5)])
def test_other_machine_may_only_read(store: Store, peer: tuple[str, int]) -> None:
    assert annotate(store, load(), peer) in {401, 403}
    assert [] == store.activity.newest(5)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example.org"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:3000"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"X-Forwarded-For": "192.0.2.7"},
        {"X-Real-IP": "192.0.2.7"},
        {"Forwarded": "for=192.0.2.7"},
        {"Via": "1.1 proxy"},
    ],
)
def test_other_site_and_proxy_are_refused(store: Store, headers: dict[str, str]) -> None:
    assert annotate(store, load(), headers=headers) in {401, 403}
    assert [] == store.activity.newest(5)


@pytest.mark.parametrize(
    "chosen",
    [
        {"local_editor": False},
        {"url": "https://perf.example.org"},
        {"hosts": "perf.example.org"},
        {"proxies": "127.0.0.1"},
        {"public": True},
        {"address": "0.0.0.0:8080"},
        {"address": "192.0.2.1:8080"},
        {"oidc_issuer": "https://login.example.org", "oidc_client_id": "perftrend"},
    ],
)
def test_nobody_is_an_editor_if_others_may_reach_it(store: Store, chosen: dict[str, Any]) -> None:
    settings = load(**chosen)
    assert not has_local_editors(settings.dashboard)
    assert not any("may edit" in line for line in notices(settings.dashboard))


@pytest.mark.parametrize("address", ["127.0.0.1:8080", "localhost:80", "[::1]:8080", "127.3.2.1:8080"])
def test_operator_reads_that_users_may_edit(address: str) -> None:
    chosen = load(address=address).dashboard
    assert has_local_editors(chosen)
    assert any("local_editor" in line for line in notices(chosen))


def test_nobody_can_sign_in_under_that_name() -> None:
    assert not is_name(LOCAL)

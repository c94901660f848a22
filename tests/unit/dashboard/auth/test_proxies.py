"""Headers of proxies are trusted only from the addresses in the settings."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from prometheus_client import Counter
from starlette.requests import Request
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext, make_app
from perftrend.dashboard.auth import notices
from perftrend.dashboard.auth.authentication import Proxies
from perftrend.errors import SettingsError
from perftrend.settings import DashboardSettings, Settings
from perftrend.store import Store

JSON = {"Accept": "application/json"}
EVA = {**JSON, "X-User": "eva", "X-Groups": "all, ops"}
COUNTER = "perftrend_dashboard_ignored_user_headers_total"


@contextmanager
def client(store: Store, peer: str = "10.1.2.3", **changed: Any) -> Iterator[TestClient]:
    """Give a client whose connection comes from an address."""
    chosen = {
        "proxies": "10.1.2.0/24 2001:db8::1",
        "user_header": "X-User",
        "groups_header": "X-Groups",
        "editors": "eva",
        "admins": "group:ops",
        **changed,
    }
    app = make_app(AppContext.of(Settings.model_validate({"dashboard": chosen}), store))
    with TestClient(app, base_url="http://localhost", follow_redirects=False, client=(peer, 40000)) as opened:
        yield opened


def name_and_role(opened: TestClient, headers: Any) -> tuple[int, str, str]:
    answer = opened.get("/me", headers=headers)
    told = answer.json()
    return answer.status_code, told.get("name", ""), told.get("role", "")


def ignored(opened: TestClient) -> float:
    app: Any = opened.app
    return app.state.site.metrics.registry.get_sample_value(COUNTER) or 0.0


@pytest.mark.parametrize("peer", ["10.1.2.3", "10.1.2.255", "2001:db8::1", "::ffff:10.1.2.3"])
def test_trusted_proxy_tells_who_somebody_is(store: Store, peer: str) -> None:
    with client(store, peer) as opened:
        assert (200, "eva", "admin") == name_and_role(opened, EVA)
        assert (200, "eva", "editor") == name_and_role(opened, {**JSON, "X-User": "eva"})
        assert 0 == ignored(opened)


@pytest.mark.parametrize(
    "peer", ["10.1.3.3", "127.0.0.1", "::1", "2001:db8::2", "testclient", "::ffff:10.1.3.3"]
)
def test_header_from_elsewhere_counts_for_nothing(
    store: Store, peer: str, caplog: pytest.LogCaptureFixture
) -> None:
    with client(store, peer) as opened, caplog.at_level(logging.WARNING):
        assert 401 == opened.get("/me", headers=EVA).status_code
        assert 1 == ignored(opened)

    assert [f"header X-User from {peer} is ignored: it does not come from one of dashboard.proxies"] == [
        record.getMessage() for record in caplog.records if "ignored" in record.getMessage()
    ]


def test_forwarded_address_is_not_where_a_request_comes_from(store: Store) -> None:
    """Anybody can write that they came by way of the proxy."""
    with client(store, "203.0.113.9") as opened:
        forged = {**EVA, "X-Forwarded-For": "10.1.2.3", "Forwarded": "for=10.1.2.3", "X-Real-IP": "10.1.2.3"}

        assert 401 == opened.get("/me", headers=forged).status_code


def test_header_that_is_there_twice_is_not_believed(store: Store) -> None:
    """The proxy has added its own to the one that the client wrote."""
    with client(store) as opened:
        twice = [("Accept", "application/json"), ("X-User", "ada"), ("X-User", "eva")]

        assert 401 == opened.get("/me", headers=twice).status_code
        assert 1 == ignored(opened)


def test_groups_that_are_there_twice_are_not_believed(store: Store) -> None:
    with client(store) as opened:
        twice = [("Accept", "application/json"), ("X-User", "eva"), ("X-Groups", "ops"), ("X-Groups", "all")]

        assert (200, "eva", "editor") == name_and_role(opened, twice)


@pytest.mark.parametrize(
    "name", [b"token nightly", b"nobody", b"group:ops", b"x" * 201, b"a\x7fb", b"\xc2\x9b31m"]
)
def test_what_cannot_be_a_name_is_not_believed(store: Store, name: bytes) -> None:
    with client(store) as opened:
        assert 401 == opened.get("/me", headers={b"accept": b"application/json", b"x-user": name}).status_code
        assert 1 == ignored(opened)


def test_name_may_have_letters_of_any_language(store: Store) -> None:
    with client(store) as opened:
        headers = {b"accept": b"application/json", b"x-user": "Zoë".encode()}

        assert (200, "Zoë", "viewer") == name_and_role(opened, headers)


def test_name_that_is_not_utf8_is_not_believed() -> None:
    counter = Counter("ignored", "", registry=None)
    proxies = Proxies(DashboardSettings(proxies=("10.1.2.3",), user_header="X-User"), counter)
    scope = {"type": "http", "client": ("10.1.2.3", 40000), "headers": [(b"x-user", b"\xff\xfe")]}

    assert proxies.person(Request(scope)) is None
    assert 1 == counter._value.get()


@pytest.mark.parametrize("name", ["", "  "])
def test_empty_header_is_nobody(store: Store, name: str) -> None:
    with client(store) as opened:
        assert 401 == opened.get("/me", headers={**JSON, "X-User": name}).status_code
        assert 0 == ignored(opened)


def test_header_counts_only_under_the_name_of_the_settings(store: Store) -> None:
    with client(store) as opened:
        for name in ("X-Forwarded-User", "Remote-User", "X_User", "X-User-"):
            assert 401 == opened.get("/me", headers={**JSON, name: "eva"}).status_code


def test_proxy_that_is_trusted_for_addresses_tells_no_users(store: Store) -> None:
    """Without ``user_header`` such a proxy may pass on whatever clients write."""
    with client(store, user_header=None, groups_header=None, public=True) as opened:
        assert (200, "nobody", "viewer") == name_and_role(opened, {**EVA, "X-Forwarded-User": "eva"})


def test_form_needs_its_token_behind_a_proxy_too(store: Store) -> None:
    """The proxy knows people by cookies of its own, which a page elsewhere can use as well."""
    with client(store) as opened:
        page = opened.get("/users", headers={**EVA, "Accept": "text/html"}).text
        token = page.partition('name="csrf" value="')[2].partition('"')[0]

        assert 403 == opened.post("/users/tokens", data={"name": "x"}, headers=EVA).status_code
        sent = {"name": "x", "csrf": token}
        assert 201 == opened.post("/users/tokens", data=sent, headers=EVA).status_code
        other = {**EVA, "X-User": "ada"}
        assert 403 == opened.post("/users/tokens", data=sent, headers=other).status_code


def test_who_is_signed_in_by_a_proxy_is_not_signed_out_here(store: Store) -> None:
    with client(store) as opened:
        assert "Sign out" not in opened.get("/activity", headers={**EVA, "Accept": "text/html"}).text


def test_proxy_that_is_no_address_is_refused(store: Store) -> None:
    chosen = DashboardSettings.model_validate({"proxies": "10.1.2.3/24", "user_header": "X-User"})

    with pytest.raises(SettingsError, match=r"dashboard\.proxies"):
        make_app(AppContext.of(Settings(dashboard=chosen), store))


def test_what_should_be_known_is_said() -> None:
    def said(**chosen: Any) -> str:
        return " / ".join(notices(DashboardSettings.model_validate(chosen)))

    assert "users of this machine may edit" in said()
    assert "users cannot sign in" in said(local_editor=False)
    assert "restart invalidates open forms" in said(oidc_issuer="https://idp.example", oidc_client_id="x")
    assert "" == said(oidc_issuer="https://idp.example", oidc_client_id="x", secret="x" * 32)
    assert "dashboard.user_header is ignored" in said(user_header="X-User")
    assert "10.1.2.3 may name the user" in said(user_header="X-User", proxies="10.1.2.3", secret="x" * 32)

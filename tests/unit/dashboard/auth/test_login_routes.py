"""Signing in and out, and attempts to bypass the provider."""

from __future__ import annotations

from collections.abc import Iterator
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
import pytest
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext, make_app
from perftrend.dashboard.auth import Authenticator
from perftrend.dashboard.auth.oidc import Provider
from perftrend.settings import Settings
from perftrend.store import Store
from tests.doubles.idp import ISSUER, OTHER, Idp

URL = "https://perf.example"
SESSION, ATTEMPT = "__Host-perftrend", "__Host-perftrend-sign-in"
JSON = {"Accept": "application/json"}
HTML = {"Accept": "text/html"}


def settings_with(**changed: Any) -> Settings:
    usual = {
        "url": URL,
        "secret": "0123456789abcdef0123456789abcdef",
        "oidc_issuer": ISSUER,
        "oidc_client_id": "perftrend",
        "admins": "group:ops",
        "editors": "alice",
    }
    return Settings.model_validate({"dashboard": usual | changed})


@pytest.fixture
def settings() -> Settings:
    return settings_with()


@pytest.fixture
def browser(site: AppContext, idp: Idp) -> Iterator[TestClient]:
    with opened(site, idp) as client:
        yield client


def opened(site: AppContext, idp: Idp, url: str = URL) -> TestClient:
    app = make_app(site)
    authenticator: Authenticator = app.state.authenticator
    authenticator.provider = Provider(site.settings.dashboard, adapter=lambda: idp)
    return TestClient(app, base_url=url, follow_redirects=False)


def sent_to_provider(browser: TestClient, idp: Idp, place: str = "/") -> str:
    """Begin to sign in; return the state that the provider gives back."""
    answer = browser.get("/sign-in", params={"next": place})
    assert 303 == answer.status_code
    told = parse_qs(urlsplit(answer.headers["location"]).query)
    idp.nonce = told["nonce"][0]
    return told["state"][0]


def sign_in(browser: TestClient, idp: Idp, place: str = "/") -> httpx.Response:
    state = sent_to_provider(browser, idp, place)
    return browser.get("/sign-in/done", params={"code": "c", "state": state})


def me(browser: TestClient) -> Any:
    return browser.get("/me", headers=JSON).json()


def csrf(browser: TestClient) -> str:
    authenticator: Authenticator = browser.app.state.authenticator  # type: ignore[attr-defined]
    session = authenticator.sessions.find(browser.cookies[SESSION])
    return authenticator.csrf.token(session.bound if session else "")


def test_person_signs_in_and_comes_to_the_page_that_they_wanted(browser: TestClient, idp: Idp) -> None:
    answer = sign_in(browser, idp, "/runs?last=5")

    assert (303, "/runs?last=5") == (answer.status_code, answer.headers["location"])
    assert {"name": "alice", "role": "editor", "signed_in": True, "testbeds": {}} == me(browser)


def test_groups_give_roles(browser: TestClient, idp: Idp) -> None:
    idp.claims["groups"] = ["ops"]
    sign_in(browser, idp)

    assert "admin" == me(browser)["role"]


def test_cookie_is_kept_from_scripts_other_sites_and_the_network(browser: TestClient, idp: Idp) -> None:
    answer = sign_in(browser, idp)

    [cookie] = [
        SimpleCookie(line)[SESSION]
        for line in answer.headers.get_list("set-cookie")
        if line.startswith(SESSION + "=")
    ]
    assert (True, True, "lax", "/", "", "") == (
        cookie["httponly"],
        cookie["secure"],
        cookie["samesite"],
        cookie["path"],
        cookie["domain"],
        cookie["max-age"],
    )


def test_cookie_of_plain_http_has_another_name(idp: Idp, store: Store) -> None:
    with opened(AppContext.of(settings_with(url=None), store), idp, "http://localhost") as browser:
        answer = sign_in(browser, idp)

        assert {"perftrend", "perftrend-sign-in"} == {
            line.partition("=")[0] for line in answer.headers.get_list("set-cookie")
        }
        assert "secure" not in str(answer.headers.get_list("set-cookie")).lower()
        assert me(browser)["signed_in"]


def test_page_asks_who_somebody_is_and_a_program_is_told(browser: TestClient) -> None:
    page = browser.get("/runs?last=5", headers=HTML)
    told = browser.get("/runs?last=5", headers=JSON)

    assert (303, "/sign-in?next=%2Fruns%3Flast%3D5") == (page.status_code, page.headers["location"])
    assert (401, "Bearer") == (told.status_code, told.headers["www-authenticate"])
    for way in (
        "sign in at /sign-in",
        "Authorization: Bearer TOKEN",
        "/users",
        "./run dashboard --new-token",
    ):
        assert way in told.json()["error"]


@pytest.mark.parametrize(
    "place", ["https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example"]
)
def test_nobody_is_led_elsewhere(browser: TestClient, idp: Idp, place: str) -> None:
    assert "/" == sign_in(browser, idp, place).headers["location"]


def test_headers_cannot_be_written_through_the_place(browser: TestClient, idp: Idp) -> None:
    answer = sign_in(browser, idp, "/\r\nSet-Cookie: __Host-perftrend=x")

    assert "/" == answer.headers["location"]
    assert "perftrend=x" not in str(answer.headers)


def test_state_is_good_for_once(browser: TestClient, idp: Idp) -> None:
    state = sent_to_provider(browser, idp)
    kept = browser.cookies[ATTEMPT]
    assert 303 == browser.get("/sign-in/done", params={"code": "c", "state": state}).status_code

    browser.cookies.clear()
    browser.cookies.set(ATTEMPT, kept)
    again = browser.get("/sign-in/done", params={"code": "c", "state": state})

    assert 400 == again.status_code
    assert SESSION not in again.cookies


def test_sign_in_that_somebody_else_began_is_refused(site: AppContext, idp: Idp, browser: TestClient) -> None:
    """A link with a stranger's code would let a victim work as that stranger."""
    with opened(site, idp) as stranger:
        state = sent_to_provider(stranger, idp)
    sent_to_provider(browser, idp)

    answer = browser.get("/sign-in/done", params={"code": "c", "state": state})

    assert 400 == answer.status_code
    assert not [line for line in answer.headers.get_list("set-cookie") if line.startswith(SESSION)]


@pytest.mark.parametrize("sent", [{}, {"code": "c"}, {"state": "x", "code": "c"}, {"state": "", "code": ""}])
def test_coming_back_without_having_gone_is_refused(browser: TestClient, sent: dict[str, str]) -> None:
    assert 400 == browser.get("/sign-in/done", params=sent).status_code


def test_refusal_of_the_provider_is_told_without_its_words(browser: TestClient, idp: Idp) -> None:
    state = sent_to_provider(browser, idp)

    answer = browser.get(
        "/sign-in/done",
        params={"state": state, "error": "access_denied", "error_description": "call 555-1234"},
    )

    assert 403 == answer.status_code
    assert "555" not in answer.text


def test_nothing_is_kept_of_an_answer_that_is_not_to_be_believed(browser: TestClient, idp: Idp) -> None:
    idp.signed_by = OTHER
    answer = sign_in(browser, idp)

    assert 403 == answer.status_code
    assert SESSION not in browser.cookies


def test_provider_that_is_away_is_told(browser: TestClient, idp: Idp) -> None:
    idp.statuses["/.well-known/openid-configuration"] = 503

    answer = browser.get("/sign-in", headers=JSON)

    assert 502 == answer.status_code
    assert "does not answer" in answer.json()["error"]


def test_session_that_was_planted_is_not_taken_over(browser: TestClient, site: AppContext, idp: Idp) -> None:
    """Session fixation: who signs in gets a new session, whatever cookie they came with."""
    idp.claims["preferred_username"] = "mallory"
    with opened(site, idp) as mallory:
        sign_in(mallory, idp)
        planted = mallory.cookies[SESSION]
        browser.cookies.set(SESSION, planted, domain="perf.example")
        idp.claims["preferred_username"] = "alice"

        sign_in(browser, idp)

        assert planted not in [cookie.value for cookie in browser.cookies.jar]
        assert "alice" == me(browser)["name"]
        # The planted one was ended, so nobody goes on in it.
        assert 401 == mallory.get("/me", headers=JSON).status_code


def test_old_session_ends_when_somebody_signs_in_again(browser: TestClient, idp: Idp) -> None:
    sign_in(browser, idp)
    old = browser.cookies[SESSION]
    sign_in(browser, idp)
    browser.cookies.clear()
    browser.cookies.set(SESSION, old)

    assert 401 == browser.get("/me", headers=JSON).status_code


def test_who_signs_out_is_out_with_every_copy(browser: TestClient, idp: Idp) -> None:
    sign_in(browser, idp)
    copy = browser.cookies[SESSION]

    answer = browser.post("/sign-out", data={"csrf": csrf(browser)})

    assert (303, "/sign-out/done") == (answer.status_code, answer.headers["location"])
    assert SESSION not in browser.cookies
    browser.cookies.set(SESSION, copy)
    assert 401 == browser.get("/me", headers=JSON).status_code


def test_who_has_signed_out_is_not_sent_to_sign_in_again(browser: TestClient, idp: Idp) -> None:
    """The provider would let them in at once, without a word."""
    answer = browser.get("/sign-out/done", headers=HTML)

    assert 200 == answer.status_code
    assert "You are signed out" in answer.text
    assert 'href="/sign-in?next=/"' in answer.text
    assert "Refresh" not in answer.headers


def test_nobody_is_told_to_be_out_who_is_in(browser: TestClient, idp: Idp) -> None:
    sign_in(browser, idp)

    assert "You are signed in as alice" in browser.get("/sign-out/done", headers=HTML).text


def test_who_signs_out_is_led_to_sign_out_at_the_provider(browser: TestClient, idp: Idp) -> None:
    idp.metadata["end_session_endpoint"] = f"{ISSUER}/logout?tenant=7"
    sign_in(browser, idp)

    answer = browser.post("/sign-out", data={"csrf": csrf(browser)}, headers=HTML)

    assert (200, "no-store") == (answer.status_code, answer.headers["cache-control"])
    address = answer.headers["refresh"].removeprefix("0; url=")
    assert address.startswith(f"{ISSUER}/logout?")
    told = dict(parse_qsl(urlsplit(address).query))
    back = f"{URL}/sign-out/done"
    assert {"tenant": "7", "client_id": "perftrend", "post_logout_redirect_uri": back} == told
    assert "alice" not in answer.text
    assert SESSION not in browser.cookies


def test_program_is_told_where_to_sign_out(browser: TestClient, idp: Idp) -> None:
    idp.metadata["end_session_endpoint"] = f"{ISSUER}/logout"
    sign_in(browser, idp)

    told = browser.post("/sign-out", headers={**JSON, "X-CSRF-Token": csrf(browser)}).json()

    assert told["provider"].startswith(f"{ISSUER}/logout?client_id=perftrend")


@pytest.mark.parametrize(
    "place", ["http://idp.example/logout", "javascript:alert(1)", "/logout", ["x"]], ids=str
)
def test_place_to_sign_out_that_is_not_safe_is_left_alone(
    browser: TestClient, idp: Idp, place: object
) -> None:
    idp.metadata["end_session_endpoint"] = place
    sign_in(browser, idp)

    answer = browser.post("/sign-out", data={"csrf": csrf(browser)})

    assert (303, "/sign-out/done") == (answer.status_code, answer.headers["location"])
    assert SESSION not in browser.cookies


def test_who_signs_out_is_out_even_while_the_provider_is_away(
    site: AppContext, idp: Idp, browser: TestClient
) -> None:
    sign_in(browser, idp)
    idp.statuses["/.well-known/openid-configuration"] = 503
    with opened(site, idp) as restarted:
        restarted.cookies.set(SESSION, browser.cookies[SESSION], domain="perf.example")

        answer = restarted.post("/sign-out", data={"csrf": csrf(browser)})

        assert (303, "/sign-out/done") == (answer.status_code, answer.headers["location"])
    assert 401 == browser.get("/me", headers=JSON).status_code


def test_nobody_is_signed_out_by_another_site(browser: TestClient, idp: Idp) -> None:
    sign_in(browser, idp)

    assert 403 == browser.post("/sign-out").status_code
    assert 405 == browser.get("/sign-out").status_code
    assert me(browser)["signed_in"]


def test_who_is_no_longer_in_the_lists_loses_the_role_at_once(
    browser: TestClient, idp: Idp, store: Store
) -> None:
    sign_in(browser, idp)
    with opened(AppContext.of(settings_with(editors=()), store), idp) as later:
        later.cookies.set(SESSION, browser.cookies[SESSION])

        assert {"name": "alice", "role": "viewer", "signed_in": True, "testbeds": {}} == me(later)


def test_public_dashboard_is_read_by_everybody_and_changed_by_nobody(idp: Idp, store: Store) -> None:
    with opened(AppContext.of(settings_with(public=True), store), idp) as reader:
        assert 200 == reader.get("/runs", headers=HTML).status_code
        assert {"name": "nobody", "role": "viewer", "signed_in": False, "testbeds": {}} == me(reader)
        assert 'href="/sign-in?next=/runs%3Flast%3D5"' in reader.get("/runs?last=5", headers=HTML).text
        assert 303 == reader.get("/users", headers=HTML).status_code
        assert 401 == reader.post("/users/tokens", json={"name": "x"}, headers=JSON).status_code


def test_cookies_that_are_none_are_nobody(browser: TestClient) -> None:
    for cookie in ("x", "a.b", "", ".".join("abc"), "x" * 5000, "..", "W10.x"):
        answer = browser.get("/me", headers={**JSON, "Cookie": f"{SESSION}={cookie}"})
        assert 401 == answer.status_code

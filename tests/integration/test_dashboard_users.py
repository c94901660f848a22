"""Signing in at a real provider in a real browser, and attempts to bypass it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.integration.accessibility import violations
from tests.integration.servers import oidc
from tests.integration.servers.dashboard import PATIENCE_MS, Dashboard, fill, save_picture

SECRET = "0123456789abcdef0123456789abcdef"  # noqa: S105
JSON = {"Accept": "application/json"}
PHONE = {"width": 360, "height": 740}
OTHER_LOOPBACK = "127.0.0.2"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("store") / "store.sqlite"
    fill(place)
    return place


@pytest.fixture(scope="module")
def provider(shared_memory: None) -> Iterator[str]:
    """Run a provider that knows Alice, Ada and Otto."""
    with oidc.running(oidc.ALICE, oidc.ADA, oidc.OTTO) as url:
        yield url


def settings_at(provider: str) -> dict[str, Any]:
    return {
        "secret": SECRET,
        "oidc_issuer": provider,
        "oidc_client_id": "perftrend",
        "oidc_client_secret": "of the dashboard",
        "editors": ["group:perf"],
        "admins": ["group:ops"],
    }


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory, provider: str, store: Path) -> Iterator[Dashboard]:
    """Run a dashboard that people have to sign in to."""
    folder = tmp_path_factory.mktemp("private")
    with Dashboard(folder, settings=settings_at(provider), store=str(store)) as running:
        yield running


@contextmanager
def window(browser: Browser, dashboard: Dashboard, **options: Any) -> Iterator[Page]:
    """Give a page of a window that has signed in nowhere."""
    context = browser.new_context(base_url=dashboard.url, **options)
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()


def sign_in(page: Page, subject: str) -> None:
    """Choose a user at the provider, and wait until the next page has all its styles."""
    with page.expect_event("load"):
        page.get_by_role("button", name=subject, exact=True).click()


@contextmanager
def signed_in(dashboard: Dashboard, subject: str) -> Iterator[httpx.Client]:
    """Sign in without a browser."""
    with httpx.Client(base_url=dashboard.url, follow_redirects=True) as client:
        form = client.get("/sign-in")
        client.post(form.url, data={"sub": subject}).raise_for_status()
        yield client


def name_of(client: httpx.Client) -> str:
    """Return who the dashboard takes a client for."""
    return str(client.get("/me", headers=JSON).json().get("name"))


def test_person_signs_in_does_something_and_signs_out(
    browser: Browser, private: Dashboard, provider: str
) -> None:
    with window(browser, private) as page:
        page.goto("/runs?last=5")
        assert page.url.startswith(provider)
        sign_in(page, "1")

        expect(page).to_have_url(f"{private.url}/runs?last=5")
        you = page.get_by_role("navigation", name="Your account")
        expect(you).to_contain_text("alice")
        [cookie] = [each for each in page.context.cookies() if each["name"] == "perftrend"]
        assert (True, "Lax", -1) == (cookie["httpOnly"], cookie["sameSite"], cookie["expires"])
        save_picture(page, "users-signed-in")

        you.get_by_role("button", name="Sign out").click()
        # The provider asks, because nothing shows it who comes.
        page.wait_for_url(f"{provider}/oauth2/end_session**")
        assert f"{private.url}/sign-out/done" in page.content()
        page.get_by_role("button", name="End session").click()

        expect(page).to_have_url(f"{private.url}/sign-out/done")
        expect(page.get_by_role("main")).to_contain_text("You are signed out")
        save_picture(page, "users-signed-out")
        page.goto("/runs")
        assert page.url.startswith(provider)


def test_admin_makes_a_token_that_a_job_uses_and_revokes_it(browser: Browser, private: Dashboard) -> None:
    with window(browser, private) as page:
        page.goto("/users")
        sign_in(page, "2")
        page.get_by_label("Name").fill("nightly-2n-clx")
        form = page.locator("form").filter(has=page.get_by_role("button", name="Create token"))
        form.get_by_label("Role").select_option("editor")
        form.get_by_role("button").click()
        token = page.locator("#token").inner_text()
        save_picture(page, "users-token")
        bearer = {**JSON, "Authorization": f"Bearer {token}"}
        told = httpx.get(f"{private.url}/me", headers=bearer).json()
        assert {"name": "token nightly-2n-clx", "role": "editor", "signed_in": True, "testbeds": {}} == told

        page.get_by_role("link", name="Back to users").click()
        save_picture(page, "users")
        page.get_by_role("button", name="Revoke nightly-2n-clx").click()
        expect(page.get_by_text("by ada")).to_be_visible()
        assert 401 == httpx.get(f"{private.url}/me", headers=bearer).status_code

        page.goto("/activity")
        expect(page.get_by_role("row").filter(has_text="ada")).to_have_count(2)
        save_picture(page, "users-activity")


@pytest.mark.parametrize("path", ["/users", "/activity", "/me"])
def test_nothing_stands_in_the_way_of_anybody(browser: Browser, private: Dashboard, path: str) -> None:
    with window(browser, private) as page:
        page.goto(path)
        sign_in(page, "2")
        assert [] == violations(page)


def test_admin_needs_neither_scripts_nor_a_wide_window(browser: Browser, private: Dashboard) -> None:
    with window(browser, private, java_script_enabled=False, viewport=PHONE) as page:
        page.goto("/users")
        sign_in(page, "2")
        page.get_by_label("Name").fill("on-a-phone")
        page.get_by_label("Name").press("Enter")
        assert re.fullmatch(r"perftrend_[0-9a-f]{12}_[\w-]{43}", page.locator("#token").inner_text())

        for path in ("/users", "/activity"):
            page.goto(path)
            save_picture(page, f"users{path.replace('/', '-')}-narrow")
            expect(page.get_by_text("on-a-phone").first).to_be_visible()
            wide, wanted = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            assert wide <= wanted


def test_viewer_sees_and_changes_nothing(browser: Browser, private: Dashboard) -> None:
    with window(browser, private) as page:
        page.goto("/users")
        sign_in(page, "3")

        expect(page.get_by_role("alert")).to_contain_text("this requires the role admin")
        page.goto("/runs")
        expect(page.get_by_role("navigation", name="Your account")).to_contain_text("otto")


def test_page_elsewhere_sends_a_form_in_vain(browser: Browser, private: Dashboard, store: Path) -> None:
    """Ada is signed in, and opens a page of somebody who wants a token in her name."""
    with window(browser, private) as page:
        page.goto("/users")
        sign_in(page, "2")
        before = tokens(store)
        host = urlsplit(private.url)
        page.route(
            "**/evil",
            lambda route: route.fulfill(
                content_type="text/html",
                body=f'<form method="post" action="{private.url}/users/tokens">'
                '<input name="name" value="stolen"><button>You have won</button></form>',
            ),
        )
        # The same host at another port is the same site: there the browser sends her cookie.
        for elsewhere in (f"http://{host.hostname}:1024/evil", "http://evil.example/evil"):
            page.goto(elsewhere)
            with page.expect_response("**/users/tokens") as answer:
                page.get_by_role("button").click()
            assert answer.value.status in {401, 403}

        assert before == tokens(store)


def test_whole_way_without_a_browser(private: Dashboard) -> None:
    with signed_in(private, "1") as client:
        assert {"name": "alice", "role": "editor", "signed_in": True, "testbeds": {}} == client.get(
            "/me", headers=JSON
        ).json()


def test_code_and_state_are_good_for_once(private: Dashboard) -> None:
    with httpx.Client(base_url=private.url, follow_redirects=False) as client:
        to_provider = client.get("/sign-in").headers["location"]
        back = client.post(to_provider, data={"sub": "1"}).headers["location"]
        kept = dict(client.cookies)
        assert 303 == client.get(back).status_code

    with httpx.Client(base_url=private.url, cookies=kept, follow_redirects=False) as thief:
        answer = thief.get(back)
        assert (400, []) == (answer.status_code, answer.headers.get_list("set-cookie"))


def test_code_of_one_attempt_is_worth_nothing_in_another(private: Dashboard) -> None:
    """The provider's answer holds the nonce of Alice's attempt, not of the thief's."""
    with httpx.Client(base_url=private.url, follow_redirects=False) as alice:
        stolen = alice.post(alice.get("/sign-in").headers["location"], data={"sub": "1"}).headers["location"]
        code = parse_qs(urlsplit(stolen).query)["code"][0]

    with httpx.Client(base_url=private.url, follow_redirects=False) as thief:
        state = parse_qs(urlsplit(thief.get("/sign-in").headers["location"]).query)["state"][0]
        answer = thief.get("/sign-in/done", params={"code": code, "state": state})

        assert 403 == answer.status_code
        assert "perftrend" not in thief.cookies


def test_refusal_at_the_provider_is_told(browser: Browser, private: Dashboard) -> None:
    with window(browser, private) as page:
        page.goto("/sign-in")
        address = page.url
        page.get_by_role("button", name="Deny").click()
        # This provider forgets to give the state back, which is as good as no answer.
        page.wait_for_url(lambda url: url != address)
        expect(page.get_by_role("alert")).to_contain_text("sign in again")


@pytest.mark.usefixtures("shared_memory")
def test_new_keys_of_the_provider_are_taken(tmp_path: Path, store: Path) -> None:
    with oidc.running(oidc.ALICE) as url:
        dashboard = Dashboard(tmp_path, settings=settings_at(url), store=str(store))
        dashboard.start()
        with signed_in(dashboard, "1") as client:
            assert "alice" == name_of(client)
    # The same provider with other keys, as far as the dashboard can see.
    with oidc.running(oidc.ALICE, port=urlsplit(url).port or 0), signed_in(dashboard, "1") as client:
        assert "alice" == name_of(client)
    dashboard.stop()


def test_session_outlives_a_restart_where_there_is_a_secret(
    tmp_path: Path, provider: str, store: Path
) -> None:
    dashboard = Dashboard(tmp_path, settings=settings_at(provider), store=str(store))
    dashboard.start()
    with signed_in(dashboard, "1") as client:
        dashboard.stop()
        dashboard.start(urlsplit(dashboard.url).netloc)

        assert "alice" == name_of(client)
    dashboard.stop()


def test_header_counts_from_the_proxy_alone(tmp_path: Path, store: Path) -> None:
    """The proxy is one address of this machine, somebody who would like to be it another one."""
    settings = {"proxies": [OTHER_LOOPBACK], "user_header": "X-User", "admins": ["ada"]}
    forged = {**JSON, "X-User": "ada", "X-Forwarded-For": OTHER_LOOPBACK, "X-Forwarded-User": "ada"}
    with Dashboard(tmp_path, settings=settings, store=str(store)) as dashboard:
        with coming_from("127.0.0.1", dashboard) as stranger:
            assert 401 == stranger.get("/me", headers=forged).status_code
        with coming_from(OTHER_LOOPBACK, dashboard) as proxy:
            assert "admin" == proxy.get("/me", headers=forged).json()["role"]
            metrics = proxy.get("/metrics", headers=forged).text

    assert "perftrend_dashboard_ignored_user_headers_total 1.0" in metrics
    assert [line for line in dashboard.said if "X-User from 127.0.0.1 is ignored" in line]


def coming_from(address: str, dashboard: Dashboard) -> httpx.Client:
    """Return a client whose connections begin at an address of this machine."""
    return httpx.Client(base_url=dashboard.url, transport=httpx.HTTPTransport(local_address=address))


def tokens(store: Path) -> list[Any]:
    with closing(sqlite3.connect(store)) as connection:
        return connection.execute("SELECT key, revoked FROM tokens").fetchall()

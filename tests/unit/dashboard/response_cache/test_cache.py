"""Cached responses are right for each user, and never those of another user."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext, make_app
from perftrend.dashboard.auth import Authenticator, Person, Role
from perftrend.dashboard.auth.authentication import new_token
from perftrend.dashboard.response_cache.cache_key import NAME, TOKEN
from perftrend.errors import StoreError
from perftrend.settings import Settings
from perftrend.store import Store
from tests.unit.dashboard.conftest import Filled, commit

COMMIT = commit(7)
MARK = "evil.example"
PAGES = ("/explore", "/triage", "/clusters", "/compare", "/annotations", "/runs", "/alerts", "/activity")
ROOM = 2**20


@pytest.fixture
def settings() -> Settings:
    overrides = {
        "dashboard.editors": ("eva", "emil"),
        "dashboard.public": True,
        "dashboard.oidc_issuer": "https://id.example.org",
        "dashboard.oidc_client_id": "perftrend",
        "dashboard.response_cache_bytes": ROOM,
    }
    return Settings.load(environment={}, overrides=overrides)


@pytest.fixture
def people(site: AppContext) -> Iterator[Callable[[str], TestClient]]:
    """Give browsers of one dashboard; of nobody where the name is empty."""
    app = make_app(site)
    authenticator: Authenticator = app.state.authenticator
    with ExitStack() as stack:
        first = stack.enter_context(TestClient(app, base_url="http://localhost", follow_redirects=False))

        def browser(name: str) -> TestClient:
            found = TestClient(app, base_url="http://localhost", follow_redirects=False)
            found.portal = first.portal
            if name:
                found.cookies.set(
                    authenticator.session_cookie,
                    authenticator.sessions.begin(Person(name)).cookie,
                )
            return found

        yield browser


@pytest.fixture
def asked(site: AppContext, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the testbeds whose runs were read: ``/runs`` reads each once."""
    found: list[str] = []
    find_replaced = site.store.find_replaced

    def counting(testbed: str) -> object:
        found.append(testbed)
        return find_replaced(testbed)

    monkeypatch.setattr(site.store, "find_replaced", counting)
    return found


def token_in(page: str) -> str:
    found = re.search(r'name="csrf" value="([^"]*)"', page)
    return found[1] if found else ""


def annotate(client: TestClient, text: str) -> int:
    form = {"commit": COMMIT, "text": text, "csrf": token_in(client.get("/annotations").text)}
    return client.post("/annotations", data=form).status_code


def elsewhere(store: Store, text: str) -> None:
    """Let another process write."""
    with store.changes.suspend_commit_count():
        store.annotations.add(COMMIT, text, user="otto")


def test_many_readers_cost_as_much_as_one(
    people: Callable[[str], TestClient], filled: Filled, asked: list[str]
) -> None:
    answers = {people("").get("/runs").text for _ in range(5)}

    assert (1, 2) == (len(answers), len(asked))


def test_those_who_ask_at_the_same_time_wait_for_one_answer(
    people: Callable[[str], TestClient], filled: Filled, site: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ready, find_replaced = threading.Semaphore(0), threading.Event(), site.store.find_replaced

    def waiting(testbed: str) -> object:
        begun.release()
        ready.wait(10)
        return find_replaced(testbed)

    monkeypatch.setattr(site.store, "find_replaced", waiting)
    browser = people("")
    with ThreadPoolExecutor(8) as pool:
        several = [pool.submit(browser.get, "/runs") for _ in range(8)]
        begun.acquire(timeout=10)
        ready.set()
        answers = {each.result().text for each in several}

    # Once for each of the two testbeds: one of them was waited for above.
    assert (1, True, False) == (len(answers), begun.acquire(blocking=False), begun.acquire(blocking=False))


def test_own_change_is_seen_at_once_by_everybody(people: Callable[[str], TestClient]) -> None:
    eva, reader = people("eva"), people("")
    before = [reader.get("/annotations").text, eva.get("/annotations").text]

    assert 303 == annotate(eva, "the compiler was updated")
    assert not any("compiler" in page for page in before)
    assert "compiler" in eva.get("/annotations").text
    assert "compiler" in reader.get("/annotations").text


def test_change_of_another_process_is_seen_after_a_moment(site: AppContext, settings: Settings) -> None:
    soon = settings.model_copy(
        update={"dashboard": settings.dashboard.model_copy(update={"cache_max_age_s": 1e-9})}
    )
    with TestClient(make_app(AppContext.of(soon, site.store)), base_url="http://localhost") as client:
        before = client.get("/annotations").text
        elsewhere(site.store, "the compiler was updated")

        assert "compiler" not in before
        assert "compiler" in client.get("/annotations").text


@pytest.mark.parametrize("path", PAGES)
def test_nobody_gets_anything_of_somebody_else(
    people: Callable[[str], TestClient], filled: Filled, path: str
) -> None:
    eva, emil, nobody = people("eva"), people("emil"), people("")
    pages = {"eva": eva.get(path).text, "emil": emil.get(path).text, "": nobody.get(path).text}

    assert "eva" in pages["eva"]
    assert "emil" in pages["emil"]
    assert "eva" not in pages["emil"] + pages[""]
    assert "emil" not in pages[""]
    assert not re.search(f"{NAME}|{TOKEN}", "".join(pages.values()))


def test_token_of_a_form_is_good_for_its_reader_alone(people: Callable[[str], TestClient]) -> None:
    eva, emil = people("eva"), people("emil")
    tokens = {
        who: token_in(browser.get("/annotations").text) for who, browser in (("eva", eva), ("emil", emil))
    }
    form = {"commit": COMMIT, "text": "x"}

    assert 303 == emil.post("/annotations", data={**form, "csrf": tokens["emil"]}).status_code
    assert 403 == emil.post("/annotations", data={**form, "csrf": tokens["eva"]}).status_code


def test_name_is_text_and_nothing_else(people: Callable[[str], TestClient]) -> None:
    page = people('<b title="x">&').get("/runs").text

    assert "&lt;b title=&#34;x&#34;&gt;&amp;</a>" in page


def test_who_may_less_does_not_see_the_forms_of_who_may_more(people: Callable[[str], TestClient]) -> None:
    editor, viewer = people("eva").get("/annotations").text, people("vera").get("/annotations").text

    assert "Annotate a commit" in editor
    assert "Annotate a commit" not in viewer


@pytest.mark.parametrize("coding", ["gzip", "identity"])
def test_page_is_the_same_in_every_coding(people: Callable[[str], TestClient], coding: str) -> None:
    eva = people("eva")
    several = [eva.get("/runs", headers={"Accept-Encoding": each}) for each in ("identity", coding)]
    pages = {re.sub(r'(name="csrf" value=")[^"]*', r"\1", answer.text) for answer in several}

    assert 1 == len(pages)
    assert ("gzip" if coding == "gzip" else None) == several[1].headers.get("content-encoding")


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-Host": MARK, "X-Forwarded-Proto": MARK, "X-Forwarded-For": MARK},
        {"X-Forwarded-Prefix": f"/{MARK}", "X-Original-URL": f"/{MARK}", "X-Rewrite-URL": f"/{MARK}"},
        {"Forwarded": f"host={MARK}", "Origin": f"http://{MARK}", "Referer": f"http://{MARK}"},
        {"Accept-Language": MARK, "User-Agent": MARK, "Cookie": f"perftrend={MARK}; other={MARK}"},
        {"Host": f"{MARK}@localhost"},
        {"Accept-Encoding": MARK, "Range": "bytes=0-3", "If-Modified-Since": "Thu, 01 Jan 2099 00:00:00 GMT"},
    ],
)
@pytest.mark.parametrize("path", ["/explore", "/compare", "/runs"])
def test_header_of_one_gets_into_no_answer_to_another(
    people: Callable[[str], TestClient], filled: Filled, headers: dict[str, str], path: str
) -> None:
    clean = people("").get(path).text
    filled.store.annotations.add(COMMIT, "now all are made anew", user="otto")
    poisoned = people("").get(path, headers=headers)
    after = people("").get(path)

    assert (200, 200) == (poisoned.status_code, after.status_code)
    assert MARK not in after.text + str(after.headers) + poisoned.text
    assert clean == after.text or path == "/explore"


def test_form_of_one_is_not_sent_to_another(people: Callable[[str], TestClient]) -> None:
    browser = people("")
    kinds = [
        browser.get("/runs", headers={"Accept": accepted}).headers["content-type"].partition(";")[0]
        for accepted in ("application/json", "text/html", "*/*", "image/png", "application/json")
    ]
    by_query = browser.get("/runs?format=json").headers["content-type"]

    assert ["application/json", "text/html", "text/html", "text/html", "application/json"] == kinds
    assert "application/json" == by_query


def test_address_in_another_order_is_answered_as_well(
    people: Callable[[str], TestClient], filled: Filled
) -> None:
    one = people("").get("/explore?testbed=3n-skx&q=metric%3Dmrr&format=json").json()
    other = people("").get("/explore?format=json&q=metric%3Dmrr&testbed=3n-skx").json()
    last = people("").get("/runs?last=1&last=3&format=json").json()
    first = people("").get("/runs?last=3&last=1&format=json").json()

    assert one == other
    assert (3, 1) == (len(last["testbeds"][0]["runs"]), len(first["testbeds"][0]["runs"]))


def test_endless_addresses_take_bounded_memory(people: Callable[[str], TestClient], site: AppContext) -> None:
    browser = people("")
    for number in range(150):
        browser.get(f"/runs?x={number}{'y' * 5000}")

    assert 100_000 < site.metrics.registry.get_sample_value("perftrend_dashboard_cached_bytes") <= ROOM


def test_browser_that_has_the_page_is_sent_none(people: Callable[[str], TestClient]) -> None:
    browser = people("eva")
    first = browser.get("/explore")
    again = browser.get("/explore", headers={"If-None-Match": f'"other", {first.headers["etag"]}'})

    assert (304, b"") == (again.status_code, again.content)
    # The browser takes these in place of those that it has.
    for name in ("etag", "cache-control", "content-security-policy", "x-content-type-options"):
        assert first.headers[name] == again.headers[name]
    assert "Accept" in again.headers["vary"]


def test_page_of_somebody_else_is_not_the_same_page(people: Callable[[str], TestClient]) -> None:
    """The browser has the page of who sat there before."""
    tag = people("eva").get("/runs").headers["etag"]

    assert 200 == people("emil").get("/runs", headers={"If-None-Match": tag}).status_code
    assert 200 == people("").get("/runs", headers={"If-None-Match": tag}).status_code


def test_page_that_has_changed_is_sent(people: Callable[[str], TestClient], store: Store) -> None:
    browser = people("")
    tag = browser.get("/annotations").headers["etag"]
    store.annotations.add(COMMIT, "seen", user="otto")
    same = browser.get("/runs").headers["etag"]

    assert 200 == browser.get("/annotations", headers={"If-None-Match": tag}).status_code
    assert 304 == browser.get("/runs", headers={"If-None-Match": same}).status_code


def test_head_is_that_of_the_page(people: Callable[[str], TestClient]) -> None:
    browser = people("")
    head, page = browser.head("/runs"), browser.get("/runs")

    assert (200, b"") == (head.status_code, head.content)
    assert page.headers.pop("X-Request-ID") != head.headers.pop("X-Request-ID")
    assert page.headers == head.headers


def test_error_is_not_kept(people: Callable[[str], TestClient], store: Store) -> None:
    browser = people("")
    missing = browser.get("/annotations/1")
    store.annotations.add(COMMIT, "seen", user="otto")

    assert (404, None) == (missing.status_code, missing.headers.get("etag"))
    assert 200 == browser.get("/annotations/1").status_code


def test_store_that_is_away_is_told_and_forgotten(
    people: Callable[[str], TestClient], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> object:
        raise StoreError("store: the disk failed")

    browser = people("")
    with monkeypatch.context() as patch:
        patch.setattr(store.changes, "state", away)
        patch.setattr(store, "find_replaced", lambda *_, **__: away())
        patch.setattr(store.tiles, "testbeds", away)
        status = browser.get("/runs").status_code

    assert (503, 200) == (status, browser.get("/runs").status_code)


def test_fault_is_told_to_each_and_not_kept(
    site: AppContext, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(*_: object, **__: object) -> object:
        raise ZeroDivisionError

    with TestClient(make_app(site), base_url="http://localhost", raise_server_exceptions=False) as client:
        with monkeypatch.context() as patch:
            patch.setattr(site.store, "find_replaced", faulty)
            broken = [client.get("/runs").status_code for _ in range(2)]

        assert ([500, 500], 200) == (broken, client.get("/runs").status_code)


def test_comparison_with_a_patch_set_is_made_each_time(
    people: Callable[[str], TestClient], filled: Filled
) -> None:
    answer = people("").get("/compare?by=patch")

    assert (200, "no-store", None) == (
        answer.status_code, answer.headers["cache-control"], answer.headers.get("etag")
    )  # fmt: skip


@pytest.mark.parametrize(
    "path", ["/me", "/healthz", "/metrics", "/alerts/1", "/clusters/progress?testbed=x", "/ingest"]
)
def test_what_changes_by_itself_is_not_kept(people: Callable[[str], TestClient], path: str) -> None:
    assert "etag" not in people("eva").get(path).headers


def test_who_signs_out_is_out(people: Callable[[str], TestClient], asked: list[str]) -> None:
    eva = people("eva")
    cookie = dict(eva.cookies)
    form = {"csrf": token_in(eva.get("/runs").text)}
    eva.post("/sign-out", data=form)
    copied = people("")
    copied.cookies.update(cookie)

    assert "eva" not in copied.get("/runs").text


def test_program_with_a_token_is_looked_up_each_time(
    people: Callable[[str], TestClient], store: Store, asked: list[str]
) -> None:
    token, text = new_token(store.tokens, name="nightly", role=Role.VIEWER, owner="ada", days=1)
    bearer = {"Authorization": f"Bearer {text}"}
    known = people("").get("/runs", headers=bearer)
    people("").get("/runs")
    with store.changes.suspend_commit_count():
        store.tokens.revoke(token.key, "ada", token.made)

    assert (200, None) == (known.status_code, known.headers.get("etag"))
    assert 401 == people("").get("/runs", headers=bearer).status_code
    assert 401 == people("").get("/runs", headers={"Authorization": "Bearer x"}).status_code


def test_who_may_not_read_gets_nothing_that_is_kept(site: AppContext, settings: Settings) -> None:
    closed = settings.model_copy(
        update={"dashboard": settings.dashboard.model_copy(update={"public": False})}
    )
    app = make_app(AppContext.of(closed, site.store))
    authenticator: Authenticator = app.state.authenticator
    with TestClient(app, base_url="http://localhost", follow_redirects=False) as client:
        cookie = {authenticator.session_cookie: authenticator.sessions.begin(Person("eva")).cookie}
        read = client.get("/runs", headers={"Cookie": "; ".join(f"{k}={v}" for k, v in cookie.items())})
        browser = client.get("/runs", headers={"Accept": "text/html"})
        program = client.get("/runs", headers={"Accept": "application/json"})

    assert (200, 303, 401) == (read.status_code, browser.status_code, program.status_code)


def test_routes_are_counted_as_ever(people: Callable[[str], TestClient], site: AppContext) -> None:
    for _ in range(3):
        people("").get("/runs")

    told = site.metrics.text().decode()
    assert 'perftrend_dashboard_requests_total{method="GET",route="/runs",status="200"} 3.0' in told

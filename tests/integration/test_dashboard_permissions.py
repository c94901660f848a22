"""Roles and sessions that admins change while two dashboards serve one store, with a real provider."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from perftrend.dashboard.catalog import Catalog
from perftrend.dashboard.triage import evaluate
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store
from perftrend.store.alerts import Rules
from tests.integration.accessibility import violations
from tests.integration.servers import oidc, postgresql
from tests.integration.servers.dashboard import PATIENCE_MS, Dashboard, fill, save_picture
from tests.unit.dashboard.conftest import FIRST, TESTBEDS, commit

SECRET = "0123456789abcdef0123456789abcdef"  # noqa: S105
JSON = {"Accept": "application/json"}
PHONE = {"width": 360, "height": 740}
OWN, OTHER = TESTBEDS
VPP, DPDK = "vpp-2n-clx", "dpdk-2n-icx"
"""A testbed of each of two projects."""
NIGHTS, STEP = 30, 20
ADA, OTTO = "2", "3"


@dataclass(frozen=True)
class Pair:
    """Two dashboards that serve one store."""

    first: Dashboard
    second: Dashboard


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    place = str(folder / "store.sqlite")
    fill(Path(place))
    if request.param == "postgresql":
        server: postgresql.Server = request.getfixturevalue("postgresql_server")
        file, place = place, server.database()
        with Store.open(file) as old, Store.open(place) as new:
            for testbed in TESTBEDS:
                new.add_all((run, old.results(run)) for run in old.runs(testbed))
    with Store.open(place) as store:
        add_projects(store)
    with ExitStack() as stack:
        provider = stack.enter_context(oidc.running(oidc.ALICE, oidc.ADA, oidc.OTTO))
        settings = {
            "secret": SECRET, "oidc_issuer": provider, "oidc_client_id": "perftrend",
            "oidc_client_secret": "of the dashboard",
            "admins": ["group:ops"], "requests_per_second": 1000, "burst": 10000,
        }  # fmt: skip
        folders = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
        yield Pair(
            *(stack.enter_context(Dashboard(each, settings=settings, store=place)) for each in folders)
        )


def add_projects(store: Store) -> None:
    """Add a testbed of each project, whose only test became 10 % slower, and evaluate an alert on them."""
    noise = random.Random(1)  # noqa: S311 - noise, no secret
    for testbed in (VPP, DPDK):
        key = TraceKey.of(testbed=testbed, test="64b-1c-ethip4-ip4base", metric="mrr")
        for night in range(NIGHTS):
            started = FIRST + timedelta(days=night)
            value = 1e7 * (0.9 if night >= STEP else 1.0) * noise.gauss(1.0, 0.003)
            store.add(
                Run(testbed, f"nightly-{testbed}", night + 1, started, started, {"device": commit(night)}),
                [Result(key, "pps", Better.HIGHER, Status.PASS, (value,), value)],
            )
    store.alerts.add(Rules("Slower", f"testbed={VPP}&testbed={DPDK}", change=0.03), user="ada")
    for testbed in (VPP, DPDK):
        evaluate(store, Catalog(store), testbed)


@contextmanager
def signed_in(dashboard: Dashboard, subject: str) -> Iterator[httpx.Client]:
    """Sign in without a browser; all requests have the token of forms."""
    with httpx.Client(base_url=dashboard.url, follow_redirects=True, timeout=PATIENCE_MS / 1000) as client:
        client.post(client.get("/sign-in").url, data={"sub": subject}).raise_for_status()
        found = re.search(r'name="csrf" value="([^"]+)"', client.get("/sessions").text)
        assert found is not None
        client.headers.update({**JSON, "X-CSRF-Token": found[1]})
        yield client


def annotate(client: httpx.Client, testbed: str) -> int:
    body = {"commit": commit(1), "text": "a note", "testbed": testbed}
    return client.post("/annotations", json=body).status_code


def grant(client: httpx.Client, **body: Any) -> Any:
    return client.post("/users/grants", json=body).raise_for_status().json()


def remove(client: httpx.Client, granted: Any) -> None:
    path = f"/users/grants/{granted['id']}/remove"
    client.post(path, json={"version": granted["version"]}).raise_for_status()


def test_role_holds_from_the_next_request_on_and_no_longer(pair: Pair) -> None:
    with signed_in(pair.first, ADA) as ada, signed_in(pair.second, OTTO) as otto:
        answers = []
        for _ in range(5):
            granted = grant(ada, person="otto", testbed=OWN, role="editor")
            answers.append((annotate(otto, OWN), annotate(otto, OTHER), annotate(otto, "")))
            remove(ada, granted)
            answers.append((annotate(otto, OWN), annotate(otto, OTHER), annotate(otto, "")))

    assert [(201, 403, 403), (403, 403, 403)] * 5 == answers


def test_pages_in_memory_follow_the_role(pair: Pair) -> None:
    html = {"Accept": "text/html"}
    with signed_in(pair.first, ADA) as ada, signed_in(pair.second, OTTO) as otto:
        offered = ["/runs/invalidate" in otto.get("/runs", headers=html).text]
        granted = grant(ada, person="otto", testbed=OWN, role="editor")
        offered.append("/runs/invalidate" in otto.get("/runs", headers=html).text)
        remove(ada, granted)
        offered.append("/runs/invalidate" in otto.get("/runs", headers=html).text)

    assert [False, True, False] == offered


def triage(client: httpx.Client, testbed: str) -> int:
    """Mark the item of a testbed as a bug."""
    [item] = [each for each in client.get("/triage?status=all").json()["items"] if each["testbed"] == testbed]
    body = {"items": {str(item["id"]): item["version"]}, "status": "bug"}
    return client.post("/triage", json=body).status_code


def test_editor_of_a_project_triages_the_items_of_its_testbeds(pair: Pair) -> None:
    with signed_in(pair.first, ADA) as ada, signed_in(pair.second, OTTO) as otto:
        granted = grant(ada, person="otto", testbed="vpp-*", role="editor")
        answers = [triage(otto, VPP), triage(otto, DPDK)]
        remove(ada, granted)

        assert [200, 403, 403] == [*answers, triage(otto, VPP)]


def test_admin_of_a_project_grants_nothing_outside_of_it(pair: Pair) -> None:
    with signed_in(pair.first, ADA) as ada, signed_in(pair.second, OTTO) as otto:
        granted = grant(ada, person="otto", testbed="vpp-*", role="admin")
        inside, outside = (
            [
                otto.post("/users/grants", json={"person": "eve", "testbed": testbed, "role": "editor"})
                for testbed in testbeds
            ]
            for testbeds in ([VPP, "vpp-2*"], [DPDK, "dpdk-*", "v*", ""])
        )
        for each in inside:
            remove(otto, each.json())
        remove(ada, granted)

        assert [201, 201] == [each.status_code for each in inside]
        assert [403] * 4 == [each.status_code for each in outside]
        assert [] == ada.get("/users").json()["grants"]


def test_one_of_many_simultaneous_grants_is_made(pair: Pair) -> None:
    with (
        signed_in(pair.first, ADA) as one,
        signed_in(pair.second, ADA) as other,
        ThreadPoolExecutor(8) as threads,
    ):
        body = {"person": "eve", "testbed": OWN, "role": "editor"}
        sent = [
            threads.submit((one, other)[number % 2].post, "/users/grants", json=body) for number in range(8)
        ]
        statuses = sorted(each.result().status_code for each in sent)
        [made] = [each for each in one.get("/users").json()["grants"] if each["person"] == "eve"]
        remove(one, made)

    assert [201] + [400] * 7 == statuses


def test_removal_wins_over_a_form_that_is_open(pair: Pair) -> None:
    with signed_in(pair.first, ADA) as one, signed_in(pair.second, ADA) as other:
        granted = grant(one, person="eve", testbed=OWN, role="editor")
        remove(other, granted)
        late = one.post(f"/users/grants/{granted['id']}", json={"role": "admin", "version": 1})

        assert 404 == late.status_code
        assert "eve" not in str(one.get("/users").json()["grants"])


def test_ended_session_is_over_in_every_process(pair: Pair) -> None:
    with signed_in(pair.first, ADA) as ada, signed_in(pair.second, OTTO) as otto:
        assert "otto" == otto.get("/me").json()["name"]
        sessions = [each for each in ada.get("/sessions").json()["others"] if each["person"] == "otto"]
        [key] = {each["key"] for each in otto.get("/sessions").json()["own"] if each["current"]}
        assert key in {each["key"] for each in sessions}

        assert {"ended": 1} == ada.post(f"/sessions/{key}/end").json()

        assert [401, 401] == [otto.get(path).status_code for path in ("/me", "/runs")]
        assert 401 == annotate(otto, OWN)
        assert "ada" == ada.get("/me").json()["name"]


def test_viewer_manages_nothing_of_others(pair: Pair) -> None:
    with signed_in(pair.first, ADA) as ada, signed_in(pair.second, OTTO) as otto:
        [key] = [each["key"] for each in ada.get("/sessions").json()["own"] if each["current"]]
        refused = [
            otto.post(f"/sessions/{key}/end"),
            otto.post("/sessions/end-all"),
            otto.post("/users/grants", json={"person": "otto", "role": "admin"}),
            otto.get("/users"),
        ]

        assert [404, 403, 403, 403] == [each.status_code for each in refused]
        assert "ada" == ada.get("/me").json()["name"]


def test_token_loses_the_role_with_its_owner(pair: Pair) -> None:
    with signed_in(pair.first, ADA) as ada, signed_in(pair.second, OTTO) as otto:
        granted = grant(ada, person="otto", role="admin")
        token = otto.post("/users/tokens", json={"name": "nightly", "role": "editor", "days": 1}).json()[
            "token"
        ]
        with httpx.Client(
            base_url=pair.second.url, headers={**JSON, "Authorization": f"Bearer {token}"}
        ) as job:
            before = annotate(job, OWN)
            remove(ada, granted)

            assert (201, 403) == (before, annotate(job, OWN))


@contextmanager
def window(browser: Browser, dashboard: Dashboard, subject: str, **options: Any) -> Iterator[Page]:
    """Give a page of a window that has signed in."""
    context = browser.new_context(base_url=dashboard.url, **options)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto("/me")
    with page.expect_event("load"):
        page.get_by_role("button", name=subject, exact=True).click()
    yield page
    context.close()


@pytest.mark.parametrize(
    "options", [{}, {"java_script_enabled": False, "viewport": PHONE}], ids=["wide", "plain"]
)
def test_admin_grants_a_role_and_ends_a_session(
    browser: Browser, pair: Pair, options: dict[str, Any]
) -> None:
    """With scripts in a wide window, and without them in a narrow one."""
    with window(browser, pair.first, OTTO) as otto, window(browser, pair.second, ADA, **options) as ada:
        ada.goto("/users")
        form = ada.locator("form").filter(has=ada.get_by_role("button", name="Grant role"))
        form.get_by_label("Person").fill("otto")
        form.get_by_label("Testbed").fill(OWN)
        form.get_by_role("button").click()
        otto.goto("/runs")
        expect(otto.get_by_role("region", name=OWN).get_by_text("Mark as invalid").first).to_be_visible()
        expect(otto.get_by_role("region", name=OTHER).get_by_text("Mark as invalid")).to_have_count(0)
        save_picture(ada, f"users-roles-{len(options)}")
        if not options:
            assert [] == violations(ada)

        ada.get_by_label(f"Role of otto on {OWN}", exact=True).select_option("admin")
        ada.get_by_role("button", name=f"Change the role of otto on {OWN}").click()
        otto.goto("/me")
        expect(otto.get_by_role("main")).to_contain_text(f"Your role is viewer, on {OWN} admin")
        ada.get_by_role("button", name=f"Remove the role of otto on {OWN}").click()
        expect(ada.get_by_role("region", name="Roles").get_by_text("otto")).to_have_count(0)

        ada.goto("/sessions")
        save_picture(ada, f"users-sessions-{len(options)}")
        wide, wanted = ada.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= wanted
        if not options:
            assert [] == violations(ada)
        ada.get_by_role("button", name="End all other sessions").click()
        expect(ada.get_by_text("No other user has a session")).to_be_visible()
        otto.goto("/me")
        expect(otto.get_by_role("button", name=OTTO, exact=True)).to_be_visible()

"""Editors of one testbed, or of a pattern of testbeds, change nothing of another one, on any route."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from httpx import Response
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext, make_app
from perftrend.dashboard.auth import Authenticator, Person
from perftrend.dashboard.clusters.clustering import ClusteringResult, rule
from perftrend.dashboard.clusters.models import ClusterOptions
from perftrend.model import Run, TraceKey
from perftrend.store import Store
from perftrend.store.access import ALL_TESTBEDS
from perftrend.store.alerts import Rules
from perftrend.store.connection import write_transaction
from perftrend.store.requests import PAGE, RequestState
from perftrend.store.schema import findings, items
from tests.unit.dashboard.clusters.conftest import COMMITS, stored
from tests.unit.dashboard.conftest import (
    FIRST,
    RUNS,
    SLOWER,
    TESTBEDS,
    Filled,
    commit,
    routes_of,
    signed_in,
    token_of,
)  # fmt: skip
from tests.unit.dashboard.conftest import request as stored_request

JSON = {"Accept": "application/json"}
OWN, OTHER = TESTBEDS
PATTERN = "2n-*"
"""A pattern that matches the own testbed only."""
ELSEWHERE = {
    "/ingest": "an event proves by a signature which machine sent it",
    "/shortcuts": "viewers add a shortcut, which changes nothing else",
    "/short": "viewers add a short address, which changes nothing else",
    "/views": "editors name a page, which changes nothing else",
    "/views/{identity}/delete": "editors delete a name of a page",
    "/sign-out": "of the user's own session",
    "/sessions/end-others": "of the user's own sessions",
    "/sessions/{key}/end": "of the user's own sessions; of others for admins",
}
"""Routes that change nothing of a testbed, with the reason."""
FOR_ADMINS = ("/sessions/end-all", "/users/tokens", "/users/tokens/{key}/revoke")
"""Routes that need an admin of all testbeds."""
FOR_TESTBED_ADMINS = {"/users/grants", "/users/grants/{identity}", "/users/grants/{identity}/remove"}
"""Routes that need an admin of the testbed; see ``test_grant_pages.py``."""


@dataclass(frozen=True)
class World:
    """One object of each kind on each testbed, and on all testbeds; by the name of the testbed."""

    annotations: Mapping[str, int]
    items: Mapping[str, int]
    more_items: Mapping[str, int]
    alerts: Mapping[str, int]
    clusters: Mapping[str, int]
    traces: Mapping[str, str]


@pytest.fixture
def world(filled: Filled, store: Store) -> World:
    scopes = (*TESTBEDS, ALL_TESTBEDS)
    for testbed in TESTBEDS:
        # The nightly runs of both testbeds have the same job, number and time.
        started = FIRST + timedelta(days=RUNS)
        store.add(Run(testbed, f"weekly-{testbed}", 1, started, started, {"device": commit(RUNS)}), [])
        store.clusterings.request(testbed, ClusterOptions().model_dump(), "")
        task = store.clusterings.claim(FIRST)
        assert task is not None
        found = [stored(1, 2, testbed=testbed)]
        store.clusters.merge(task, rule(ClusteringResult(found, COMMITS, {})), {})
    return World(
        annotations={
            each: store.annotations.add(commit(1), "text", user="ada", testbed=each or None).identity
            for each in scopes
        },
        items={each: add_item(store, each) for each in TESTBEDS},
        more_items={each: add_item(store, each) for each in TESTBEDS},
        alerts={
            each: store.alerts.add(rules_of(each), user="ada").identity for each in scopes
        },
        clusters={each.testbed: each.identity or 0 for each in store.clusters.select(limit=9)},
        traces={each: TraceKey.of(**SLOWER.as_dict() | {"testbed": each}).hash for each in TESTBEDS},
    )  # fmt: skip


def rules_of(testbed: str) -> Rules:
    return Rules("an alert", f"testbed={testbed}&metric=mrr" if testbed else "metric=mrr")


def add_item(store: Store, testbed: str) -> int:
    texts = "last_good_revision first_changed_revision reason message owner trace changed_by former_message"
    row: dict[str, Any] = dict.fromkeys(texts.split(), "") | dict.fromkeys(
        ("first_changed", "opened", "changed"), FIRST
    )
    row |= {
        "last_good": FIRST - timedelta(days=1),
        "testbed": testbed, "kind": "regression", "status": "new", "former_status": "new", "traces": 1,
        "version": 1,
    }  # fmt: skip
    with write_transaction(store._engine) as connection:
        added = connection.execute(sa.insert(items), row).inserted_primary_key
        return int(added[0]) if added else 0


def add_job(store: Store, testbed: str) -> str:
    """Add the request of a job that runs; return its key."""
    key = hashlib.sha256(testbed.encode()).hexdigest()
    job = stored_request(key, RequestState.STARTED, testbed=testbed, account=f"{PAGE}ann", change=0)
    store.requests.add([job])
    return key


def add_findings(store: Store, item: int) -> list[str]:
    """Add two findings to an item; return the hashes of their traces."""
    traces = ["a" * 32, "b" * 32]
    texts = "last_good_revision first_changed_revision"
    times = dict.fromkeys(("first_changed", "found", "seen"), FIRST)
    times["last_good"] = FIRST - timedelta(days=1)
    row: dict[str, Any] = dict.fromkeys(texts.split(), "") | times | {"item_id": item, "kind": "regression"}
    with write_transaction(store._engine) as connection:
        connection.execute(sa.insert(findings), [{**row, "trace": trace} for trace in traces])
    return traces


def run_of(testbed: str, store: Store) -> dict[str, Any]:
    run = store.runs(testbed, last=1)[0]
    return {"job": run.job, "build": run.build, "started": run.started.isoformat()}


Request = tuple[str, Any]
"""A path and a body in JSON."""

WRITES: dict[str, Callable[[World, Store, str], Request]] = {
    "/annotations": lambda _w, _s, on: (
        "/annotations", {"commit": commit(2), "text": "new", "testbed": on}
    ),
    "/annotations/{identity}": lambda w, _s, on: (
        f"/annotations/{w.annotations[on]}", {"text": "changed", "version": 1}
    ),
    "/annotations/{identity}/delete": lambda w, _s, on: (
        f"/annotations/{w.annotations[on]}/delete", {"version": 1}
    ),
    "/runs/invalidate": lambda _w, s, on: ("/runs/invalidate", {**run_of(on, s), "reason": "a fan failed"}),
    "/runs/restore": lambda _w, s, on: ("/runs/restore", run_of(on, s)),
    "/triage": lambda w, _s, on: ("/triage", {"items": {str(w.items[on]): 1}, "status": "bug"}),
    "/triage/snooze": lambda w, _s, on: (
        "/triage/snooze", {"items": {str(w.items[on]): 1}, "until": "7 days"}
    ),
    "/triage/assign": lambda w, _s, on: (
        "/triage/assign", {"items": {str(w.items[on]): 1}, "owner": "ann"}
    ),
    "/triage/merge": lambda w, _s, on: (
        "/triage/merge", {"items": {str(w.items[on]): 1, str(w.more_items[on]): 1}}
    ),
    "/triage/{identity}/split": lambda w, s, on: (
        f"/triage/{w.items[on]}/split", {"version": 1, "traces": add_findings(s, w.items[on])[:1]}
    ),
    "/jobs": lambda _w, _s, on: ("/jobs", {"testbed": on, "old": commit(1), "new": commit(50)}),
    "/jobs/{key}/cancel": lambda _w, s, on: (f"/jobs/{add_job(s, on)}/cancel", {}),
    "/triage/undo": lambda w, _s, on: ("/triage/undo", {"items": {str(w.items[on]): 1}}),
    "/alerts": lambda _w, _s, on: (
        "/alerts", {"name": "new", "query": f"testbed={on}" if on else "metric=ndr"}
    ),
    "/alerts/{identity}": lambda w, _s, on: (
        f"/alerts/{w.alerts[on]}", {"name": "changed", "query": f"testbed={OWN}", "version": 1}
    ),
    "/alerts/{identity}/delete": lambda w, _s, on: (f"/alerts/{w.alerts[on]}/delete", {"version": 1}),
    "/alerts/{identity}/override": lambda w, _s, on: (
        f"/alerts/{w.alerts[ALL_TESTBEDS]}/override",
        {"version": 1, "trace": w.traces[on], "change_percent": 9},
    ),
    "/alerts/{identity}/dry-run": lambda w, _s, on: (
        f"/alerts/{w.alerts[ALL_TESTBEDS]}/dry-run", {"testbed": on, "nights": 1}
    ),
    "/clusters": lambda _w, _s, on: ("/clusters", {"testbed": on}),
    "/clusters/cancel": lambda _w, _s, on: ("/clusters/cancel", {"testbed": on}),
    "/clusters/triage": lambda w, _s, on: (
        "/clusters/triage", {"clusters": {str(w.clusters[on]): 1}, "status": "Bug"}
    ),
    "/clusters/reset": lambda _w, _s, on: ("/clusters/reset", {"testbed": on, "confirm": True}),
    "/clusters/{identity}": lambda w, _s, on: (
        f"/clusters/{w.clusters[on]}", {"status": "Bug", "version": 1}
    ),
    "/clusters/{identity}/explore": lambda w, _s, on: (f"/clusters/{w.clusters[on]}/explore", {}),
    "/compare/message": lambda _w, _s, on: (
        "/compare/message?by=commits&left={}&right={}&q={}".format(
            commit(1), commit(50), f"testbed%3D{on}" if on else ""
        ),
        {"digest": "0" * 64, "nonce": "0" * 32, "change": 1},
    ),
}  # fmt: skip
"""A valid request to each route that changes the data of a testbed."""
OF_ALL_TESTBEDS = (
    "/annotations", "/annotations/{identity}", "/annotations/{identity}/delete", "/alerts",
    "/alerts/{identity}", "/alerts/{identity}/delete", "/clusters/reset", "/compare/message",
)  # fmt: skip
"""Those that can also change data of all testbeds."""


@contextmanager
def person(site: AppContext, name: str, *grants: tuple[str, str]) -> Iterator[TestClient]:
    """Give a client of a person with grants: testbeds and roles."""
    for testbed, role in grants:
        site.store.grants.add(name, testbed, role, user="ada")
    with signed_in(site, name) as client:
        yield client


def send(client: TestClient, request: Request) -> Response:
    path, body = request
    return client.post(path, json=body, headers={**JSON, "X-CSRF-Token": token_of(client)})


def changes(site: AppContext) -> list[Any]:
    return [
        site.store.activity.newest(99), site.store.alerts.all(), site.store.clusters.counts(),
        site.store.annotations.newest(99), site.store.clusterings.all(), site.store.alerts.overrides(),
        site.store.alerts.items.counts(), [site.store.invalidations.of_testbed(each) for each in TESTBEDS],
    ]  # fmt: skip


def test_each_route_that_writes_is_decided_on(site: AppContext) -> None:
    """For a new route, add a request to ``WRITES``, or name the reason why it changes no testbed."""
    writing = {route.path for route in routes_of(make_app(site)) if not route.methods <= {"GET", "HEAD"}}

    assert writing == {*WRITES, *ELSEWHERE, *FOR_ADMINS, *FOR_TESTBED_ADMINS}


@pytest.mark.parametrize("scope", [OWN, PATTERN])
@pytest.mark.parametrize("path", WRITES)
def test_editor_of_one_testbed_changes_nothing_of_another(
    path: str, scope: str, site: AppContext, world: World, store: Store
) -> None:
    with person(site, "bob", (scope, "editor")) as client:
        before = changes(site)
        refused = send(client, WRITES[path](world, store, OTHER))
        unchanged = before == changes(site)
        allowed = send(client, WRITES[path](world, store, OWN))

    reason = f"this requires the role editor on {OTHER}, and your role there is viewer"
    assert (403, reason, True) == (refused.status_code, refused.json()["error"], unchanged)
    # Some of them conflict with the state of the store, but none is refused for the lack of a role.
    assert allowed.status_code in {200, 201, 202, 303, 400, 409}, allowed.text
    assert "role" not in allowed.text or allowed.status_code < 400


@pytest.mark.parametrize("scope", [OWN, PATTERN])
@pytest.mark.parametrize("path", OF_ALL_TESTBEDS)
def test_editor_of_one_testbed_changes_nothing_of_all(
    path: str, scope: str, site: AppContext, world: World, store: Store
) -> None:
    with person(site, "bob", (scope, "admin")) as client:
        before = changes(site)
        refused = send(client, WRITES[path](world, store, ALL_TESTBEDS))

    assert (403, before) == (refused.status_code, changes(site))


@pytest.mark.parametrize("path", WRITES)
def test_grant_on_all_testbeds_is_sufficient(path: str, site: AppContext, world: World, store: Store) -> None:
    with person(site, "bob", (ALL_TESTBEDS, "editor")) as client:
        assert send(client, WRITES[path](world, store, OTHER)).status_code not in {401, 403, 404, 422}


@pytest.mark.parametrize("scope", [OWN, PATTERN])
@pytest.mark.parametrize("path", FOR_ADMINS)
def test_admin_of_one_testbed_is_no_admin_of_all(
    path: str, scope: str, site: AppContext, world: World
) -> None:
    with person(site, "bob", (scope, "admin")) as client:
        answer = send(client, (path.replace("{key}", "0" * 12), {"name": "x"}))

    assert (403, "this requires the role admin on all testbeds, and your role is viewer") == (
        answer.status_code,
        answer.json()["error"],
    )


def test_edit_of_items_of_two_testbeds_needs_both(site: AppContext, world: World) -> None:
    both = {"items": {str(each): 1 for each in world.items.values()}, "status": "bug"}
    with person(site, "bob", (OWN, "editor")) as client:
        assert 403 == send(client, ("/triage", both)).status_code
        site.store.grants.add("bob", OTHER, "editor", user="ada")

        assert 200 == send(client, ("/triage", both)).status_code


@pytest.mark.parametrize("scope", [OWN, PATTERN])
@pytest.mark.parametrize(
    "query",
    [
        "", "metric=mrr", f"testbed!={OTHER}", f"testbed=~{OWN}", f"testbed={OWN}&testbed={OTHER}",
        f"testbed={OWN}&testbed=~.", f"testbed?!={OTHER}", "testbed=a-future-testbed", "testbed=~^2n-",
        "testbed=~2n-*", "testbed=2*",
    ],
)  # fmt: skip
def test_alert_of_a_testbed_watches_no_other_one(
    query: str, scope: str, site: AppContext, world: World
) -> None:
    """Neither now nor if another testbed is added later."""
    edit = {"name": "wider", "query": query, "version": 1}
    with person(site, "bob", (scope, "editor")) as client:
        assert 403 == send(client, ("/alerts", edit)).status_code
        assert 403 == send(client, (f"/alerts/{world.alerts[OWN]}", edit)).status_code


def test_editor_of_a_pattern_makes_alerts_of_its_future_testbeds(site: AppContext, world: World) -> None:
    rules = {"name": "narrow", "query": f"testbed={OWN}&testbed=2n-future"}
    with person(site, "bob", (PATTERN, "editor")) as client:
        assert 201 == send(client, ("/alerts", rules)).status_code


def test_role_is_gone_while_a_form_is_open(site: AppContext, world: World, store: Store) -> None:
    with person(site, "bob", (OWN, "editor")) as client:
        assert "/runs/invalidate" in client.get("/runs").text
        [grant] = store.grants.of({"bob"})
        store.grants.remove(grant.identity, version=grant.version, user="ada", is_last_admin_allowed=True)

        assert 403 == send(client, WRITES["/runs/invalidate"](world, store, OWN)).status_code
        assert "/runs/invalidate" not in client.get("/runs").text


def test_grants_to_groups_take_effect_in_open_sessions(site: AppContext, world: World, store: Store) -> None:
    app = make_app(site)
    authenticator: Authenticator = app.state.authenticator
    session = authenticator.sessions.begin(Person("bob", ("perf", "all")))
    cookies = {authenticator.session_cookie: session.cookie}
    with TestClient(app, base_url="http://localhost", cookies=cookies) as client:
        request = WRITES["/annotations"](world, store, OWN)
        before = send(client, request).status_code
        store.grants.add("group:perf", OWN, "editor", user="ada")

        assert [403, 201] == [before, send(client, request).status_code]


@pytest.mark.parametrize("scope", [OWN, PATTERN])
def test_pages_offer_only_what_the_user_may_change(scope: str, site: AppContext, world: World) -> None:
    with person(site, "bob", (scope, "editor")) as client:
        runs, annotations, triage = (client.get(path).text for path in ("/runs", "/annotations", "/triage"))
        sections = runs.split("<section>")[1:]
        own, other = (
            client.get(f"/triage/{world.items[each]}").text.count('action="/triage"') for each in TESTBEDS
        )
        alerts = [
            client.get(f"/alerts/{world.alerts[each]}").text.count("/delete") for each in (OWN, OTHER, "")
        ]
        clusters = client.get("/clusters").text

    assert [True, False] == ["/runs/invalidate" in each for each in sections]
    assert (1, 0) == (own, other)
    assert [1, 0, 0] == alerts
    assert f"<option>{OWN}</option>" in annotations
    assert f"<option>{OTHER}</option>" not in annotations
    assert '<option value="">all testbeds' not in annotations
    assert 1 == annotations.count("Edit</a>")
    assert [2, 4] == [triage.count(" disabled>"), triage.count('type="checkbox"')]
    assert [1, 1] == [clusters.count(" disabled>"), clusters.count("data-triage")]


def test_cached_pages_differ_by_testbeds(site: AppContext, world: World) -> None:
    """Two persons with the same role on all testbeds, and different ones on one."""
    app = make_app(site)
    authenticator: Authenticator = app.state.authenticator
    site.store.grants.add("bob", OWN, "editor", user="ada")
    site.store.grants.add("eve", "3n-*", "editor", user="ada")
    counts = []
    with TestClient(app, base_url="http://localhost") as client:
        for name in ("bob", "eve", "otto", "bob"):
            client.cookies.set(
                authenticator.session_cookie, authenticator.sessions.begin(Person(name)).cookie
            )
            sections = client.get("/runs").text.split("<section>")[1:]
            counts.append(["/runs/invalidate" in each for each in sections])

    assert [[True, False], [False, True], [False, False], [True, False]] == counts

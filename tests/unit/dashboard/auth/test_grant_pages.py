"""Admins grant, change and remove roles on ``/users``; nobody raises their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from httpx import Response
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext
from perftrend.dashboard.auth.authentication import new_token
from perftrend.dashboard.auth.users import Role
from perftrend.model import Run
from perftrend.settings import Settings
from perftrend.store import Store
from perftrend.store.access import ALL_TESTBEDS
from tests.unit.dashboard.conftest import FIRST, TESTBEDS, signed_in, token_of

JSON = {"Accept": "application/json"}
OWN, OTHER = TESTBEDS
pytestmark = pytest.mark.usefixtures("filled")


def send(client: TestClient, path: str = "", **body: Any) -> Response:
    headers = {**JSON, "X-CSRF-Token": token_of(client)}
    return client.post(f"/users/grants{path}", json=body, headers=headers)


def role_of(client: TestClient) -> tuple[str, dict[str, str]]:
    found = client.get("/me", headers=JSON).json()
    return found["role"], found["testbeds"]


@contextmanager
def person(
    site: AppContext, name: str, testbed: str | None = None, role: str = "admin"
) -> Iterator[TestClient]:
    """Give a client of a person, with a grant if a testbed is given."""
    if testbed is not None:
        site.store.grants.add(name, testbed, role, user="ada")
    with signed_in(site, name) as client:
        yield client


@pytest.fixture
def bob(site: AppContext) -> Iterator[TestClient]:
    with person(site, "bob") as client:
        yield client


def test_grant_takes_effect_at_the_next_request(admin: TestClient, bob: TestClient) -> None:
    seen = [role_of(bob)]
    grant = send(admin, person="bob", testbed=OWN, role="editor").json()
    seen.append(role_of(bob))
    changed = send(admin, f"/{grant['id']}", role="admin", version=1).json()
    seen.append(role_of(bob))
    send(admin, person="bob", role="editor")
    seen.append(role_of(bob))
    send(admin, f"/{grant['id']}/remove", version=changed["version"])
    seen.append(role_of(bob))

    assert [
        ("viewer", {}), ("viewer", {OWN: "editor"}), ("viewer", {OWN: "admin"}), ("editor", {OWN: "admin"}),
        ("editor", {}),
    ] == seen  # fmt: skip


def test_form_works_without_scripts(admin: TestClient, site: AppContext) -> None:
    form = {"csrf": token_of(admin), "person": " group:perf ", "testbed": "", "role": "editor"}
    answer = admin.post("/users/grants", data=form)
    page = admin.get("/users").text
    [grant] = site.store.grants.all()
    edit = {"csrf": token_of(admin), "role": "admin", "version": "1"}

    assert (303, "/users") == (answer.status_code, answer.headers["location"])
    assert ("group:perf", ALL_TESTBEDS, "editor") == (grant.person, grant.testbed, grant.role)
    assert f'action="/users/grants/{grant.identity}"' in page
    assert 303 == admin.post(f"/users/grants/{grant.identity}", data=edit).status_code
    assert (
        303 == admin.post(f"/users/grants/{grant.identity}/remove", data=edit | {"version": "2"}).status_code
    )
    assert [] == site.store.grants.all()


def test_page_lists_roles_of_settings_and_grants(admin: TestClient, site: AppContext) -> None:
    site.store.grants.add("bob", OWN, "editor", user="ada")

    found = admin.get("/users", headers=JSON).json()
    page = admin.get("/users").text

    assert (["ada"], ["eva"]) == (found["admins"], found["editors"])
    assert [("bob", OWN, "editor", "ada", 1)] == [
        tuple(each[name] for name in ("person", "testbed", "role", "granted_by", "version"))
        for each in found["grants"]
    ]
    assert "the setting <code>dashboard.admins</code>" in page
    assert f"Remove the role of bob on {OWN}" in page


def test_changes_are_in_the_activity_log(admin: TestClient) -> None:
    grant = send(admin, person="bob", testbed=OWN, role="editor").json()
    send(admin, f"/{grant['id']}/remove", version=1)

    acts = admin.get("/activity", params={"subject": "role of bob"}, headers=JSON).json()["acts"]

    assert [("ada", "withdrew"), ("ada", "granted")] == [(each["user"], each["action"]) for each in acts]


def test_admin_of_a_testbed_manages_only_that_one(site: AppContext) -> None:
    other = site.store.grants.add("eve", OTHER, "editor", user="ada")
    everywhere = site.store.grants.add("eve", ALL_TESTBEDS, "editor", user="ada")
    before = site.store.grants.all()
    with person(site, "bob", OWN) as client:
        refused = [
            send(client, person="otto", testbed=OTHER, role="editor"),
            send(client, person="otto", role="editor"),
            send(client, person="bob", role="admin"),
            send(client, f"/{other.identity}", role="admin", version=1),
            send(client, f"/{other.identity}/remove", version=1),
            send(client, f"/{everywhere.identity}/remove", version=1),
        ]
        unchanged = before == [each for each in site.store.grants.all() if each.person != "bob"]
        allowed = send(client, person="otto", testbed=OWN, role="admin")
        page = client.get("/users")

    assert {403} == {each.status_code for each in refused}
    assert unchanged
    assert 201 == allowed.status_code
    assert "/users/tokens" not in page.text
    assert 'placeholder="all testbeds"' not in page.text
    assert f'<option value="{OWN}">' in page.text
    assert f'<option value="{OTHER}">' not in page.text
    assert 2 == page.text.count("/remove")
    assert 'href="/users"' in page.text


def test_admin_of_a_pattern_manages_only_what_it_covers(site: AppContext) -> None:
    inside, outside = (site.store.grants.add("eve", each, "editor", user="ada") for each in ("2n-*", "2*"))
    with person(site, "bob", "2n-*") as client:
        allowed = [
            send(client, person="otto", testbed=OWN, role="editor"),
            send(client, person="otto", testbed="2n-*", role="admin"),
            send(client, person="otto", testbed="2n-future*", role="editor"),
            send(client, f"/{inside.identity}", role="admin", version=1),
            send(client, f"/{inside.identity}/remove", version=2),
        ]
        before = site.store.grants.all()
        refused = [
            send(client, person="bob", testbed=OTHER, role="editor"),
            send(client, person="bob", testbed="2*", role="admin"),
            send(client, person="bob", testbed="3n-*", role="admin"),
            send(client, person="bob", role="admin"),
            send(client, f"/{outside.identity}", role="admin", version=1),
            send(client, f"/{outside.identity}/remove", version=1),
        ]
        page = client.get("/users").text

    assert [201, 201, 201, 200, 200] == [each.status_code for each in allowed]
    assert [403] * 6 == [each.status_code for each in refused]
    assert "this requires the role admin on 2*, and your role there is viewer" == refused[1].json()["error"]
    assert before == site.store.grants.all()
    assert "Remove the role of otto on 2n-future*" in page
    assert "Remove the role of eve on 2*" not in page


def test_admin_of_a_testbed_does_not_grant_on_a_pattern(site: AppContext) -> None:
    with person(site, "bob", OWN) as client:
        refused = send(client, person="bob", testbed=f"{OWN}*", role="admin")

    assert 403 == refused.status_code


@pytest.mark.parametrize("testbed", ["*-clx", "2n-**", "2n-*-x", "**"])
def test_wrong_pattern_is_refused_with_the_right_form(
    admin: TestClient, site: AppContext, testbed: str
) -> None:
    answer = send(admin, person="bob", testbed=testbed, role="editor")

    right_form = "write the beginning of names and one * at the end, such as vpp-*"
    assert 400 == answer.status_code
    assert f"{testbed!r} is not a pattern; {right_form}" == answer.json()["error"]
    assert [] == site.store.grants.all()


@pytest.mark.parametrize("testbed", ["*", " * "])
def test_asterisk_alone_does_not_mean_all_testbeds(admin: TestClient, site: AppContext, testbed: str) -> None:
    answer = send(admin, person="bob", testbed=testbed, role="editor")

    assert 400 == answer.status_code
    assert "leave the testbed empty to grant the role on all testbeds" in answer.json()["error"]
    assert [] == site.store.grants.all()


def test_testbed_with_an_asterisk_is_not_offered(admin: TestClient, store: Store) -> None:
    """Its name would be read as a pattern."""
    for name in ("2n-*", "2*n"):
        store.add(Run(name, f"weekly-{name}", 1, FIRST, FIRST), [])
    page = admin.get("/users").text

    assert f'<option value="{OWN}">' in page
    assert '<option value="2n-*">' not in page
    assert 400 == send(admin, person="bob", testbed="2*n", role="editor").status_code


def test_account_page_has_the_highest_role_on_each_scope(site: AppContext) -> None:
    site.store.grants.add("bob", "2n-*", "admin", user="ada")
    with person(site, "bob", OWN, "editor") as client:
        assert ("viewer", {"2n-*": "admin", OWN: "admin"}) == role_of(client)


def test_tokens_are_not_listed_for_an_admin_of_a_testbed(site: AppContext) -> None:
    new_token(site.store.tokens, name="nightly", role=Role.EDITOR, owner="ada", days=9)
    with person(site, "bob", OWN) as client:
        assert [] == client.get("/users", headers=JSON).json()["tokens"]


@pytest.mark.parametrize("testbed", [OWN, ALL_TESTBEDS])
def test_editor_does_not_raise_the_own_role(site: AppContext, testbed: str) -> None:
    with person(site, "bob", testbed, "editor") as client:
        [grant] = site.store.grants.all()
        refused = [
            client.get("/users", headers=JSON),
            send(client, person="bob", testbed=OWN, role="admin"),
            send(client, person="bob", role="admin"),
            send(client, f"/{grant.identity}", role="admin", version=1),
        ]

    assert {403} == {each.status_code for each in refused}
    assert [grant] == site.store.grants.all()


def test_form_of_an_admin_who_lost_the_role_is_refused(admin: TestClient, site: AppContext) -> None:
    with person(site, "bob", ALL_TESTBEDS) as client:
        page = client.get("/users").text
        token = page.partition('name="csrf" value="')[2].partition('"')[0]
        [grant] = site.store.grants.all()
        send(admin, f"/{grant.identity}/remove", version=1)
        form = {"csrf": token, "person": "bob", "testbed": "", "role": "admin"}

        assert 403 == client.post("/users/grants", data=form).status_code
    assert [] == site.store.grants.all()


def test_change_from_an_older_page_is_refused_with_the_reason(admin: TestClient) -> None:
    grant = send(admin, person="bob", testbed=OWN, role="editor").json()
    send(admin, f"/{grant['id']}", role="admin", version=1)

    late = [
        send(admin, f"/{grant['id']}", role="editor", version=1),
        send(admin, f"/{grant['id']}/remove", version=1),
    ]

    assert {409} == {each.status_code for each in late}
    assert f"ada made bob admin on {OWN} at" in late[0].json()["error"]


def test_removed_grant_is_not_found(admin: TestClient) -> None:
    grant = send(admin, person="bob", testbed=OWN, role="editor").json()
    send(admin, f"/{grant['id']}/remove", version=1)

    assert 404 == send(admin, f"/{grant['id']}/remove", version=1).status_code
    assert 404 == send(admin, "/999", role="admin", version=1).status_code


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"person": "bob"},
        {"person": "bob", "role": "viewer"},
        {"person": "bob", "role": "root"},
        {"person": "", "role": "editor"},
        {"person": "bob", "role": "editor", "testbed": "unknown"},
        {"person": "bob", "role": "editor", "testbed": OWN.upper()},
        {"person": "bob", "role": "editor", "testbed": f"{OWN}\0"},
        {"person": "bob", "role": "editor", "testbed": "x" * 256},
        {"person": "bob", "role": "editor", "testbed": "2n-\0*"},
        {"person": "bob", "role": "editor", "testbed": "2n-\ud800*"},
        {"person": "bob", "role": "editor", "testbed": "2n-\n**"},
        {"person": "bob\r\nSet-Cookie: x", "role": "editor"},
        {"person": "b\0b", "role": "editor"},
        {"person": "b\u202eb", "role": "editor"},
        {"person": "\ud800", "role": "editor"},
        {"person": "x" * 207, "role": "editor"},
        {"person": "x" * 201, "role": "editor"},
        {"person": "nobody", "role": "editor"},
        {"person": "token nightly", "role": "editor"},
        {"person": "group:", "role": "editor"},
        {"person": "group:group:x", "role": "editor"},
        {"person": ["bob"], "role": "editor"},
        ["bob"],
    ],
    ids=repr,
)
def test_impossible_grant_is_refused_in_one_line(admin: TestClient, site: AppContext, body: Any) -> None:
    headers = {**JSON, "X-CSRF-Token": token_of(admin)}
    answer = admin.post(
        "/users/grants", content=json.dumps(body), headers={**headers, "Content-Type": JSON["Accept"]}
    )

    assert answer.status_code in {400, 422}
    assert answer.json()["error"].isprintable()
    assert [] == site.store.grants.all()


@pytest.mark.parametrize("headers", [{}, {"X-CSRF-Token": "x"}, {"Origin": "https://evil.example"}], ids=repr)
def test_forged_form_grants_nothing(admin: TestClient, site: AppContext, headers: dict[str, str]) -> None:
    token = {"X-CSRF-Token": token_of(admin)} if "Origin" in headers else {}
    answer = admin.post(
        "/users/grants", json={"person": "evil", "role": "admin"}, headers={**JSON, **token, **headers}
    )

    assert 403 == answer.status_code
    assert [] == site.store.grants.all()


def test_hostile_text_of_a_grant_is_escaped(admin: TestClient, site: AppContext) -> None:
    hostile = '<script>x()</script>"&'
    site.store.grants.add(hostile, hostile, "editor", user=hostile)

    assert "<script>x" not in admin.get("/users").text


def test_admin_of_the_settings_removes_the_last_grant(admin: TestClient, site: AppContext) -> None:
    grant = send(admin, person="bob", role="admin").json()

    assert 200 == send(admin, f"/{grant['id']}/remove", version=1).status_code


def test_last_admin_does_not_lock_everyone_out(store: Store) -> None:
    """The settings name no admin, so a grant made the only one."""
    site = AppContext.of(Settings.load(environment={}), store)
    store.grants.add("bob", ALL_TESTBEDS, "admin", user="token of the operator")
    with ExitStack() as stack:
        bob = stack.enter_context(person(site, "bob"))
        [own] = store.grants.all()
        refused = [
            send(bob, f"/{own.identity}/remove", version=1),
            send(bob, f"/{own.identity}", role="editor", version=1),
        ]
        send(bob, person="eve", role="admin")

        assert {400} == {each.status_code for each in refused}
        assert "bob is the last admin" in refused[0].json()["error"]
        assert 200 == send(bob, f"/{own.identity}/remove", version=1).status_code
        assert ("viewer", {}) == role_of(bob)


def test_token_of_an_admin_manages_grants(client: TestClient, site: AppContext) -> None:
    _, text = new_token(site.store.tokens, name="accounts", role=Role.ADMIN, owner="command line", days=9)
    headers = {**JSON, "Authorization": f"Bearer {text}"}
    answer = client.post("/users/grants", json={"person": "bob", "role": "editor"}, headers=headers)

    assert (201, "token accounts") == (answer.status_code, answer.json()["granted_by"])

"""API tokens: created and revoked by admins, used by jobs, and never shown again."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext
from perftrend.dashboard.auth.authentication import find_token, new_token, user_of
from perftrend.dashboard.auth.users import Person, Role, User
from perftrend.errors import UsageError
from perftrend.store import Store
from perftrend.store.access import Token
from perftrend.store.schema import tokens

JSON = {"Accept": "application/json"}
DAY = timedelta(days=1)


def made(store: Store, role: Role = Role.EDITOR, days: int = 90) -> tuple[Token, str]:
    return new_token(store.tokens, name="nightly", role=role, owner="ada", days=days)


def used(store: Store, text: str, owner: User | None = None) -> User | None:
    """Return the user of a request with a token, whose owner has the given roles now."""

    def user_of_person(person: Person) -> User:
        assert owner is not None
        return replace(owner, name=person.name)

    token = find_token(store.tokens, text)
    return user_of(store.tokens, token, user_of_person) if token else None


def changed(store: Store, key: str, **columns: Any) -> None:
    with store._engine.begin() as connection:
        connection.execute(sa.update(tokens).where(tokens.c.key == key).values(**columns))


def test_token_lets_a_job_in_with_its_role(store: Store) -> None:
    _, text = made(store)

    assert User("token nightly", Role.EDITOR) == used(store, text)


def test_store_has_only_a_hash(store: Store, tmp_path: Path) -> None:
    _, text = made(store)
    secret = text[-20:].encode()

    store.close()

    assert not [file for file in tmp_path.iterdir() if secret in file.read_bytes()]


def test_expired_token_lets_nobody_in(store: Store) -> None:
    token, text = made(store, days=1)
    changed(store, token.key, expires=datetime.now(UTC))

    assert used(store, text) is None


def test_revoked_token_lets_nobody_in(store: Store) -> None:
    token, text = made(store)
    store.tokens.revoke(token.key, "ada", datetime.now(UTC))

    assert used(store, text) is None


def test_nothing_but_the_very_token_lets_in(store: Store) -> None:
    token, text = made(store)
    wrong = [
        text[:-1],
        text[:-1] + ("A" if text[-1] != "A" else "B"),
        text + "A",
        text.upper(),
        "",
        token.key,
    ]
    wrong += [
        f"perftrend_{token.key}_{'A' * 43}",
        f"perftrend_{token.key}_",
        token.hash,
        f" {text}",
        f"{text}\n",
    ]
    wrong += [text.replace(token.key, "0" * 12), "perftrend_' OR 1=1 --", "é" * 66]

    assert {None} == {used(store, each) for each in wrong}


def test_use_is_noted_to_the_minute(store: Store) -> None:
    token, text = made(store)
    begun = datetime.now(UTC)
    used(store, text)
    first = store.tokens.find(token.key)
    used(store, text)

    assert first is not None
    assert first.used is not None
    assert begun <= first.used <= datetime.now(UTC)
    assert first == store.tokens.find(token.key)

    store.tokens.note_use(token.key, begun - DAY)
    used(store, text)
    later = store.tokens.find(token.key)
    assert later is not None
    assert later.used is not None
    assert later.used >= begun


@pytest.mark.parametrize(
    ("name", "days"),
    [("", 90), ("a\nb", 90), ("x" * 300, 90), ("nightly", 0), ("nightly", 731), ("nightly", -1)],
)
def test_impossible_token_is_not_made(store: Store, name: str, days: int) -> None:
    with pytest.raises(UsageError):
        new_token(store.tokens, name=name, role=Role.VIEWER, owner="ada", days=days)

    assert [] == store.tokens.all()


def test_admin_makes_a_token_and_sees_it_once(admin: TestClient, client: TestClient) -> None:
    page = admin.post(
        "/users/tokens", data={"csrf": csrf(admin), "name": "nightly <b>", "role": "editor", "days": "7"}
    )

    assert (201, "no-store") == (page.status_code, page.headers["cache-control"])
    found = re.search(r'<code id="token">(perftrend_\w+_[\w-]+)</code>', page.text)
    assert found is not None
    assert "nightly &lt;b&gt;" in page.text
    bearer = {**JSON, "Authorization": f"Bearer {found[1]}"}
    assert {"name": "token nightly <b>", "role": "editor", "signed_in": True, "testbeds": {}} == client.get(
        "/me", headers=bearer
    ).json()
    assert found[1] not in admin.get("/users").text
    assert found[1] not in admin.get("/users", headers=JSON).text
    assert found[1] not in admin.get("/activity").text


def test_program_makes_and_revokes_a_token(admin: TestClient, client: TestClient, site: AppContext) -> None:
    headers = {**JSON, "X-CSRF-Token": csrf(admin)}
    told = admin.post("/users/tokens", json={"name": "nightly"}, headers=headers).json()
    bearer = {**JSON, "Authorization": f"Bearer {told['token']}"}
    assert ("viewer", "ada", "valid") == tuple(told["entry"][name] for name in ("role", "owner", "state"))
    assert 200 == client.get("/me", headers=bearer).status_code

    key = told["entry"]["key"]
    listed = admin.post(f"/users/tokens/{key}/revoke", headers=headers).json()

    assert [("revoked", "ada")] == [(each["state"], each["revoked_by"]) for each in listed["tokens"]]
    assert 401 == client.get("/me", headers=bearer).status_code
    assert ["revoked", "made"] == [act.action for act in site.store.activity.newest(9)]


def test_form_revokes_a_token(admin: TestClient, site: AppContext) -> None:
    token, text = made(site.store)

    answer = admin.post(f"/users/tokens/{token.key}/revoke", data={"csrf": csrf(admin)})

    assert (303, "/users") == (answer.status_code, answer.headers["location"])
    assert used(site.store, text) is None


@pytest.mark.parametrize("key", ["0" * 12, "x", "..%2f..", "0123456789AB"])
def test_token_that_is_not_there_cannot_be_revoked(admin: TestClient, key: str) -> None:
    answer = admin.post(f"/users/tokens/{key}/revoke", headers={**JSON, "X-CSRF-Token": csrf(admin)})

    assert answer.status_code in {404, 422}


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"name": ""},
        {"name": "x", "role": "root"},
        {"name": "x", "days": 0},
        {"name": "x", "days": "many"},
        {"name": ["x"]},
        {"name": "x\r\ny"},
        {"name": "nobody"},
        [],
        "x",
    ],
    ids=str,
)
def test_impossible_wish_is_refused_in_one_line(admin: TestClient, wanted: Any) -> None:
    answer = admin.post("/users/tokens", json=wanted, headers={**JSON, "X-CSRF-Token": csrf(admin)})

    assert answer.status_code in {400, 422}
    assert "\n" not in answer.json()["error"]


def test_job_needs_no_token_of_a_form(client: TestClient, site: AppContext) -> None:
    _, text = made(site.store, Role.ADMIN)

    answer = client.post(
        "/users/tokens",
        json={"name": "another"},
        headers={**JSON, "Authorization": f"bearer {text}", "Origin": "https://elsewhere.example"},
    )

    assert (201, "token nightly") == (answer.status_code, answer.json()["entry"]["owner"])


def test_job_may_do_what_its_token_says_and_no_more(client: TestClient, site: AppContext) -> None:
    _, text = made(site.store, Role.EDITOR)

    assert 403 == client.get("/users", headers={**JSON, "Authorization": f"Bearer {text}"}).status_code


def test_wrong_token_is_not_outweighed_by_a_session(admin: TestClient) -> None:
    """Who names a token means it: nobody goes on as somebody else."""
    headers = {**JSON, "Authorization": "Bearer perftrend_000000000000_x"}
    answer = admin.get("/users", headers=headers)
    sent = admin.post("/users/tokens", json={"name": "x"}, headers={**headers, "X-CSRF-Token": csrf(admin)})

    assert (401, 401) == (answer.status_code, sent.status_code)
    assert "Bearer" == answer.headers["www-authenticate"]


def test_token_outweighs_a_session(admin: TestClient, site: AppContext) -> None:
    """A job with a viewer's token does not get what the cookie beside it would give."""
    _, text = made(site.store, Role.VIEWER)

    assert 403 == admin.get("/users", headers={**JSON, "Authorization": f"Bearer {text}"}).status_code


def test_what_is_no_bearer_is_not_looked_at(client: TestClient) -> None:
    """Basic credentials are those of a proxy in front."""
    assert 200 == client.get("/me", headers={**JSON, "Authorization": "Basic YTpi"}).status_code


def test_page_lists_tokens_of_all_states(admin: TestClient, site: AppContext) -> None:
    valid, _ = made(site.store)
    site.store.tokens.add(replace(valid, key="a" * 12, expires=datetime.now(UTC) - DAY))
    site.store.tokens.add(replace(valid, key="b" * 12))
    site.store.tokens.revoke("b" * 12, "eva", datetime.now(UTC))

    told = admin.get("/users", headers=JSON).json()["tokens"]

    assert {valid.key: "valid", "a" * 12: "expired", "b" * 12: "revoked"} == {
        each["key"]: each["state"] for each in told
    }
    assert 1 == admin.get("/users").text.count("/revoke")


VIEWER = User("ada", Role.VIEWER)
ADMIN = User("ada", Role.ADMIN)


@pytest.mark.parametrize(
    ("role", "owner", "limited"),
    [
        (Role.EDITOR, ADMIN, User("token x", Role.EDITOR)),
        (Role.ADMIN, User("ada", Role.EDITOR), User("token x", Role.EDITOR)),
        (Role.ADMIN, VIEWER, User("token x", Role.VIEWER)),
        (
            Role.EDITOR,
            replace(VIEWER, testbeds=(("2n-clx", Role.ADMIN),)),
            User("token x", Role.VIEWER, testbeds=(("2n-clx", Role.EDITOR),)),
        ),
    ],
)
def test_token_has_at_most_the_roles_of_its_owner(
    store: Store, role: Role, owner: User, limited: User
) -> None:
    _, text = new_token(store.tokens, name="x", role=role, owner="ada", days=9, groups=())

    assert limited == used(store, text, owner)


def test_token_of_a_token_is_limited_by_both_and_ends_with_it(store: Store) -> None:
    first, _ = new_token(store.tokens, name="x", role=Role.EDITOR, owner="ada", days=9, groups=())
    second, text = new_token(store.tokens, name="y", role=Role.ADMIN, owner="token x", days=90, parent=first)

    assert User("token y", Role.EDITOR) == used(store, text, ADMIN)
    assert User("token y", Role.VIEWER) == used(store, text, VIEWER)
    assert first.expires == second.expires
    changed(store, first.key, expires=datetime.now(UTC))
    assert used(store, text, ADMIN) is None


def test_revoking_a_token_revokes_those_that_it_created(store: Store) -> None:
    first, _ = made(store)
    second, _ = new_token(store.tokens, name="y", role=Role.ADMIN, owner="token x", days=9, parent=first)
    third, text = new_token(store.tokens, name="z", role=Role.ADMIN, owner="token y", days=9, parent=second)
    other, _ = made(store)

    assert [True, False] == [store.tokens.revoke(first.key, "ada", datetime.now(UTC)) for _ in range(2)]

    assert used(store, text) is None
    assert {other.key} == {each.key for each in store.tokens.all() if each.revoked is None}
    assert ["token z", "token y", "token nightly"] == [
        each.subject for each in store.activity.newest(9) if each.action == "revoked"
    ]
    assert third.parent == second.key


def test_roles_of_an_owner_are_those_of_the_moment(
    client: TestClient, site: AppContext, store: Store
) -> None:
    """Bob is admin by a group, and no longer after the next sign-in."""
    store.grants.add("group:ops", "", "admin", user="ada")
    _, text = new_token(store.tokens, name="x", role=Role.ADMIN, owner="bob", days=9, groups=("ops",))
    headers = {**JSON, "Authorization": f"Bearer {text}"}
    roles = [client.get("/me", headers=headers).json()["role"]]
    store.tokens.update_groups("bob", ["all"])
    roles.append(client.get("/me", headers=headers).json()["role"])
    grant = store.grants.add("bob", "", "editor", user="ada")
    roles.append(client.get("/me", headers=headers).json()["role"])
    store.grants.remove(grant.identity, version=1, user="ada", is_last_admin_allowed=True)
    roles.append(client.get("/me", headers=headers).json()["role"])

    assert ["admin", "viewer", "editor", "viewer"] == roles


def test_token_from_the_page_belongs_to_its_owner(
    admin: TestClient, client: TestClient, store: Store
) -> None:
    headers = {**JSON, "X-CSRF-Token": csrf(admin)}
    first = admin.post("/users/tokens", json={"name": "x", "role": "admin"}, headers=headers).json()
    bearer = {**JSON, "Authorization": f"Bearer {first['token']}"}
    second = client.post("/users/tokens", json={"name": "y", "role": "editor"}, headers=bearer).json()

    one, two = (store.tokens.find(each["entry"]["key"]) for each in (first, second))
    assert one is not None
    assert two is not None
    assert ("ada", (), None) == (one.owner, one.groups, one.parent)
    assert ("token x", None, one.key) == (two.owner, two.groups, two.parent)


def csrf(client: TestClient) -> str:
    page = client.get("/users").text
    return page.partition('name="csrf" value="')[2].partition('"')[0]

"""Views: pages under a name."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext
from perftrend.dashboard.saved_views import normalize
from perftrend.errors import UsageError
from perftrend.store import Store, shortcuts
from tests.unit.dashboard.conftest import Filled, signed_in, token_of

JSON = {"Accept": "application/json"}


def post(client: TestClient, path: str, body: dict[str, Any] | None = None) -> Any:
    return client.post(path, json=body or {}, headers={**JSON, "X-CSRF-Token": token_of(client)})


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("/explore?q=metric%3Dmrr&unknown=2", ("/explore", {"q": ["metric=mrr"]})),
        ("https://perf.example.org/triage?status=bug&owner=ann&done=1.2&page=3",
         ("/triage", {"status": ["bug"], "owner": ["ann"]})),
        ("/triage", ("/triage", {})),
        ("/compare?by=commits&left=abc&right=def&csrf=1",
         ("/compare", {"by": ["commits"], "left": ["abc"], "right": ["def"]})),
    ],
)  # fmt: skip
def test_address_keeps_what_its_page_has(url: str, page: tuple[str, dict[str, list[str]]]) -> None:
    path, query = normalize(url)

    assert page == (path, parse_qs(query))


@pytest.mark.parametrize(
    "url",
    [
        "/runs", "//evil.example/x", "javascript:alert(1)", "/triage?status=odd", "/compare?sort=odd",
        "/explore?q=%3D1", "http://[", "",
    ],
)  # fmt: skip
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(UsageError, match="address: "):
        normalize(url)


def test_view_is_listed_on_its_page(filled: Filled, editor: TestClient, client: TestClient) -> None:
    saved = post(editor, "/views", {"name": " MRR <b> ", "url": "/explore?q=metric%3Dmrr"})

    assert 201 == saved.status_code
    view = saved.json()
    assert ("MRR <b>", "/explore?q=metric%3Dmrr", "eva") == (view["name"], view["url"], view["author"])
    link = '<a href="/explore?q=metric%3Dmrr"'
    assert link in client.get("/explore").text
    assert f'{link} aria-current="true"' in client.get("/explore?q=metric%3Dmrr").text
    assert link not in client.get("/triage").text
    assert [view] == client.get("/views", headers=JSON).json()["views"]
    assert "MRR &lt;b&gt;" in client.get("/views").text
    assert view["url"] == client.get(f"/views/{view['id']}").headers["location"]


def test_name_of_another_view_stays_in_the_form(filled: Filled, editor: TestClient) -> None:
    post(editor, "/views", {"name": "Morning", "url": "/triage?status=bug"})
    page = "/explore?q=metric%3Dmrr"
    form = {"name": "Morning", "url": page, "csrf": token_of(editor)}

    answer = editor.post("/views", data=form, headers={"Referer": f"http://localhost{page}"})

    assert 409 == answer.status_code
    assert re.search('<input name="name"[^>]* value="Morning"[^>]* aria-invalid="true"', answer.text)
    assert "eva has saved another page as" in answer.text


@pytest.mark.parametrize("path", ["/explore?q=metric%3Dmrr", "/triage?status=bug", "/compare?by=commits"])
def test_form_saves_the_page_that_it_is_on(filled: Filled, editor: TestClient, path: str) -> None:
    page = editor.get(path).text
    url = page.split('name="url" value="/', 1)[1].split('"', 1)[0]

    answer = editor.post(
        "/views", data={"csrf": token_of(editor), "name": "mine", "url": "/" + url.replace("&amp;", "&")}
    )

    assert 303 == answer.status_code
    assert (
        parse_qs(urlsplit(path).query).items() <= parse_qs(urlsplit(answer.headers["location"]).query).items()
    )
    assert "mine</a>" in editor.get(answer.headers["location"]).text


def test_name_is_not_taken_from_another_page(site: AppContext, editor: TestClient) -> None:
    body = {"name": "bugs", "url": "/triage?status=bug"}
    with signed_in(site, "ada") as other:
        assert 201 == post(other, "/views", body).status_code

    assert 201 == post(editor, "/views", body).status_code
    refused = post(editor, "/views", {**body, "url": "/triage"})

    assert 409 == refused.status_code
    assert "ada has saved another page as “bugs”" in refused.json()["error"]
    assert ["/triage?status=bug"] == [view.url for view in site.store.views.all()]


def test_view_is_deleted(site: AppContext, editor: TestClient) -> None:
    view = post(editor, "/views", {"name": "bugs", "url": "/triage?status=bug"}).json()
    assert f'action="/views/{view["id"]}/delete"' in editor.get("/views").text

    answer = editor.post(f"/views/{view['id']}/delete", data={"csrf": token_of(editor)})

    assert (303, "/views") == (answer.status_code, answer.headers["location"])
    assert [] == site.store.views.all()
    assert 404 == editor.get(f"/views/{view['id']}").status_code
    assert 404 == post(editor, f"/views/{view['id']}/delete").status_code
    assert [("deleted", "view bugs"), ("saved", "view bugs")] == [
        (each.action, each.subject) for each in site.store.activity.newest(5)
    ]


def test_viewer_uses_views_and_changes_none(filled: Filled, store: Store, site: AppContext) -> None:
    view = store.views.save("bugs", "/triage", "status=bug", user="eva").now
    assert view is not None
    with signed_in(site, "vic") as viewer:
        assert 403 == post(viewer, "/views", {"name": "x", "url": "/triage"}).status_code
        assert 403 == post(viewer, f"/views/{view.identity}/delete").status_code
        assert "Save view" not in viewer.get("/triage").text
        assert "bugs</a>" in viewer.get("/triage").text
        assert "Delete" not in viewer.get("/views").text
        assert "<summary>Views" not in viewer.get("/compare").text


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "", "url": "/triage"}, 422), ({"name": "  ", "url": "/triage"}, 422),
        ({"name": "x" * 101, "url": "/triage"}, 422), ({"name": "x", "url": "/runs"}, 400),
        ({"name": "x"}, 422), ({"name": "x", "url": "/triage?query=" + "a" * 17_000}, 400),
    ],
)  # fmt: skip
def test_what_cannot_be_a_view_is_refused(editor: TestClient, body: dict[str, Any], status: int) -> None:
    assert status == post(editor, "/views", body).status_code


def test_number_of_views_is_limited(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortcuts, "MOST_VIEWS", 1)
    store.views.save("a", "/triage", "", user="eva")

    with pytest.raises(UsageError, match="delete one"):
        store.views.save("b", "/triage", "", user="eva")
    assert store.views.save("a", "/triage", "", user="eva").is_done

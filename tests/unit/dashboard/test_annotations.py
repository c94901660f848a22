"""Annotations are read by all users, written by editors, and not lost in concurrent edits.

Their texts are shown unchanged, and only web addresses become links.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext
from perftrend.dashboard.annotations import linkify
from tests.unit.dashboard.conftest import RUNS, TESTBEDS, Filled, commit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
JSON = {"Accept": "application/json"}


@pytest.fixture
def annotated(site: AppContext) -> int:
    return site.store.annotations.add(COMMIT, "a new <compiler>", user="ann", testbed="2n-clx").identity


def listed(client: TestClient, **query: Any) -> Any:
    return client.get("/annotations", params=query, headers=JSON).json()


def test_page_shows_who_said_what(client: TestClient, annotated: int) -> None:
    page = client.get("/annotations").text

    assert "a new &lt;compiler&gt;" in page
    assert "ann" in page
    assert COMMIT in page
    assert '<form method="post"' not in page


def test_program_gets_the_same(client: TestClient, annotated: int) -> None:
    [told] = listed(client)["annotations"]

    assert (annotated, COMMIT, "a new <compiler>") == (told["id"], told["commit"], told["text"])
    assert [told] == listed(client, commit=COMMIT[:8])["annotations"]
    assert told == client.get(f"/annotations/{annotated}", headers=JSON).json()
    assert [] == listed(client, commit="fffffff")["annotations"]


def test_many_are_told_page_by_page(client: TestClient, site: AppContext) -> None:
    for number in range(60):
        site.store.annotations.add(COMMIT, str(number), user="ann")

    first = listed(client)
    second = listed(client, before=first["older"])

    texts = [each["text"] for told in (first, second) for each in told["annotations"]]
    assert [str(number) for number in reversed(range(60))] == texts
    assert second["older"] is None


def test_viewer_may_not_write(client: TestClient, annotated: int) -> None:
    for path in ("", f"/{annotated}", f"/{annotated}/delete"):
        sent = {"commit": COMMIT, "text": "x", "version": 1}
        assert client.post(f"/annotations{path}", json=sent, headers=JSON).status_code in {401, 403}


@pytest.mark.parametrize("path", ["/annotations?commit=xyz", "/annotations?commit=012345"])
def test_what_is_no_commit_is_refused_in_words(client: TestClient, path: str) -> None:
    answer = client.get(path, headers=JSON)

    assert (400, True) == (answer.status_code, "hex digits" in answer.json()["error"])


def test_person_sees_beside_the_form_what_is_no_commit(client: TestClient, annotated: int) -> None:
    answer = client.get("/annotations?commit=xyz")

    assert (400, True) == (answer.status_code, "hex digits" in answer.text)
    assert 'value="xyz"' in answer.text
    assert COMMIT in answer.text


def test_annotated_commit_leads_to_the_plot_around_it(client: TestClient, filled: Filled) -> None:
    for number, testbed in ((7, None), (8, TESTBEDS[1])):
        filled.store.annotations.add(commit(number)[:8], "measured", user="ann", testbed=testbed)
    filled.store.annotations.add("f" * 40, "never measured", user="ann")
    links = re.findall(
        r'href="(/explore\?[^"]*)" aria-label="Explore around', client.get("/annotations").text
    )
    shown = [client.get(unescape(link), headers=JSON).json() for link in links]

    assert [(TESTBEDS[1], 8), (TESTBEDS[0], 7)] == [
        (each["testbed"], each["notes"][-1]["column"]) for each in shown
    ]
    assert all(each["lines"] for each in shown)


def test_commits_that_were_measured_lately_are_offered(client: TestClient, filled: Filled) -> None:
    page = client.get("/annotations").text

    assert f'<option value="{commit(RUNS - 1)}">' in page
    assert f'<option value="{commit(0)}">' not in page


@pytest.mark.parametrize("path", ["/annotations/9", "/annotations/99999999999", "/annotations/0"])
def test_annotation_that_is_not_there_is_not_found(client: TestClient, path: str) -> None:
    assert client.get(path).status_code in {404, 422}


def test_form_of_an_editor_annotates(editor: TestClient, site: AppContext, token: str) -> None:
    sent = {"csrf": token, "commit": COMMIT.upper(), "text": "line\r\nline", "testbed": ""}

    answer = editor.post("/annotations", data=sent)

    assert (303, f"/annotations?commit={COMMIT}") == (answer.status_code, answer.headers["location"])
    [kept] = site.store.annotations.newest(5)
    assert ("line\nline", None, COMMIT) == (kept.text, kept.testbed, kept.commit)


def test_program_of_an_editor_annotates(editor: TestClient, filled: Filled, token: str) -> None:
    sent = {"commit": COMMIT, "text": "by a job", "testbed": TESTBEDS[0]}

    answer = editor.post("/annotations", json=sent, headers={**JSON, "X-CSRF-Token": token})

    assert 201 == answer.status_code
    assert ("by a job", TESTBEDS[0], 1) == tuple(
        answer.json()[name] for name in ("text", "testbed", "version")
    )


def test_form_without_its_token_is_refused(editor: TestClient, site: AppContext) -> None:
    assert 403 == editor.post("/annotations", data={"commit": COMMIT, "text": "x"}).status_code
    assert [] == site.store.annotations.newest(5)


def test_file_is_no_form(editor: TestClient, site: AppContext, token: str) -> None:
    answer = editor.post("/annotations", files={"text": b"new NIC"}, headers={"X-CSRF-Token": token})

    assert 415 == answer.status_code
    assert "application/x-www-form-urlencoded" in answer.text
    assert [] == site.store.annotations.newest(1)


def test_editor_changes_a_text(editor: TestClient, site: AppContext, token: str, annotated: int) -> None:
    form = editor.get(f"/annotations/{annotated}").text
    assert '<input type="hidden" name="version" value="1">' in form

    answer = editor.post(f"/annotations/{annotated}", data={"csrf": token, "text": "better", "version": 1})

    assert 303 == answer.status_code
    kept = site.store.annotations.find(annotated)
    assert kept is not None
    assert ("better", 2) == (kept.text, kept.version)


def test_slower_one_is_told_who_was_faster_and_loses_nothing(
    editor: TestClient, site: AppContext, token: str, annotated: int
) -> None:
    site.store.annotations.edit(annotated, "bob's", version=1, user="bob")
    sent = {"csrf": token, "text": "mine <b>", "version": 1}

    page = editor.post(f"/annotations/{annotated}", data=sent)
    told = editor.post(f"/annotations/{annotated}", json=sent, headers={**JSON, "X-CSRF-Token": token})

    assert (409, 409) == (page.status_code, told.status_code)
    assert all(part in page.text for part in ("bob edited it at", "bob&#39;s", "mine &lt;b&gt;"))
    assert '<input type="hidden" name="version" value="2">' in page.text
    assert ("bob's", 2, "mine <b>") == (
        told.json()["annotation"]["text"], told.json()["annotation"]["version"], told.json()["text"],
    )  # fmt: skip


def test_edit_of_what_was_deleted_tells_who_deleted_it(
    editor: TestClient, site: AppContext, token: str, annotated: int
) -> None:
    site.store.annotations.delete(annotated, version=1, user="bob")

    page = editor.post(f"/annotations/{annotated}", data={"csrf": token, "text": "mine", "version": 1})

    assert 409 == page.status_code
    assert all(part in page.text for part in ("bob deleted it at", "mine"))


def test_deletion_needs_the_version_that_is_there(
    editor: TestClient, site: AppContext, token: str, annotated: int
) -> None:
    path = f"/annotations/{annotated}/delete"

    assert 409 == editor.post(path, data={"csrf": token, "version": 2}).status_code
    assert site.store.annotations.find(annotated)
    assert 303 == editor.post(path, data={"csrf": token, "version": 1}).status_code
    assert site.store.annotations.find(annotated) is None


@pytest.mark.parametrize(
    "sent",
    [{}, {"commit": COMMIT}, {"commit": COMMIT, "text": " "}, {"commit": "no", "text": "x"},
     {"commit": COMMIT, "text": "x" * 4001}, {"commit": COMMIT, "text": "x", "testbed": "y" * 256}],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_in_one_line(
    editor: TestClient, site: AppContext, token: str, sent: dict[str, str]
) -> None:
    answer = editor.post("/annotations", json=sent, headers={**JSON, "X-CSRF-Token": token})

    assert answer.status_code in {400, 422}
    assert "\n" not in answer.json()["error"]
    assert [] == site.store.annotations.newest(5)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"text": "\\ud800"}', b"\xff"])
def test_broken_json_is_refused(editor: TestClient, token: str, body: bytes) -> None:
    headers = {**JSON, "X-CSRF-Token": token, "Content-Type": "application/json"}

    assert 422 == editor.post("/annotations", content=body, headers=headers).status_code


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("see https://bugs.example.org/12.", "https://bugs.example.org/12"),
        ("(http://a.example/b?c=1&d=2#e)", "http://a.example/b?c=1&d=2#e"),
        ("https://a.example/x, then", "https://a.example/x"),
    ],
)
def test_web_address_is_a_link(text: str, address: str) -> None:
    escaped = address.replace("&", "&amp;")

    assert f'<a href="{escaped}" rel="noopener noreferrer nofollow">{escaped}</a>' in linkify(text)


@pytest.mark.parametrize(
    "text",
    ["javascript:alert(1)", "data:text/html,x", "ftp://a.example", "//a.example", "https://", "xhttps:/a.b"],
)
def test_nothing_else_is_a_link(text: str) -> None:
    assert text == linkify(text)


def test_markup_is_shown_as_it_was_written() -> None:
    assert "&lt;b&gt; &amp; &#34;" == linkify('<b> & "')
    assert '"' not in re.sub(r'<a href="[^"]*" rel="[^"]*">', "", linkify('https://a.example/"onclick="x'))


@given(st.text() | st.from_regex(r"https?://[ -~]{0,30}"))
def test_text_cannot_make_elements_of_its_own(text: str) -> None:
    without_links = re.sub(r'<a href="https?://[^"<>]*" rel="[a-z ]*">|</a>', "", linkify(text))

    assert not re.search(r"[<>\"]", without_links)

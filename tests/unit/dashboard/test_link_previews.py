"""The preview of a link in a chat says what its page shows, and nothing to those who may not read."""

from __future__ import annotations

import re
from html import unescape

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext, make_app
from perftrend.settings import Settings
from tests.unit.dashboard.conftest import STEP, TESTBEDS, TESTS, Filled, commit

SLOWER = f"testbed={TESTBEDS[0]}&q=test%3D{TESTS[0]}"
SIDES = f"vertical=testbed&left={TESTBEDS[0]}&right={TESTBEDS[1]}"


def preview(page: str) -> dict[str, str]:
    """Return the OpenGraph properties of a page."""
    return {
        name: unescape(text) for name, text in re.findall(r'property="og:([^"]*)" content="([^"]*)"', page)
    }


@pytest.mark.parametrize(
    ("path", "title", "description"),
    [
        ("/", "Overview", "0 new items; 2 testbeds"),
        (f"/explore?{SLOWER}%26metric%3Dmrr", f"{TESTS[0]} mrr on {TESTBEDS[0]}", "1 regression"),
        (f"/explore?{SLOWER}", " and 2 more on ", "3 lines, 2026-01-01 to 2026-03-01: 3 regressions"),
        ("/explore?q=metric%3Dx", "Explore", ""),
        (
            f"/compare?{SIDES}",
            f"testbed {TESTBEDS[0]}, latest, compared with",
            "Left is better in 0, worse in 3",
        ),
        ("/compare", "Compare", ""),
        ("/runs", "Runs", ""),
    ],
)
def test_preview_says_what_the_page_shows(
    client: TestClient, filled: Filled, path: str, title: str, description: str
) -> None:
    page = client.get(path).text
    shown = preview(page)

    assert title in shown["title"]
    assert description in shown.get("description", "")
    assert bool(description) == ("description" in shown)
    assert f"<title>{shown['title']} · perftrend</title>" in unescape(page)


def test_preview_of_an_annotation_is_its_text_and_no_markup(client: TestClient, filled: Filled) -> None:
    added = filled.store.annotations.add(commit(STEP), '"><script>\n' + "x" * 300, user="ann")

    page = client.get(f"/annotations/{added.identity}").text

    assert "<script>" not in page.partition("</head>")[0]
    assert preview(page)["description"].startswith('"><script> xxx')
    assert len(preview(page)["description"]) <= 200


def test_address_is_public(filled: Filled) -> None:
    settings = Settings.load(environment={}, overrides={"dashboard.url": "https://perf.example.org"})
    with TestClient(make_app(AppContext.of(settings, filled.store)), base_url="http://localhost") as client:
        page = client.get("/runs?last=1&x=%22").text

    assert "https://perf.example.org/runs?last=1&x=%22" == preview(page)["url"]


def test_who_may_not_read_gets_no_preview(filled: Filled) -> None:
    added = filled.store.annotations.add(commit(STEP), "a secret", user="ann")
    closed = {
        "dashboard.public": "false",
        "dashboard.proxies": "127.0.0.1",
        "dashboard.user_header": "X-User",
    }
    settings = Settings.load(environment={}, overrides=closed)
    with TestClient(make_app(AppContext.of(settings, filled.store)), base_url="http://localhost") as client:
        answer = client.get(f"/annotations/{added.identity}", headers={"Accept": "text/html"})

    assert 401 == answer.status_code
    assert {"site_name", "type", "title"} == preview(answer.text).keys()
    assert "Sign in first" == preview(answer.text)["title"]
    assert "secret" not in answer.text

"""Commits are links to their reviews wherever the address of Gerrit is known."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext, make_app
from perftrend.settings import Settings
from tests.unit.dashboard.conftest import RUNS, STEP, TESTBEDS, TESTS, Filled, commit

PAGES = (
    "/",
    "/runs?last=1",
    "/annotations",
    f"/compare?vertical=testbed&left={TESTBEDS[0]}&right={TESTBEDS[1]}&row={TESTS[0]}",
    f"/explore?testbed={TESTBEDS[0]}&q=test%3D{TESTS[0]}%26metric%3Dmrr",
)
ANCHOR = re.compile(r"<a [^>]*>(?:(?!</a>).)*</a>", re.DOTALL)


@pytest.fixture
def settings() -> Settings:
    return Settings.load(environment={}, overrides={"gerrit.url": "https://review.example.org"})


@pytest.mark.parametrize("path", PAGES)
def test_each_commit_is_a_link(client: TestClient, filled: Filled, path: str) -> None:
    filled.store.annotations.add(commit(STEP), "slower", user="ann")

    page = client.get(path).text

    assert re.search(r'href="https://review.example.org/q/[0-9a-f]{40}"', page)
    assert '<code title="' not in ANCHOR.sub("", page)


def test_without_gerrit_there_is_no_link(filled: Filled) -> None:
    app = make_app(AppContext.of(Settings.load(environment={}, overrides={}), filled.store))
    with TestClient(app, base_url="http://localhost") as client:
        page = client.get("/runs?last=1").text

    assert commit(RUNS - 1)[:12] in page
    assert "review.example.org" not in page

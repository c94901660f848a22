"""The same URL answers people with a page and programs with JSON."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from starlette.testclient import TestClient

from tests.unit.dashboard.conftest import RUNS, TESTBEDS, Filled


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "text/html"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "text/html"),
        ("application/json", "application/json"),
        ("application/json, */*;q=0.5", "application/json"),
        ("text/html;q=0.5, application/json;q=0.9", "application/json"),
        ("application/json;q=0.5, text/html;q=0.9", "text/html"),
        ("application/json;q=x", "text/html"),
        ("", "text/html"),
    ],
)
def test_answer_has_the_form_that_is_asked_for(client: TestClient, accept: str, kind: str) -> None:
    answer = client.get("/runs", headers={"Accept": accept})

    assert kind == answer.headers["content-type"].split(";")[0]


def test_form_can_be_asked_for_in_the_url(client: TestClient) -> None:
    answer = client.get("/runs?format=json")

    assert {"testbeds": []} == answer.json()


def test_runs_are_linked_to_their_archives_and_reports(client: TestClient, filled: Filled) -> None:
    page = client.get("/runs?last=1").text

    build = f"https://jenkins.example.org/job/nightly-{TESTBEDS[0]}/{RUNS}/"
    assert f'<a href="{build}">build</a>' in page
    assert f'<a href="{build}artifact/report/index.html">report</a>' in page


def test_run_whose_number_is_used_again_is_marked_and_not_linked(client: TestClient, filled: Filled) -> None:
    newest = filled.store.runs(TESTBEDS[0])[-1]
    again = replace(newest, started=newest.started + timedelta(days=9))
    filled.store.add(again, [])

    runs = client.get("/runs?format=json&last=3").json()["testbeds"][0]["runs"]
    assert [RUNS, RUNS, RUNS - 1] == [run["build"] for run in runs]
    assert [False, True, False] == [run["replaced"] for run in runs]
    assert [True, False, True] == [bool(run["links"]) for run in runs]
    assert 1 == client.get("/runs?last=3").text.count("number used again")


def test_runs_are_told_newest_first(client: TestClient, filled: Filled) -> None:
    told = client.get("/runs?format=json&last=3").json()

    assert list(TESTBEDS) == [each["testbed"] for each in told["testbeds"]]
    assert [RUNS, RUNS - 1, RUNS - 2] == [run["build"] for run in told["testbeds"][0]["runs"]]

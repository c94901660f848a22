"""HEAD is answered wherever GET is: with the same head, and without a body."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard.server import JsonLines
from tests.unit.dashboard.conftest import Filled, routes_of


def test_every_page_answers_head_as_get(client: TestClient, filled: Filled) -> None:
    app: Any = client.app
    pages = [
        route.path for route in routes_of(app) if "GET" in (route.methods or ()) and "{" not in route.path
    ]

    told = {path: (client.head(path), client.get(path)) for path in pages}

    assert len(pages) > 10
    assert [] == [path for path, (head, get) in told.items() if head.status_code != get.status_code]
    assert [] == [path for path, (head, _) in told.items() if head.content]
    assert [] == [
        path
        for path, (head, get) in told.items()
        if head.headers.get("content-type") != get.headers.get("content-type")
    ]


@pytest.mark.parametrize("path", ["/runs?format=json", "/openapi.json", "/nowhere?format=json"])
def test_head_tells_the_length_of_what_get_sends(client: TestClient, filled: Filled, path: str) -> None:
    head, get = client.head(path), client.get(path)

    assert get.headers["content-length"] == head.headers["content-length"]
    assert (b"", True) == (head.content, len(get.content) > 10)


def test_head_of_what_is_no_page_is_refused(client: TestClient) -> None:
    answer = client.head("/shortcuts")

    assert (405, b"") == (answer.status_code, answer.content)


def test_head_is_recorded_as_such(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "perftrend"):
        client.head("/runs")

    [line] = [json.loads(JsonLines().format(each)) for each in caplog.records if each.msg == "request"]
    assert ("HEAD", "/runs", 0) == (line["method"], line["path"], line["bytes"])
    assert (
        'perftrend_dashboard_requests_total{method="HEAD",route="/runs",status="200"} 1.0'
        in client.get("/metrics").text
    )

"""Browsers cache static files for good, and fetch them again when they have changed."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard import static


def test_pages_name_files_that_are_kept_for_good(client: TestClient) -> None:
    (address,) = re.findall(r'<link rel="stylesheet" href="([^"]*base[^"]*)"', client.get("/runs").text)

    answer = client.get(address)

    assert "text/css; charset=utf-8" == answer.headers["Content-Type"]
    assert "immutable" in answer.headers["Cache-Control"]
    assert "--paper" in answer.text


def test_file_of_an_earlier_version_is_the_present_one_and_not_kept(client: TestClient) -> None:
    answer = client.get("/static/0123456789abcdef/base.js")

    assert 200 == answer.status_code
    assert "no-cache" == answer.headers["Cache-Control"]


def test_plotly_comes_from_its_wheel_packed_and_kept(client: TestClient) -> None:
    answer = client.get(static.plotly_url(), headers={"Accept-Encoding": "gzip"})

    assert "plotly.js v" in answer.text[:200]
    assert "gzip" == answer.headers["Content-Encoding"]
    assert int(answer.headers["Content-Length"]) < 2_000_000
    assert "immutable" in answer.headers["Cache-Control"]


def test_plotly_adds_no_style_that_the_policy_forbids(client: TestClient) -> None:
    identity = static.plotly_style_id()

    assert f'getElementById("{identity}"))' in client.get(static.plotly_url()).text
    assert f'<link rel="plotly" id="{identity}"' in client.get("/explore").text


def test_who_cannot_unpack_gets_a_file_as_it_is(client: TestClient) -> None:
    answer = client.get(static.url("base.js"), headers={"Accept-Encoding": "identity"})

    assert "Content-Encoding" not in answer.headers
    assert "localTimes" in answer.text


@pytest.mark.parametrize(
    "path",
    ["x/..%2fapp.py", "x/%2e%2e/app.py", "x/..", "x/base.css%00", "plotly-9.9.9.min.js", "x/etc%2fpasswd"],
)
def test_nothing_else_is_a_file(client: TestClient, path: str) -> None:
    assert 404 == client.get(f"/static/{path}").status_code


def test_template_that_names_no_file_is_found_out() -> None:
    with pytest.raises(LookupError, match=r"static/lacking\.js"):
        static.url("lacking.js")

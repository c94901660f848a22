"""The middleware that every request passes."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
from fastapi import FastAPI, Request
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext, make_app
from perftrend.dashboard.middleware.security import allowed_hosts
from perftrend.dashboard.server import JsonLines, log_to
from perftrend.settings import DashboardSettings, Settings
from perftrend.store import Store

MOST = 1000


@pytest.fixture
def settings() -> Settings:
    overrides = {"dashboard.maximum_bytes": MOST, "dashboard.url": "https://perf.example.org"}
    return Settings.load(environment={}, overrides=overrides)


@pytest.fixture
def app(site: AppContext) -> FastAPI:
    made = make_app(site)

    @made.post("/sizes/{name}")
    async def sizes(request: Request, name: str) -> dict[str, object]:
        return {"name": name, "bytes": len(await request.body())}

    @made.get("/faulty")
    def faulty() -> None:
        raise ZeroDivisionError("token=sesame")

    return made


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as opened:
        yield opened


def in_chunks(size: int) -> Iterator[bytes]:
    for _ in range(size // 100):
        yield b"x" * 100


@pytest.mark.parametrize("path", ["/runs", "/nowhere", "/faulty", "/healthz"])
def test_every_answer_says_what_pages_may_do(client: TestClient, path: str) -> None:
    headers = client.get(path).headers

    policy = headers["Content-Security-Policy"]
    assert "default-src 'self';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "nosniff" == headers["X-Content-Type-Options"]
    assert headers["Strict-Transport-Security"].startswith("max-age=")


def test_answer_to_another_host_has_the_headers_too(client: TestClient) -> None:
    answer = client.get("/runs", headers={"Host": "evil.example"})

    assert 421 == answer.status_code
    assert "Content-Security-Policy" in answer.headers
    assert "evil" not in answer.text


@pytest.mark.parametrize(
    ("host", "status"),
    [("perf.example.org", 200), ("PERF.example.org:443", 200), ("[::1]:8080", 200), ("127.0.0.1", 200),
     ("perf.example.org.evil.example", 421), ("", 421), ("[::1", 421), ("a@localhost", 200)],
)  # fmt: skip
def test_only_known_hosts_are_served(client: TestClient, host: str, status: int) -> None:
    assert status == client.get("/runs", headers={"Host": host}).status_code


def test_hosts_are_those_of_address_url_and_settings() -> None:
    settings = DashboardSettings(
        address="perf:8080", url="https://perf.example.org:8443/x", hosts=("Old.example.org",)
    )

    assert {"localhost", "127.0.0.1", "::1", "perf", "perf.example.org", "old.example.org"} == allowed_hosts(
        settings
    )


def test_body_up_to_the_limit_passes(client: TestClient) -> None:
    assert MOST == client.post("/sizes/x", content=b"x" * MOST).json()["bytes"]
    assert MOST == client.post("/sizes/x", content=in_chunks(MOST)).json()["bytes"]


def test_body_that_is_told_to_be_too_long_is_refused(client: TestClient) -> None:
    answer = client.post("/sizes/x", content=b"x" * (MOST + 1), headers={"Accept": "application/json"})

    assert 413 == answer.status_code
    assert {"error": "the request is too long; at most 1000 bytes are allowed"} == answer.json()
    assert "close" == answer.headers["Connection"]


def test_body_that_turns_out_too_long_is_refused(client: TestClient) -> None:
    answer = client.post("/sizes/x", content=in_chunks(MOST + 100))

    assert 413 == answer.status_code
    assert "the request is too long" in answer.text


def test_body_without_an_end_that_nobody_wants_is_not_waited_for(client: TestClient) -> None:
    answer = client.post("/nowhere", content=in_chunks(MOST))

    assert (404, "close") == (answer.status_code, answer.headers.get("Connection"))


def test_log_has_a_line_for_each_request(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "perftrend"):
        client.get(
            "/runs?last=3&token=sesame", headers={"Authorization": "Bearer sesame", "Cookie": "a=sesame"}
        )

    lines = [JsonLines().format(record) for record in caplog.records]
    told = [json.loads(line) for line in lines]
    asked = [each for each in told if each["event"] == "request"]
    assert [("GET", "/runs")] == [(each["method"], each["path"]) for each in asked]
    assert not any("sesame" in line for line in lines)


def test_line_breaks_in_a_path_make_no_second_line(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "perftrend"):
        client.get('/no%0A{"level": "error"}')

    (line,) = [JsonLines().format(record) for record in caplog.records]
    assert "\n" not in line
    assert '/no\n{"level": "error"}' == json.loads(line)["path"]


def test_requests_are_counted_by_route(client: TestClient) -> None:
    client.post("/sizes/a")
    client.post("/sizes/b")
    client.get("/nowhere/a")
    client.get("/faulty")

    told = client.get("/metrics").text
    name = "perftrend_dashboard_requests_total"
    assert f'{name}{{method="POST",route="/sizes/{{name}}",status="200"}} 2.0' in told
    assert f'{name}{{method="GET",route="none",status="404"}} 1.0' in told
    assert f'{name}{{method="GET",route="/faulty",status="500"}} 1.0' in told
    assert "nowhere" not in told


def test_fault_tells_nothing_of_itself(client: TestClient) -> None:
    answer = client.get("/faulty", headers={"Accept": "application/json"})

    assert 500 == answer.status_code
    request_id = answer.headers["X-Request-ID"]
    message = f"internal error of the dashboard; its log has the details of request {request_id}"
    assert {"error": message} == answer.json()


def test_large_answers_are_packed(client: TestClient, store: Store) -> None:
    answer = client.get("/openapi.json", headers={"Accept-Encoding": "gzip"})

    assert "gzip" == answer.headers["Content-Encoding"]
    assert "/runs" in answer.json()["paths"]


@pytest.mark.usefixtures("original_log")
@pytest.mark.parametrize(
    ("level", "paths"), [("debug", ["/healthz", "/runs"]), ("info", ["/runs"]), ("warning", [])]
)
def test_level_of_the_log_is_that_of_the_settings(client: TestClient, level: str, paths: list[str]) -> None:
    stream = io.StringIO()
    log_to(stream, level)

    client.get("/healthz")
    client.get("/runs")

    logged = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert paths == [each["path"] for each in logged if each["event"] == "request"]

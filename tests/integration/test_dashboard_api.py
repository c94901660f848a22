"""Whatever is sent to the dashboard, it answers, and never by a fault of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
from http.client import HTTPResponse
from pathlib import Path

import pytest
import requests

from tests.integration.servers.dashboard import Dashboard

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
"""It answers, and with what ``/openapi.json`` says."""


@pytest.mark.slow
def test_every_request_is_answered_as_it_is_described(
    dashboard: Dashboard, tmp_path: Path, *, thorough: bool
) -> None:
    """Send requests that schemathesis makes up from ``/openapi.json``."""
    extent = ["coverage,fuzzing"] if thorough else ["fuzzing", "--generation-deterministic"]
    token = dashboard.new_token("schemathesis", role="admin")
    ended = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "run", f"{dashboard.url}/openapi.json",
         "--header", f"Authorization: Bearer {token}", "--header", "Accept: application/json",
         "--checks", CHECKS, "--max-examples", "5", "--no-color", "--phases", *extent],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert 0 == ended.returncode, ended.stdout[ended.stdout.find("= FAILURES =") :] + ended.stderr


@pytest.mark.parametrize(
    ("headers", "status", "kind"),
    [
        ({"X-Perftrend-Timestamp": "\x00"}, 400, "text/plain"),
        ({"Host": "elsewhere.example"}, 421, "text/plain"),
        ({"Host": "elsewhere.example", "Accept": "application/json"}, 421, "application/json"),
    ],
    ids=["no HTTP", "foreign host", "foreign host as JSON"],
)
def test_what_no_page_gets_to_see_is_answered_as_it_is_described(
    dashboard: Dashboard, headers: dict[str, str], status: int, kind: str
) -> None:
    host, _, port = dashboard.url.removeprefix("http://").partition(":")
    said = "".join(f"{name}: {value}\r\n" for name, value in ({"Host": host} | headers).items())
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(f"POST /ingest HTTP/1.1\r\n{said}Content-Length: 0\r\n\r\n".encode())
        answer = HTTPResponse(connection)
        answer.begin()

    described = requests.get(f"{dashboard.url}/openapi.json", timeout=60).json()["paths"]["/ingest"]["post"]
    responses = described["responses"]
    assert (status, kind) == (answer.status, answer.headers.get_content_type())
    assert kind in responses.get(str(status), responses["4XX"])["content"]

"""Jobs announce their runs to the dashboard, and continue if it does not answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from pydantic import SecretStr

from perftrend.cli.trending import announce
from perftrend.clients.build_events import MOMENT_HEADER, SIGNATURE_HEADER, signature
from perftrend.model import Run
from perftrend.settings import Settings

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
RUN = Run("2n-clx", "nightly-2n-clx", 7, MOMENT, MOMENT)
SECRET = "5ecret"  # noqa: S105 - of nobody


class Receiver(BaseHTTPRequestHandler):
    status = 202
    received: list[tuple[str, dict[str, str], bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append((self.path, dict(self.headers), body))
        self.send_response(self.status)
        self.send_header("Location", "http://elsewhere.example.org/")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def receiver() -> Iterator[type[Receiver]]:
    kind = type("OneReceiver", (Receiver,), {"received": []})
    with HTTPServer(("127.0.0.1", 0), kind) as server:
        kind.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield kind
        server.shutdown()
        thread.join()


def settings(url: str, secret: str = SECRET) -> Settings:
    given = {"PERFTREND_DASHBOARD_URL": url, "PERFTREND_DASHBOARD_INGEST_SECRET": secret}
    return Settings.load(environment={name: value for name, value in given.items() if value})


def test_event_is_signed_and_names_the_build(receiver: type[Receiver]) -> None:
    announce(settings(receiver.url + "/"), RUN)

    [(path, headers, body)] = receiver.received
    assert ("/ingest", b'{"job": "nightly-2n-clx", "build": 7}') == (path, body)
    assert headers[SIGNATURE_HEADER] == signature(SecretStr(SECRET), headers[MOMENT_HEADER], body)


@pytest.mark.parametrize("given", [settings("", SECRET), settings("http://127.0.0.1:9", "")])
def test_nothing_is_sent_unless_address_and_secret_are_set(
    given: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    announce(given, RUN)

    assert "" == capsys.readouterr().err


@pytest.mark.parametrize("status", [302, 401, 503])
def test_refusal_is_told_and_the_job_goes_on(
    receiver: type[Receiver], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    receiver.status = status
    announce(settings(receiver.url), RUN)

    told = capsys.readouterr().err
    assert (
        f"the dashboard was not notified of run nightly-2n-clx/7: {receiver.url}/ingest: answers {status}"
        in told
    )
    assert SECRET not in told
    assert 1 == len(receiver.received)


def test_dashboard_that_is_away_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    announce(settings("http://127.0.0.1:9"), RUN)

    assert "ConnectionError; is the dashboard there?" in capsys.readouterr().err

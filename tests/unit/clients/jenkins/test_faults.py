"""What the client makes of a server that fails, refuses or misbehaves."""

from __future__ import annotations

import datetime
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import tenacity

from perftrend.clients.http_service import pause_before_retry
from perftrend.clients.jenkins import Jenkins, UnavailableError, api, connect
from perftrend.errors import PerftrendError, ServiceError, SettingsError, UsageError
from perftrend.settings import JenkinsSettings
from tests.doubles import faulty
from tests.doubles import jenkins as doubles
from tests.doubles.faulty import Fault
from tests.doubles.jenkins import JenkinsDouble, Job

Client = Callable[..., Jenkins]
SECRET = "t0ken-of-somebody"  # noqa: S105 - it opens nothing


def refusal(jenkins: Jenkins, kind: type[PerftrendError] = ServiceError) -> str:
    with pytest.raises(kind) as caught:
        list(jenkins.jobs())
    message = str(caught.value)
    assert message.isprintable()
    assert SECRET not in message
    return message


@pytest.mark.parametrize(
    "fault",
    [
        faulty.status(500),
        faulty.status(503),
        faulty.reset,
        faulty.cut_off,
        faulty.silent(0.4),
    ],
    ids=["500", "503", "reset", "cut off", "silent"],
)
def test_what_passes_is_asked_again(client: Client, double: JenkinsDouble, fault: Fault) -> None:
    double.jobs["x"] = Job([])
    double.faults.extend([fault, fault])

    assert ["x"] == list(client(timeout_s=0.2).jobs())
    assert 3 == len(double.requests)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (faulty.status(500), "500 Internal Server Error; look into its log, or try again later"),
        (faulty.status(599), ": 599; look into its log"),
        (faulty.reset, "broke the connection off"),
        (faulty.cut_off, "broke the connection off"),
        (faulty.silent(0.4), "sent nothing for 0.2 s"),
        (faulty.dripping(2), "sends next to nothing"),
        (faulty.dripping_head(5), "sent nothing for 0.2 s"),
    ],
)
def test_what_does_not_pass_is_told_after_the_last_attempt(
    client: Client, double: JenkinsDouble, fault: Fault, expected: str
) -> None:
    double.always = fault

    message = refusal(client(timeout_s=0.2, attempts=2), UnavailableError)

    assert message.startswith(f"GET {double.url}/api/json: ")
    assert expected in message
    assert 2 == len(double.requests)


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (faulty.status(400), "400 Bad Request; check jenkins.url"),
        (faulty.status(401), "401 Unauthorized; check jenkins.user and jenkins.token"),
        (faulty.status(403), "403 Forbidden; give the user 'me' the permission"),
        (faulty.status(404), "404 Not Found; check jenkins.url and the name"),
        (faulty.status(429), "429 Too Many Requests; send fewer requests"),
        (faulty.status(499), ": 499; check jenkins.url"),
        (faulty.page, "the response is not a JSON object; is a proxy or a login page in between?"),
        (lambda handler: handler.send(200, b"[" * 100_000), "the response is not a JSON object"),
        (lambda handler: handler.send(200, b'{"jobs": ' + b"9" * 5000 + b"}"), "is not a JSON object"),
        (lambda handler: handler.send(200, b"\xff\xfe{}"), "is not a JSON object"),
        (lambda handler: handler.json([1]), "is not a JSON object"),
        (lambda handler: handler.json({"jobs": [7]}), "lists a job None"),
        (
            lambda handler: handler.send(200, b"no gzip", {"Content-Encoding": "gzip"}),
            "answers with broken compression",
        ),
        (faulty.redirected_to("http://[::"), "the request failed"),
        (faulty.redirected_to("ftp://example.org/"), "the request failed"),
    ],
)
def test_what_lasts_is_told_at_once(
    client: Client, double: JenkinsDouble, fault: Fault, expected: str
) -> None:
    double.always = fault

    message = refusal(client(user="me", token=SECRET))

    assert expected in message
    assert 1 == len(double.requests)


def test_redirects_in_a_circle_are_told(client: Client, double: JenkinsDouble) -> None:
    double.always = faulty.redirected_to("/api/json")

    assert "is redirected without end" in refusal(client())
    assert len(double.requests) < 10


def test_proxy_is_asked_and_bounded_alike(double: JenkinsDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", double.url)
    double.jobs["x"] = Job([])
    behind = Jenkins("http://ci.example.org/jenkins", timeout_s=0.2, attempts=2, wait=tenacity.wait_none())
    double.faults.append(lambda handler: handler.json({"jobs": [{"name": "x"}]}))

    assert ["x"] == list(behind.jobs())
    double.always = faulty.dripping_head(5)
    assert "try again later" in refusal(behind, UnavailableError)


def test_server_that_is_not_there_is_told(double: JenkinsDouble) -> None:
    closed = Jenkins("http://127.0.0.1:1", attempts=2, wait=tenacity.wait_none())

    assert "cannot be reached (Connection refused); check jenkins.url" in refusal(closed, UnavailableError)


def test_answer_without_end_is_not_kept(
    client: Client, double: JenkinsDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    double.always = lambda handler: handler.send(200, b" " * 200_000)
    monkeypatch.setattr(api, "MAXIMUM_JSON", 100_000)

    assert "answers with more than 100000 bytes; request less" in refusal(client())


def test_user_and_token_log_in(client: Client, double: JenkinsDouble) -> None:
    double.login = ("mé", SECRET)

    assert [] == list(client(user="mé", token=SECRET).jobs())
    assert "401" in refusal(client())
    assert "401" in refusal(client(user="mé", token=SECRET.upper()))


def test_login_does_not_follow_a_redirect_to_another_server(client: Client, double: JenkinsDouble) -> None:
    with doubles.running() as other:
        double.always = faulty.redirected_to(f"{other.url.replace('127.0.0.1', 'localhost')}/api/json")

        list(client(user="me", token=SECRET).jobs())

    assert "Authorization" in double.requests[0].headers
    assert "Authorization" not in other.requests[0].headers


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("http://me:pass@h/", {}),
        ("h:8080", {}),
        ("file:///etc", {}),
        ("http://", {}),
        ("http://h", {"user": "me"}),
        ("http://h", {"token": SECRET}),
    ],
)
def test_unusable_address_or_login_is_refused(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        Jenkins(url, **options)

    assert "pass@" not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_settings_name_the_server(double: JenkinsDouble) -> None:
    double.login = ("me", SECRET)
    settings = JenkinsSettings(url=double.url, user="me", token=SECRET)

    assert [] == list(connect(settings).jobs())


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "jenkins.url is not set"), ({"url": "http://h", "user": "me"}, "belong together")],
)
def test_settings_that_name_none_are_refused(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(SettingsError, match=expected):
        connect(JenkinsSettings(**given))


def test_token_is_in_no_representation(client: Client) -> None:
    jenkins = client(user="me", token=SECRET)

    assert SECRET not in f"{jenkins!r} {jenkins}"


def pause_after(error: BaseException | None) -> float:
    state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
    outcome: tenacity.Future = tenacity.Future(1)
    outcome.set_exception(error)
    state.outcome = outcome
    return pause_before_retry(state)


def test_pause_is_what_the_server_asks_for_within_reason() -> None:
    assert 7 == pause_after(UnavailableError("", 7))
    assert 300 == pause_after(UnavailableError("", 1e9))
    assert 0 < pause_after(UnavailableError("")) <= 2


def test_server_may_ask_for_a_pause_in_seconds_or_until_a_moment(
    client: Client, double: JenkinsDouble
) -> None:
    asked = []

    def wait(state: tenacity.RetryCallState) -> float:
        asked.append(state.outcome.exception().retry_after_s)  # type: ignore[union-attr]
        return 0.0

    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    for told in ("120", format_datetime(later), "soon", "Mon, 99 Foo 2020", "-3"):
        double.faults.append(faulty.status(503, Retry_After=told))
    list(client(attempts=9, wait=wait).jobs())

    assert 120 == asked[0]
    assert 3500 < asked[1] <= 3600
    assert [None, None, None] == asked[2:]


@pytest.fixture
def https(tmp_path: Path, require: Callable[[object, str], None]) -> Iterator[tuple[str, Path]]:
    """Run a server with a certificate that nobody has signed."""
    require(shutil.which("openssl"), "needs openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *args: object) -> None:
            """Stay silent."""

    class Server(HTTPServer):
        def handle_error(self, *args: object) -> None:
            """Stay silent."""

    with Server(("127.0.0.1", 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"https://localhost:{server.server_address[1]}", certificate
        server.shutdown()
        thread.join()


def test_certificate_that_is_not_trusted_is_told_at_once(
    https: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)
    url, certificate = https

    def never(state: tenacity.RetryCallState) -> float:
        raise AssertionError("asked again")

    message = refusal(Jenkins(url, wait=never))
    assert "its certificate is not trusted (self-signed certificate)" in message
    assert "REQUESTS_CA_BUNDLE" in message

    # Meant for another library, long ago.
    monkeypatch.setenv("PYTHONHTTPSVERIFY", "0")
    assert "is not trusted" in refusal(Jenkins(url, wait=never))

    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    assert [] == list(Jenkins(url).jobs())

    assert "is not trusted" in refusal(Jenkins(url.replace("localhost", "127.0.0.1"), wait=never))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere")
    assert "REQUESTS_CA_BUNDLE names no file" in refusal(Jenkins(url, wait=never))

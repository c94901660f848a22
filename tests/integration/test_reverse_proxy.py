"""The dashboard behind a real nginx with the configuration of the documentation."""

from __future__ import annotations

import json
import re
import resource
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPMessage, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from perftrend.store import Store
from tests.integration.servers import nginx, web
from tests.integration.servers.dashboard import CHECKOUT, USER_HEADER, Dashboard
from tests.integration.servers.java import LackingError, free_port

CONFIGURATION = CHECKOUT / "deploy" / "nginx.conf"
HOST = "perf.example.org"
PATIENCE_S = 120
UPSTREAM = "server ${DASHBOARD}"
FREE = 1000
"""Requests that a client may make at once, here and at the dashboard."""
IDLE = 1000
MANY_FILES = 20_000
COMPLETE = f"GET /healthz HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
TEAM = {
    "url": f"https://{HOST}", "proxies": ["127.0.0.1"], "public": True, "user_header": USER_HEADER,
    "editors": ["ann"], "secret": "s" * 40, "burst": FREE,
}  # fmt: skip


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    with Dashboard(tmp_path_factory.mktemp("dashboard"), settings=TEAM) as running:
        yield running


class Proxy:
    """A running nginx with its certificate."""

    def __init__(self, folder: Path, http: int, https: int) -> None:
        self.http = http
        self.https = https
        self._trusting = ssl.create_default_context(cafile=str(folder / "certificate.pem"))

    def get(
        self, path: str, *, method: str = "GET", source: str = "127.0.0.1", **headers: str
    ) -> tuple[int, HTTPMessage, bytes]:
        """Send a request from an address of this machine; return status, headers and body."""
        connection = HTTPSConnection(
            "127.0.0.1", self.https, timeout=PATIENCE_S, context=self._trusting, source_address=(source, 0)
        )
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(connection):
            connection.request(method, path, headers={"Host": HOST, **named})
            response = connection.getresponse()
            return response.status, response.headers, response.read()

    def connect(self, *, source: str = "127.0.0.1") -> ssl.SSLSocket:
        """Return an open connection on which nothing was sent."""
        plain = self.connect_plain(source=source)
        return self._trusting.wrap_socket(plain, server_hostname="127.0.0.1")

    def connect_plain(self, *, source: str = "127.0.0.1") -> socket.socket:
        """Return an open connection on which not even a TLS handshake was begun."""
        address = ("127.0.0.1", self.https)
        return socket.create_connection(address, timeout=PATIENCE_S, source_address=(source, 0))


@pytest.fixture
def proxied(
    dashboard: Dashboard, tmp_path: Path, require: Callable[[object, str], None]
) -> Callable[..., Any]:
    """Run nginx in front of the dashboard, with other values for some directives."""

    @contextmanager
    def running(values: dict[str, str] | None = None) -> Iterator[Proxy]:
        http, https = free_port(), free_port()
        replaced = {
            "listen 80": f"listen 127.0.0.1:{http}",
            "listen 443 ssl": f"listen 127.0.0.1:{https} ssl",
            UPSTREAM: f"server {dashboard.url.removeprefix('http://')}",
            "${PUBLIC_HOST}": HOST,
            "/etc/nginx/tls/perftrend.pem": str(tmp_path / "certificate.pem"),
            "/etc/nginx/tls/perftrend.key": str(tmp_path / "key.pem"),
            "/var/log/nginx/access.log": str(tmp_path / "access.log"),
            "burst=200": f"burst={FREE}",
            **(values or {}),
        }
        text = CONFIGURATION.read_text()
        for before, after in replaced.items():
            assert before in text
            text = text.replace(before, after)
        make_certificate(tmp_path)
        write_configuration(tmp_path, text)
        try:
            command = [web.program(nginx.PROGRAM), "-p", f"{tmp_path}/", "-e", f"{tmp_path}/error.log"]
        except LackingError as lacking:
            require(condition=False, reason=str(lacking))
        # Tests that are killed have no time to end it.
        dying = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
        process = subprocess.Popen(
            [*dying, *command, "-c", str(tmp_path / "nginx.conf")], start_new_session=True
        )
        try:
            wait_until_listening(https, process, tmp_path / "error.log")
            yield Proxy(tmp_path, http, https)
        finally:
            process.terminate()
            process.wait(PATIENCE_S)

    return running


def make_certificate(folder: Path) -> None:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem"), "-days", "2",
         "-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST},IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip


def write_configuration(folder: Path, text: str) -> None:
    """Write what a distribution has around the file, with all that nginx writes in a folder."""
    paths = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "\n".join(f"{name}_temp_path {folder}/{name};" for name in paths)
    (folder / "perftrend.conf").write_text(text)
    (folder / "nginx.conf").write_text(
        f"daemon off;\npid {folder}/nginx.pid;\nworker_processes 1;\n{nginx.user()}\n"
        f"{documented(text, 'worker_rlimit_nofile')}\nevents {{ {documented(text, 'worker_connections')} }}\n"
        f"http {{\naccess_log off;\n{temporary}\ninclude {folder}/perftrend.conf;\n}}\n"
    )


def documented(text: str, directive: str) -> str:
    """Return a directive that the file recommends for the main configuration, which it cannot set itself."""
    found = re.search(rf"^# .*?({directive} \d+;)", text, re.MULTILINE)
    assert found is not None
    return found[1]


def wait_until_listening(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()
        except ConnectionRefusedError:
            time.sleep(0.05)
        else:
            return
    pytest.fail(log.read_text())


def requests_of(dashboard: Dashboard, client: str) -> list[str]:
    """Return the paths that the dashboard has logged for a client, once there are any."""
    deadline = time.monotonic() + PATIENCE_S
    paths: list[str] = []
    while not paths and time.monotonic() < deadline:
        lines = [json.loads(line) for line in list(dashboard.said) if line.startswith("{")]
        paths = [line["path"] for line in lines if line.get("client") == client]
        time.sleep(0.01)
    return paths


def test_pages_are_served_by_https_alone(proxied: Callable[..., Any]) -> None:
    with proxied() as proxy:
        status, _, body = proxy.get("/runs")
        assert (200, True) == (status, b"<title>" in body)

        with socket.create_connection(("127.0.0.1", proxy.http), timeout=PATIENCE_S) as plain:
            plain.sendall(b"GET /runs HTTP/1.1\r\nHost: elsewhere.example.org\r\nConnection: close\r\n\r\n")
            answer = plain.recv(4096)
        assert answer.startswith(b"HTTP/1.1 301 ")
        assert f"Location: https://{HOST}/runs\r\n".encode() in answer


def test_clients_are_known_and_cannot_choose_address_or_user(
    dashboard: Dashboard, proxied: Callable[..., Any]
) -> None:
    with proxied() as proxy:
        forged = {"X_Forwarded_For": "203.0.113.9", "X_Forwarded_User": "ann", "Accept": "application/json"}
        status, _, body = proxy.get("/me", source="127.0.0.2", **forged)

    assert (200, False) == (status, json.loads(body)["signed_in"])
    assert ["/me"] == requests_of(dashboard, "127.0.0.2")


def test_both_logs_and_the_client_have_the_same_request_id(
    dashboard: Dashboard, proxied: Callable[..., Any], tmp_path: Path
) -> None:
    with proxied() as proxy:
        _, headers, _ = proxy.get("/me", source="127.0.0.4", X_Request_ID="forged")
        assert ["/me"] == requests_of(dashboard, "127.0.0.4")

    request_id = headers["X-Request-ID"]
    assert re.fullmatch("[0-9a-f]{32}", request_id)
    assert [request_id] == headers.get_all("X-Request-ID")
    (line,) = (line for line in (tmp_path / "access.log").read_text().splitlines() if "127.0.0.4" in line)
    assert line.endswith(f" {request_id}")
    lines = [json.loads(line) for line in list(dashboard.said) if line.startswith("{")]
    assert [request_id] == [each["request_id"] for each in lines if each.get("client") == "127.0.0.4"]


def test_name_of_another_host_is_refused(proxied: Callable[..., Any]) -> None:
    with proxied() as proxy:
        assert 421 == proxy.get("/runs", Host="elsewhere.example.org")[0]


def test_long_address_and_redirect_to_it_are_passed_on(
    dashboard: Dashboard, proxied: Callable[..., Any]
) -> None:
    query = urlencode({"q": "&".join(f"test=missing{number}" for number in range(700))})
    assert 12_000 < len(query) < 16_000
    with Store.open(dashboard.store) as store:
        key = store.short_urls.save(query, user="ann")

    with proxied() as proxy:
        status, headers, _ = proxy.get(f"/s/{key}")
        assert (302, f"/explore?{query}") == (status, headers["Location"])
        # It has more conditions than Explore accepts, which the page of the dashboard says.
        assert b"<title>Explore" in proxy.get(headers["Location"])[2]


def test_requests_of_a_client_are_limited(proxied: Callable[..., Any]) -> None:
    """Three at once instead of 200, and one a minute, so that a slow machine makes no difference."""
    with proxied({"rate=50r/s": "rate=1r/m", "burst=200": "burst=2"}) as proxy:
        statuses = [proxy.get("/runs")[0] for _ in range(3)]
        status, headers, body = proxy.get("/runs")

        assert ([200, 200, 200], 429, "1") == (statuses, status, headers["Retry-After"])
        assert body.startswith(b"too many requests")
        assert 200 == proxy.get("/healthz")[0]
        assert 200 == proxy.get("/runs", source="127.0.0.2")[0]


def test_long_body_is_refused(proxied: Callable[..., Any]) -> None:
    with proxied() as proxy:
        length = {"Content_Length": str(2 * 1024**2), "Content_Type": "application/json"}
        assert 413 == proxy.get("/annotations", method="POST", **length)[0]


def test_slow_client_never_reaches_the_dashboard(proxied: Callable[..., Any]) -> None:
    """A socket of the test replaces the dashboard, and nginx waits for one second instead of ten."""
    with socket.create_server(("127.0.0.1", 0)) as upstream:
        values = {
            UPSTREAM: f"server 127.0.0.1:{upstream.getsockname()[1]}",
            "client_header_timeout 10s": "client_header_timeout 1s",
        }
        with proxied(values) as proxy, proxy.connect() as connection:
            connection.sendall(f"GET /runs HTTP/1.1\r\nHost: {HOST}\r\nX-Slow: ".encode())
            assert b"" == connection.recv(4096)
        upstream.setblocking(False)
        with pytest.raises(BlockingIOError):
            upstream.accept()


@pytest.fixture
def many_files(require: Callable[[object, str], None]) -> Iterator[None]:
    """Let this process, and nginx, have enough open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    require(hard == resource.RLIM_INFINITY or hard >= MANY_FILES, f"needs {MANY_FILES} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (MANY_FILES, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("sent", [None, b"", b"GET /runs HTTP/1.1\r\nX-Slow: ", COMPLETE])
@pytest.mark.usefixtures("many_files")
def test_idle_connections_of_a_client_do_not_shut_others_out(
    proxied: Callable[..., Any], sent: bytes | None
) -> None:
    """None of them is closed by a timeout while the test runs, so that a slow machine makes no difference."""
    values = {
        "client_header_timeout 10s": "client_header_timeout 1h",
        "keepalive_timeout 15s": "keepalive_timeout 1h",
    }
    with proxied(values) as proxy, ExitStack() as opened:
        for _ in range(IDLE):
            if sent is None:
                opened.enter_context(proxy.connect_plain(source="127.0.0.2"))
                continue
            connection = opened.enter_context(proxy.connect(source="127.0.0.2"))
            connection.sendall(sent)
            if sent == COMPLETE:
                assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")

        assert 200 == proxy.get("/runs", source="127.0.0.3")[0]

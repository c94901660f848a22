"""The one session of all clients, against sockets that send what no library expects."""

from __future__ import annotations

import ast
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import requests
from pydantic import SecretStr

import perftrend
from perftrend.archive.fetch import RateLimiter, Web
from perftrend.clients import build_events, http_session
from perftrend.clients.gerrit import Gerrit
from perftrend.clients.http_session import (
    MAXIMUM_BODY,
    DeadlineError,
    HttpSession,
    PrivateRedirectError,
    RedirectError,
    SlowServerError,
    slowness,
)
from perftrend.clients.jenkins import Jenkins
from perftrend.dashboard.auth.oidc import Provider
from perftrend.errors import PerftrendError, ServiceError
from perftrend.settings import DashboardSettings

Feed = Callable[[socket.socket], None]
Serve = Callable[[Feed], str]
TIMEOUT_S = 0.2
HELD_S = 60.0
"""A call that has not ended by then does not end: its own limits are far below."""
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(autouse=True)
def without_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETRC", "/dev/null")
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers that answer each connection by a function; the head of the request was read."""

    def start(feed: Feed) -> str:
        listening = socket.create_server(("127.0.0.1", 0))

        def answer(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                while b"\r\n\r\n" not in connection.recv(65536, socket.MSG_PEEK):
                    time.sleep(0.001)
                connection.recv(65536)
                feed(connection)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        closing.callback(listening.close)
        closing.callback(accepting.join)
        # A thread that still waits on a closed socket would take connections of the next with its number.
        closing.callback(listening.shutdown, socket.SHUT_RDWR)
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    with ExitStack() as closing:
        yield start


def dripping(begin: bytes, piece: bytes, pause_s: float = 0.02) -> Feed:
    """Send a beginning, then a piece again and again until the client leaves."""

    def feed(connection: socket.socket) -> None:
        connection.sendall(begin)
        while True:
            connection.sendall(piece)
            time.sleep(pause_s)

    return feed


def sending(answer: bytes) -> Feed:
    return lambda connection: connection.sendall(answer)


HOSTILE = {
    "head": dripping(OK + b"X-Slow: ", b"x"),
    "head of many lines": dripping(OK, b"X: y\r\n"),
    "continue": dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body": dripping(OK + b"Content-Length: 100000\r\n\r\n{", b" "),
    "length of a chunk": dripping(CHUNKED + b"1;", b"x"),
    "trailer": dripping(CHUNKED + b"1\r\n{\r\n0\r\n", b"X: y\r\n"),
    "body without an end": dripping(CHUNKED, b"400\r\n" + b" " * 1024 + b"\r\n", 0.01),
    "body of a redirect": dripping(
        b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 1000000\r\n\r\n", b"x"
    ),
}


def read_file(url: str) -> None:
    with Web(RateLimiter(1e6), timeout_s=TIMEOUT_S) as web, web.open(f"{url}/file") as transfer:
        while transfer.read(1000):
            pass


def read_page(url: str) -> None:
    with Web(RateLimiter(1e6), timeout_s=TIMEOUT_S, attempts=1) as web:
        web.page(f"{url}/")


def read_change(url: str) -> None:
    Gerrit(url, timeout_s=TIMEOUT_S, attempts=1).change(1)


def read_jobs(url: str) -> None:
    list(Jenkins(url, timeout_s=TIMEOUT_S, attempts=1).jobs())


def start_build(url: str) -> None:
    Jenkins(url, timeout_s=TIMEOUT_S, attempts=1).start("x")


def sign_in(url: str) -> None:
    Provider(DashboardSettings(oidc_issuer=url, oidc_client_id="x")).address_after("")


CLIENTS = [read_file, read_page, read_change, read_jobs, start_build, sign_in]


def ends(call: Callable[[], object]) -> Exception | None:
    """Return what a call raises; fail if it does not end."""
    caught: list[Exception | None] = []

    def run() -> None:
        try:
            call()
            caught.append(None)
        except Exception as error:  # noqa: BLE001 - the test judges it
            caught.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HELD_S)
    assert caught, "the server holds the client"
    return caught[0]


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what has hours or minutes in production have seconds here."""
    for module in (http_session, perftrend.archive.fetch.web, perftrend.clients.jenkins.api):
        monkeypatch.setattr(module, "FILE_DEADLINE_S", 2.0, raising=False)
    monkeypatch.setattr(perftrend.archive.fetch.web, "PAGE_DEADLINE_S", 2.0)
    monkeypatch.setattr(perftrend.dashboard.auth.oidc, "_TIMEOUT_S", TIMEOUT_S)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
@pytest.mark.parametrize("feed", HOSTILE.values(), ids=HOSTILE)
def test_no_server_holds_a_client(serve: Serve, client: Callable[[str], None], feed: Feed) -> None:
    url = serve(feed)

    assert isinstance(ends(lambda: client(url)), ServiceError)


@pytest.mark.parametrize("feed", HOSTILE.values(), ids=HOSTILE)
def test_no_dashboard_holds_the_job_that_notifies_it(serve: Serve, feed: Feed) -> None:
    url = serve(feed)
    error = ends(lambda: build_events.notify(url, SecretStr("x"), "job", 1, timeout_s=TIMEOUT_S))

    assert isinstance(error, ServiceError)


def test_steady_body_ends_at_its_deadline(serve: Serve) -> None:
    """Each wait is short, and the rate is well above the slowest."""
    url = serve(HOSTILE["body without an end"])
    with (
        HttpSession(timeout_s=5.0) as session,
        session.send(requests.Request("GET", url).prepare(), stream=True, deadline_s=0.5) as response,
        pytest.raises(requests.ConnectionError) as caught,
    ):
        for _ in response.iter_content(1024):
            pass

    assert isinstance(slowness(caught.value), DeadlineError)
    assert "takes longer than 0.5 s" == str(slowness(caught.value))


def test_body_that_drips_is_given_up(serve: Serve) -> None:
    url = serve(HOSTILE["body"])
    with HttpSession(timeout_s=TIMEOUT_S) as session, pytest.raises(requests.ConnectionError) as caught:
        session.get(url)

    assert isinstance(slowness(caught.value), SlowServerError)


def test_head_is_bounded(serve: Serve) -> None:
    """A hundred lines of 60 KB are allowed by the library."""
    url = serve(sending(OK + b"".join(b"X-%d: %s\r\n" % (i, b"x" * 60_000) for i in range(90)) + b"\r\n"))
    with (
        HttpSession(timeout_s=30.0) as session,
        pytest.raises(requests.ConnectionError, match="head has more"),
    ):
        session.get(url)


def test_body_that_is_read_as_a_whole_is_bounded(serve: Serve) -> None:
    url = serve(sending(OK + b"Connection: close\r\n\r\n" + b" " * (MAXIMUM_BODY + 1)))
    with HttpSession(timeout_s=30.0) as session, pytest.raises(requests.RequestException, match="more than"):
        session.get(url)


def test_wait_ends_when_the_job_does(serve: Serve) -> None:
    """The server is silent for longer than the test may take."""
    stop = threading.Event()
    url = serve(lambda _: (stop.set(), threading.Event().wait(HELD_S))[0])
    with Web(RateLimiter(1e6, stop), timeout_s=10 * HELD_S) as web:
        error = ends(lambda: web.page(f"{url}/"))

    assert "fetching was interrupted" in str(error)


JSON = sending(OK + b"Content-Length: 2\r\nConnection: close\r\n\r\n{}")


def redirecting(location: str) -> Feed:
    return sending(
        f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nSet-Cookie: session=secret\r\n"
        "Content-Length: 0\r\nConnection: close\r\n\r\n".encode()
    )


@pytest.fixture
def heads(monkeypatch: pytest.MonkeyPatch) -> list[requests.PreparedRequest]:
    """Return the requests that are sent, as they are sent."""
    sent: list[requests.PreparedRequest] = []
    send = requests.Session.send

    def recording(
        self: requests.Session, request: requests.PreparedRequest, **options: object
    ) -> requests.Response:
        sent.append(request.copy())
        return send(self, request, **options)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(requests.Session, "send", recording)
    return sent


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_redirect_to_another_origin_gets_no_secret(
    serve: Serve,
    heads: list[requests.PreparedRequest],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    host: str,
) -> None:
    """Neither the login, a cookie or a header of one's own, nor what ~/.netrc has for the other."""
    other = serve(JSON).replace("127.0.0.1", host)
    url = serve(redirecting(f"{other}/job/x/doDelete"))
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine {host} login me password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))

    with HttpSession(timeout_s=30.0, netrc=True) as session:
        session.get(url, auth=("me", "secret"), headers={"X-Api-Key": "secret"}, cookies={"a": "secret"})

    first, second = heads
    assert {"Authorization", "X-Api-Key", "Cookie"} <= first.headers.keys()
    assert f"{other}/job/x/doDelete" == second.url
    assert {"User-Agent", "Accept", "Accept-Encoding"} == second.headers.keys()


def test_redirect_within_the_origin_keeps_the_login(
    serve: Serve, heads: list[requests.PreparedRequest]
) -> None:
    def redirecting_once(connection: socket.socket) -> None:
        (redirecting("/there") if len(heads) == 1 else JSON)(connection)

    url = serve(redirecting_once)
    with HttpSession(timeout_s=30.0) as session:
        session.get(url, auth=("me", "secret"))

    assert [f"{url}/", f"{url}/there"] == [request.url for request in heads]
    assert heads[0].headers["Authorization"] == heads[1].headers["Authorization"]


def test_requests_are_logged_without_secrets(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "perftrend")
    other = serve(JSON)
    url = serve(redirecting(f"{other.replace('//', '//me:secret@')}/there?key=secret"))

    with HttpSession(timeout_s=30.0, log=logging.getLogger("perftrend.test")) as session:
        session.get(f"{url}/here", params={"key": "secret"}, auth=("me", "secret"))
        with suppress(requests.ConnectionError):
            session.get("http://127.0.0.1:9/nowhere")

    assert [
        f"GET {url}/here: 302",
        f"GET {other}/there: 200",
        "GET http://127.0.0.1:9/nowhere: no response",
    ] == [message.partition(" after ")[0] for message in caplog.messages]
    assert ["DEBUG"] * 3 == [record.levelname for record in caplog.records]


@pytest.mark.parametrize(
    ("client", "logged"),
    [(read_change, ["/changes/1"]), (read_jobs, ["/api/json"]), (read_page, []), (sign_in, [])],
)
def test_requests_to_gerrit_and_jenkins_are_logged(
    serve: Serve, caplog: pytest.LogCaptureFixture, client: Callable[[str], None], logged: list[str]
) -> None:
    caplog.set_level(logging.DEBUG, "perftrend")
    url = serve(JSON)

    with suppress(PerftrendError):
        client(url)

    messages = [
        each.getMessage().partition(" after ")[0] for each in caplog.records if each.name[:9] == "perftrend"
    ]
    assert [f"GET {url}{path}: 200" for path in logged] == messages


@pytest.mark.parametrize("client", [read_change, read_jobs, read_page])
def test_public_server_leads_no_client_to_a_private_address(
    serve: Serve,
    client: Callable[[str], None],
    heads: list[requests.PreparedRequest],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_session, "is_public", lambda host: host == "127.0.0.1")
    url = serve(redirecting("http://localhost:1/latest/meta-data"))

    assert "the server redirects to localhost, a private address; refused" in str(ends(lambda: client(url)))
    assert 1 == len(heads)


def test_private_address_may_be_allowed(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_session, "is_public", lambda host: host == "127.0.0.1")
    url = serve(redirecting(serve(JSON).replace("127.0.0.1", "localhost")))

    with HttpSession(timeout_s=30.0, private_redirects=True) as session:
        assert b"{}" == session.get(url).content
    with HttpSession(timeout_s=30.0) as session, pytest.raises(PrivateRedirectError):
        session.get(url)


@pytest.mark.parametrize(
    "location", ["ftp://example.org/", "file:///etc/passwd", "http://[::", "http://:80/"]
)
def test_redirect_to_no_web_address_is_refused(serve: Serve, location: str) -> None:
    url = serve(redirecting(location))
    with HttpSession(timeout_s=30.0) as session, pytest.raises(RedirectError, match="neither http nor https"):
        session.get(url)


def test_redirect_from_https_to_http_is_refused() -> None:
    with pytest.raises(RedirectError, match="from https to http"):
        http_session._target("https://example.org/x", "http://example.org/x")


def test_post_is_not_redirected(serve: Serve, heads: list[requests.PreparedRequest]) -> None:
    with HttpSession(timeout_s=30.0) as session:
        assert 302 == session.post(serve(redirecting("/there"))).status_code

    assert 1 == len(heads)


@pytest.mark.parametrize("netrc", [True, False])
def test_netrc_is_read_where_it_is_meant(
    serve: Serve,
    heads: list[requests.PreparedRequest],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    netrc: bool,
) -> None:
    file = tmp_path / "netrc"
    file.write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(file))

    with HttpSession(timeout_s=30.0, netrc=netrc) as session:
        session.get(serve(JSON))

    assert netrc is ("Authorization" in heads[0].headers)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_client_says_which_program_it_is(
    serve: Serve, heads: list[requests.PreparedRequest], client: Callable[[str], None]
) -> None:
    url = serve(JSON)
    ends(lambda: client(url))

    assert {f"perftrend/{perftrend.__version__}"} == {request.headers["User-Agent"] for request in heads}


SOURCES = [Path(perftrend.__file__).parent, Path(perftrend.__file__).parents[2] / "jobs"]
MAKERS = {
    *(f"requests.{name}" for name in ("Session", "session", "api", "sessions")),
    *(f"requests.{name}" for name in ("get", "head", "post", "put", "patch", "delete", "options", "request")),
    *("urllib3.PoolManager", "urllib3.ProxyManager", "urllib3.request", "urllib.request"),
    "requests.adapters.HTTPAdapter",
}
LIBRARIES = {"httpx", "aiohttp", "pycurl", "httplib2"}


def makers(module: Path) -> Iterator[str]:
    """Yield what a module uses to send requests by itself."""
    for node in ast.walk(ast.parse(module.read_text())):
        match node:
            case ast.Attribute(value=ast.Name(id=package), attr=name):
                named = [f"{package}.{name}"]
            case ast.Import(names=names):
                named = [each.name for each in names]
            case ast.ImportFrom(module=str(package), names=names):
                named = [f"{package}.{each.name}" for each in names]
            case ast.Call(func=ast.Name(id="OAuth2Session")):
                named = ["requests.Session"]
            case _:
                named = []
        yield from (each for each in named if each in MAKERS or each.split(".")[0] in LIBRARIES)


def test_only_the_session_module_makes_sessions() -> None:
    found = {
        (module.name, name)
        for source in SOURCES
        for module in source.rglob("*.py")
        for name in makers(module)
        if module != Path(http_session.__file__)
    }

    assert set() == found
    assert "requests.Session" in set(makers(Path(http_session.__file__)))

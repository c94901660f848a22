"""Rate limits, and which server receives which headers."""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from perftrend.archive.fetch import Credentials, RateLimiter, Web
from perftrend.archive.fetch.builds import InterruptedTransferError
from perftrend.clients import http_session
from perftrend.errors import ServiceError
from tests.doubles.archive_server import Server

BASIC = "Basic " + base64.b64encode(b"me:secret").decode()


def test_requests_are_spaced_for_all_threads_of_a_host() -> None:
    """Ten requests a second: of five that come at once the last one waits for 0.4 s."""
    waits: list[float] = []
    pace = RateLimiter(10, clock=lambda: 100.0)
    pace.sleep = waits.append  # type: ignore[method-assign]

    for _ in range(5):
        pace.wait("a")
    pace.wait("b")

    assert [0.0, 0.1, 0.2, 0.3, 0.4, 0.0] == [round(seconds, 6) for seconds in waits]


def test_host_that_wants_to_be_left_alone_is() -> None:
    waits: list[float] = []
    pace = RateLimiter(10, clock=lambda: 100.0)
    pace.sleep = waits.append  # type: ignore[method-assign]

    pace.hold("a", 30)
    pace.wait("a")

    assert [30.0] == waits


def test_who_waits_is_woken_by_the_end() -> None:
    pace = RateLimiter(1)
    threading.Timer(0.05, pace.stop.set).start()

    with pytest.raises(ServiceError, match="interrupted"):
        pace.sleep(3600)


def test_credentials_stay_with_their_server(server: Server, pace: RateLimiter) -> None:
    """The double redirects to itself under another name, which is another server to a client."""
    (server.behaviour.folder / "file").write_bytes(b"x")
    credentials = {server.url: Credentials("me", "secret")}

    with Web(pace, credentials=credentials) as opened, opened.open(f"{server.url}fault/elsewhere/file"):
        pass

    assert 2 == len(server.requests)
    assert [BASIC, None] == [headers.get("Authorization") for headers in server.behaviour.headers]


def test_server_cannot_lead_to_a_login_of_another(
    server: Server, pace: RateLimiter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log server points to the Jenkins of the settings, or to a host that ~/.netrc has a login for."""
    (server.behaviour.folder / "file").write_bytes(b"x")
    netrc = tmp_path / "netrc"
    netrc.write_text("machine localhost login me password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    jenkins = server.url.replace("127.0.0.1", "localhost")

    for credentials in ({jenkins: Credentials("me", "secret")}, {}):
        with Web(pace, credentials=credentials) as opened, opened.open(f"{server.url}fault/elsewhere/file"):
            pass

    assert 4 == len(server.behaviour.headers)
    assert [None] * 4 == [headers.get("Authorization") for headers in server.behaviour.headers]


@pytest.mark.parametrize("public", [{"127.0.0.1"}, {"127.0.0.1", "localhost"}, set()])
def test_public_server_cannot_lead_to_a_private_one(
    server: Server, pace: RateLimiter, monkeypatch: pytest.MonkeyPatch, public: set[str]
) -> None:
    (server.behaviour.folder / "file").write_bytes(b"x")
    monkeypatch.setattr(http_session, "is_public", lambda host: host in public)
    url = f"{server.url}fault/elsewhere/file"

    with Web(pace, private_redirects=True) as opened, opened.open(url) as transfer:
        assert b"x" == transfer.read(10)
    with Web(pace) as opened:
        if public == {"127.0.0.1"}:
            reason = "redirects to localhost, a private address; refused: the setting fetch.private_redirects"
            with pytest.raises(ServiceError, match=reason), opened.open(url):
                pass
        else:
            with opened.open(url) as transfer:
                assert b"x" == transfer.read(10)


def test_head_without_an_end_is_given_up(server: Server, pace: RateLimiter) -> None:
    with (
        Web(pace, timeout_s=0.2) as opened,
        pytest.raises(InterruptedTransferError, match="does not answer"),
        opened.open(f"{server.url}fault/drip-head/file"),
    ):
        pass
    assert 1 == len(server.requests)


def test_secrets_are_shown_nowhere(server: Server, pace: RateLimiter) -> None:
    with (
        Web(pace, credentials={server.url: Credentials("me", "secret")}) as opened,
        pytest.raises(ServiceError) as error,
        opened.open(f"{server.url}fault/forbidden/x?token=secret"),
    ):
        pass
    shown = f"{error.value} {Credentials('me', 'secret')!r}"

    assert "secret" not in shown


def test_body_of_a_redirect_is_not_read(server: Server, web: Web) -> None:
    (server.behaviour.folder / "file").write_bytes(b"x")

    with web.open(f"{server.url}fault/huge-redirect/file") as transfer:
        assert b"x" == transfer.read(10)


def test_certificate_that_cannot_be_trusted_is_not_tried_again(pace: RateLimiter, certified: int) -> None:
    with (
        Web(pace, first_pause_s=0.001) as opened,
        pytest.raises(ServiceError, match="certificate is not trusted; set REQUESTS_CA_BUNDLE") as error,
        opened.open(f"https://127.0.0.1:{certified}/"),
    ):
        pass

    assert not isinstance(error.value, InterruptedTransferError)


def test_server_that_is_not_there_is_told(pace: RateLimiter) -> None:
    with (
        Web(pace, attempts=2, first_pause_s=0.001) as opened,
        pytest.raises(ServiceError, match=r"http://127\.0\.0\.1:1/x: does not answer: .*refused"),
        opened.open("http://127.0.0.1:1/x"),
    ):
        pass


@pytest.fixture
def certified(tmp_path: Path) -> Iterator[int]:
    """Return the port of a server that has signed its certificate itself."""
    files = [str(tmp_path / name) for name in ("key.pem", "certificate.pem")]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-subj", "/CN=127.0.0.1", "-keyout", files[0], "-out", files[1]],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files[1], files[0])
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):  # the client turns away, and then the socket is closed
                context.wrap_socket(listening.accept()[0], server_side=True)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
    thread.join()

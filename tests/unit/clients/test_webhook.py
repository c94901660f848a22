"""Webhooks are signed, and sent to permitted addresses only."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pydantic import SecretStr

from perftrend.clients.http_session import may_reach
from perftrend.clients.webhook import Webhooks, check_url
from perftrend.errors import ServiceError, SettingsError, UsageError

SECRET = SecretStr("s3cret")
HERE = ("127.0.0.0/8",)


@dataclass
class Receiver:
    """A server that keeps what it is sent."""

    status: int = 204
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?x=1"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    told = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.got.append((dict(self.headers), body))
            self.send_response(told.status)
            self.send_header("Location", f"http://127.0.0.1:{told.port}/elsewhere")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        told.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield told
        server.shutdown()
        thread.join()


def test_message_is_signed_and_named(receiver: Receiver) -> None:
    Webhooks(SECRET, HERE).post(receiver.url, b'{"a":1}', key="k1")

    ((headers, body),) = receiver.got
    expected = hmac.new(b"s3cret", b'{"a":1}', hashlib.sha256).hexdigest()
    assert (b'{"a":1}', "k1", f"sha256={expected}") == (
        body, headers["X-Perftrend-Delivery"], headers["X-Perftrend-Signature"],
    )  # fmt: skip


def test_redirect_is_not_followed(receiver: Receiver) -> None:
    receiver.status = 302

    with pytest.raises(ServiceError, match="redirects are not followed"):
        Webhooks(SECRET, HERE).post(receiver.url, b"{}", key="k")

    assert 1 == len(receiver.got)


def test_refusal_tells_the_host_and_not_the_path(receiver: Receiver) -> None:
    receiver.status = 500

    with pytest.raises(ServiceError, match="answers 500") as told:
        Webhooks(SECRET, HERE).post(receiver.url, b"{}", key="k")

    assert "hook" not in str(told.value).replace("webhook", "")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"])
def test_this_machine_is_not_reached_unless_allowed(receiver: Receiver, host: str) -> None:
    with pytest.raises((ServiceError, UsageError)):
        Webhooks(SECRET).post(f"http://{host}:{receiver.port}/", b"{}", key="k")

    assert [] == receiver.got


def test_without_a_secret_nothing_is_sent(receiver: Receiver) -> None:
    with pytest.raises(SettingsError, match="alert_secret"):
        Webhooks(None, HERE).post(receiver.url, b"{}", key="k")

    assert [] == receiver.got


def test_server_that_is_away_is_told() -> None:
    with pytest.raises(ServiceError, match="refused"):
        Webhooks(SECRET, HERE).post("http://127.0.0.1:1/", b"{}", key="k")


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/", "ftp://example.org/", "https://user:x@example.org/", "https:///path", "",
        "https://example.org/a b", "https://example.org/\r\nX: 1", "https://example.org:0/", "https://é.org/",
        "https://example.org/#x", "javascript:alert(1)", "https://[::1", "https://" + "a" * 2000,
    ],
)  # fmt: skip
def test_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        check_url(url)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "172.16.3.4", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",  # noqa: S104
        "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:10.0.0.1",
        "2002:7f00:1::", "64:ff9b::a00:1",
    ],
)  # fmt: skip
def test_what_is_not_public_is_not_reached(address: str) -> None:
    assert not may_reach(ipaddress.ip_address(address), [])


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_what_is_public_is_reached(address: str) -> None:
    assert may_reach(ipaddress.ip_address(address), [])


def test_network_of_the_settings_is_reached() -> None:
    allowed = [ipaddress.ip_network("10.1.0.0/16")]

    assert may_reach(ipaddress.ip_address("10.1.2.3"), allowed)
    assert may_reach(ipaddress.ip_address("::ffff:10.1.2.3"), allowed)
    assert not may_reach(ipaddress.ip_address("10.2.0.1"), allowed)


def test_wrong_network_is_told() -> None:
    with pytest.raises(SettingsError, match="alert_networks"):
        Webhooks(SECRET, ("10.1.0.0/99",))

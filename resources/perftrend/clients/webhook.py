"""Messages to a webhook: one signed POST of JSON to a permitted address.

The address is entered by a user, so it could name a server that only this machine reaches. Its host is
resolved once, all its addresses are checked, and the connection goes to one of the checked addresses. DNS
rebinding therefore has no effect. Redirects are not followed, and proxies of the environment are not used.

The signature is the HMAC-SHA256 of the body (RFC 2104), in the header ``X-Perftrend-Signature`` as
``sha256=`` and hex digits. ``X-Perftrend-Delivery`` is the same for every delivery of the same message.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import ipaddress
import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr

from perftrend.clients.http_session import Address, Network, is_here, may_reach
from perftrend.errors import ServiceError, SettingsError, UsageError

LONGEST_URL = 2000
_PATIENCE = 2
"""Maximum duration of a delivery in multiples of the timeout: a server that sends bytes slowly is cut off."""


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Settings for sending webhooks.

    :raises SettingsError: if a network is not valid.
    """

    secret: SecretStr | None
    networks: tuple[str, ...] = ()
    """Networks, or addresses, that may be reached although they are not public, such as ``10.1.0.0/16``."""
    timeout_s: float = 10.0
    """Maximum wait for a response of the server."""
    context: ssl.SSLContext | None = field(default=None, repr=False)
    """Trusted certificates; None: those of the system."""

    def __post_init__(self) -> None:
        self.parse_networks()

    def parse_networks(self) -> list[Network]:
        """Return the networks that may be reached in addition to public ones."""
        try:
            return [ipaddress.ip_network(each) for each in self.networks]
        except ValueError as error:
            raise SettingsError(f"dashboard.alert_networks: {error}; write 10.1.0.0/16") from None

    def post(self, url: str, body: bytes, *, key: str) -> None:
        """Send a message once.

        :param body: JSON.
        :param key: identifies the message; ASCII letters and digits.
        :raises UsageError: if messages cannot be sent to the address.
        :raises SettingsError: if there is no secret.
        :raises ServiceError: if its host may not be reached, or the server does not accept the message.
        """
        parts = check_url(url)
        if self.secret is None:
            raise SettingsError("dashboard.alert_secret is not set; webhooks are signed with it")
        shown = f"webhook {parts.scheme}://{parts.hostname}"
        signature = hmac.new(self.secret.get_secret_value().encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "perftrend",
            "X-Perftrend-Delivery": key,
            "X-Perftrend-Signature": f"sha256={signature}",
        }
        address = self._reachable(parts, shown)
        connection = _PinnedConnection(parts, str(address), self)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            status = connection.send_once(path, body, headers)
        except (OSError, http.client.HTTPException) as error:
            # Not chained: the error may contain the address, including its secret parts.
            raise ServiceError(f"{shown}: {_explain(error, self.timeout_s)}") from None
        if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            is_elsewhere = HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST
            hint = (
                "redirects are not followed; give the other address" if is_elsewhere else "look into its log"
            )
            raise ServiceError(f"{shown}: answers {status}; {hint}")

    def _reachable(self, parts: SplitResult, shown: str) -> Address:
        try:
            resolved = socket.getaddrinfo(parts.hostname, parts.port or 443, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise ServiceError(f"{shown}: unknown host; check the address") from None
        addresses = [ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in resolved]
        allowed = self.parse_networks()
        for address in addresses:
            if not may_reach(address, allowed):
                raise ServiceError(
                    f"{shown}: {address} is not public; to allow it, add it to dashboard.alert_networks"
                )
            if parts.scheme == "http" and not address.is_loopback:
                raise ServiceError(f"{shown}: http is allowed for this machine only; use https")
        return addresses[0]


def check_url(url: str) -> SplitResult:
    """Return the parts of an address that messages may be sent to.

    :raises UsageError: if messages cannot be sent to it.
    """
    form = "write https://host/path, without user and password"
    if len(url) > LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise UsageError(f"the address of the webhook cannot be used; {form}")
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_host = False
    if not has_host or parts.username is not None or parts.fragment:
        raise UsageError(f"the address of the webhook cannot be used; {form}")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_here(parts.hostname or "")):
        raise UsageError(f"the address of the webhook is not encrypted; {form}")
    return parts


class _PinnedConnection(http.client.HTTPConnection):
    """A connection to a fixed IP address, independent of what the host name resolves to."""

    def __init__(self, parts: SplitResult, address: str, webhooks: Webhooks) -> None:
        self._is_encrypted = parts.scheme == "https"
        self._address = address
        self._webhooks = webhooks
        port = parts.port or (443 if self._is_encrypted else 80)
        super().__init__(parts.hostname or "", port, timeout=webhooks.timeout_s)

    def connect(self) -> None:
        """Connect to the address, and verify the certificate against the host name."""
        plain = socket.create_connection((self._address, self.port), self._webhooks.timeout_s)
        context = self._webhooks.context or ssl.create_default_context()
        self.sock = context.wrap_socket(plain, server_hostname=self.host) if self._is_encrypted else plain

    def send_once(self, path: str, body: bytes, headers: dict[str, str]) -> int:
        """Send a request and return the status of the response. The body is not read."""
        limit = threading.Timer(_PATIENCE * self._webhooks.timeout_s, self._shut_down)
        limit.daemon = True
        limit.start()
        try:
            self.request("POST", path, body, headers)
            return self.getresponse().status
        finally:
            limit.cancel()
            self.close()

    def _shut_down(self) -> None:
        if self.sock is not None:
            with suppress(OSError):
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)


def _explain(error: Exception, timeout_s: float) -> str:
    match error:
        case TimeoutError():
            return f"no answer within {timeout_s:g} s"
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted ({error.verify_message})"
        case ssl.SSLError():
            return "the TLS handshake failed"
        case OSError():
            return f"{error.strerror or 'the connection broke'}"
        case _:
            return "its answer is not HTTP"

"""Protection against slow clients, which never complete a request or never read a response.

uvicorn only limits how long a connection may be idle between two requests. A client that sends its headers
byte by byte would occupy a connection for ever, and a thousand such clients all connections.
"""

from __future__ import annotations

import asyncio
import logging

import h11
from typing_extensions import override
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

LOG = logging.getLogger(__name__)

LEAST_BYTES = 16384
"""Bytes of a response that a client must read within the timeout."""


def patient(timeout_s: float) -> type[H11Protocol]:
    """Return a connection protocol that aborts slow connections.

    :param timeout_s: time from the first byte of a request until the request is complete; for the first
        request of a connection, time from opening the connection. While a response waits to be sent, the
        client must read at least :data:`LEAST_BYTES` of it in each period of this length.
    """

    class Patient(_TimedProtocol):
        _timeout_s = timeout_s

    return Patient


class _TimedProtocol(H11Protocol):
    _timeout_s = 30.0

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._request: asyncio.TimerHandle | None = None
        self._answer: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # a TCP one
        super().connection_made(transport)
        self._expect_request()

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._request = _cancel(self._request)
        elif self._request is None:
            self._expect_request()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_read()

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._answer = _cancel(self._answer)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._request = _cancel(self._request)
        self._answer = _cancel(self._answer)
        super().connection_lost(exc)

    def _expect_request(self) -> None:
        self._request = self.loop.call_later(
            self._timeout_s, self._disconnect, "did not send a whole request"
        )

    def _expect_read(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._answer = self.loop.call_later(self._timeout_s, self._check_read, waiting)

    def _check_read(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < LEAST_BYTES:
            self._disconnect("did not receive its response")
        else:
            self._expect_read()

    def _disconnect(self, reason: str) -> None:
        client = self.client[0] if self.client else ""
        fields = {"client": client}
        LOG.warning(
            "a client was disconnected: in %g s it %s", self._timeout_s, reason, extra={"fields": fields}
        )
        self.transport.abort()


def _cancel(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel a timer and return None, the value of a stopped timer."""
    if timer is not None:
        timer.cancel()
    return None

"""Cuts off clients that are too slow: those that never end a request, and those that never take an answer.

uvicorn only limits how long a connection may rest between two requests. A client that sends its headers byte
by byte would keep a connection for ever, and a thousand of them all connections.
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
"""What a client has to take of an answer in the time of a request."""


def patient(timeout_s: float) -> type[H11Protocol]:
    """Return the protocol of connections with a limit.

    :param timeout_s: a request has to be here within this time from its first byte, the first one of a
        connection from the connection's begin; and some of an answer has to be taken within it.
    """

    class Patient(_Timed):
        _timeout_s = timeout_s

    return Patient


class _Timed(H11Protocol):
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
            self._request = _stopped(self._request)
        elif self._request is None:
            self._expect_request()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_taking()

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._answer = _stopped(self._answer)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._request = _stopped(self._request)
        self._answer = _stopped(self._answer)
        super().connection_lost(exc)

    def _expect_request(self) -> None:
        self._request = self.loop.call_later(self._timeout_s, self._cut_off, "sent no whole request")

    def _expect_taking(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._answer = self.loop.call_later(self._timeout_s, self._look_at_taking, waiting)

    def _look_at_taking(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < LEAST_BYTES:
            self._cut_off("did not take its answer")
        else:
            self._expect_taking()

    def _cut_off(self, reason: str) -> None:
        client = self.client[0] if self.client else ""
        told = {"client": client}
        LOG.warning("a client was cut off: in %g s it %s", self._timeout_s, reason, extra={"told": told})
        self.transport.abort()


def _stopped(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Stop a timer; return what stands for none."""
    if timer is not None:
        timer.cancel()
    return None

"""Heads of answers, with a bound in time.

The time-out of a socket is for each piece that arrives. A server that sends a letter now and then would never
reach it, and the head of an answer is read as a whole before anybody else can look at the clock.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any

import urllib3
from requests.adapters import HTTPAdapter
from typing_extensions import override

_PERIODS = 2
"""A head may take so many times the time-out: a server may think for nearly one before it begins."""


class _InTime:
    """A connection that is shut down when the head of an answer does not come to its end."""

    timeout: Any
    sock: socket.socket | None

    def getresponse(self) -> Any:  # noqa: ANN401 - whatever the other base class returns
        late = threading.Event()

        def give_up() -> None:
            late.set()
            if self.sock:
                with suppress(OSError):
                    self.sock.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(_PERIODS * self.timeout, give_up)
        timer.daemon = True
        timer.start()
        try:
            response = super().getresponse()  # type: ignore[misc]  # of the other base class
        finally:
            timer.cancel()
        if late.is_set():
            # A head that was cut would otherwise pass for a whole one.
            response.close()
            raise TimeoutError
        return response


class _HTTPConnection(_InTime, urllib3.connection.HTTPConnection):
    pass


class _HTTPSConnection(_InTime, urllib3.connection.HTTPSConnection):
    pass


class _HTTPPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _HTTPConnection


class _HTTPSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _HTTPSConnection


class InTimeAdapter(HTTPAdapter):
    """Makes connections of that kind, straight and through proxies; each request needs a time-out."""

    @override
    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}

    @override
    def proxy_manager_for(self, proxy: str, **options: Any) -> urllib3.ProxyManager:
        manager: urllib3.ProxyManager = super().proxy_manager_for(proxy, **options)
        manager.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}
        return manager

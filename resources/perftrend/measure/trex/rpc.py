"""Requests to a TRex server: JSON-RPC 2.0 over ZeroMQ, and the events that it has for a session.

Import it only if it is used: pyzmq is an extra.

Requests are compressed with a header of two numbers, a constant and the original length; the response to a
compressed request is compressed, too. Events are not sent but retrieved: the server publishes only that there
are some. It numbers them per session, and forgets what a session does not retrieve within ten seconds.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import struct
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import zmq

from perftrend.errors import TestbedError

Request: TypeAlias = tuple[str, Mapping[str, Any]]
"""A method and its parameters."""

API = {"name": "STL", "major": 5, "minor": 0}
"""The oldest version of the interface with these queues of events; servers accept it from version 2.87 on."""

_ZIP_HEADER = struct.Struct(">II")
_ZIP_CONSTANT = 0xABE85CEA
_TRY_AGAIN = -32001
_ATTEMPTS = 20
_PAUSE_S = 0.1
_WAKE_UP = b"{}"


class TrexRpc:
    """A connection to a server.

    :param port: the TCP port of this machine that leads to the server's.
    :param check: raises a TestbedError with the reason if the generator's node cannot be reached.
    """

    def __init__(
        self, port: int, *, timeout_s: float = 10.0, check: Callable[[], object] = lambda: None
    ) -> None:
        self.timeout_s = timeout_s
        self._check = check
        self._address = f"tcp://127.0.0.1:{port}"
        self.context = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None
        self._numbers = itertools.count(1)
        self._handler: dict[str, str] = {}

    def synchronize(self) -> None:
        """Agree on the version of the interface. :raises TestbedError: if the server has another one."""
        self._handler = {}
        self._handler = {"api_h": self.call("api_sync_v2", **API)["api_h"]}

    def call(self, method: str, **parameters: Any) -> Any:  # noqa: ANN401 - any value of JSON
        """Send a request and return its result. :raises TestbedError: if it is refused or not answered."""
        return self.batch([(method, parameters)])[0]

    def batch(self, requests: Sequence[Request]) -> list[Any]:
        """Send several requests at once, which the server executes in this order, and return their results.

        All of them are executed, even if one is refused.

        :raises TestbedError: if the server does not respond, or for the first request that it refuses.
        """
        if not requests:
            return []
        for _ in range(_ATTEMPTS):
            answers = self._exchange(requests)
            if not any(answer.get("error", {}).get("code") == _TRY_AGAIN for answer in answers):
                break
            time.sleep(_PAUSE_S)
        return [self._result(request, answer) for request, answer in zip(requests, answers, strict=True)]

    def close(self) -> None:
        """Close the connection; may be called more than once."""
        self._disconnect()
        self.context.destroy(linger=0)

    def _exchange(self, requests: Sequence[Request]) -> list[dict[str, Any]]:
        messages = [
            {
                "jsonrpc": "2.0",
                "id": next(self._numbers),
                "method": method,
                "params": {**parameters, **self._handler},
            }
            for method, parameters in requests
        ]
        try:
            response = json.loads(self._send(compress(json.dumps(messages).encode()), requests[0][0]))
        except ValueError:
            raise TestbedError(
                "port 4501 of the generator's node does not speak the protocol of a TRex server"
            ) from None
        # The server's response to a batch of one is not a list.
        answers = response if isinstance(response, list) else [response]
        if [answer.get("id") for answer in answers] != [message["id"] for message in messages]:
            raise TestbedError(f"the TRex server did not respond to all requests, such as {requests[0][0]}")
        return answers

    def _send(self, message: bytes, method: str) -> bytes:
        try:
            socket = self._connect()
            socket.send(message)
            if reason := self._wait_for_response(socket, method):
                self._check()
                raise TestbedError(
                    f"the TRex server {reason}; if it is not running, start it on the generator's node: "
                    "./t-rex-64 -i"
                )
            return decompress(socket.recv())
        except BaseException:
            # After a request without a response, a socket of this kind accepts no other request.
            self._disconnect()
            raise

    def _wait_for_response(self, socket: zmq.Socket[bytes], method: str) -> str:
        """Return why there is no response; empty once there is one."""
        poller = zmq.Poller()
        for source in (socket, self._monitor):
            poller.register(source, zmq.POLLIN)
        ready = dict(poller.poll(round(1000 * self.timeout_s)))
        if socket in ready:
            return ""
        # ZeroMQ connects again, but does not repeat the request.
        return (
            f"closed the connection during {method}"
            if ready
            else f"did not respond to {method} within {self.timeout_s:g} s"
        )

    def _connect(self) -> zmq.Socket[bytes]:
        if self._socket is None:
            self._socket = self.context.socket(zmq.REQ)
            self._socket.linger = 0
            self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
            self._socket.connect(self._address)
        with contextlib.suppress(zmq.Again):
            # What happened before the request does not concern it.
            while True:
                self._monitor.recv_multipart(zmq.NOBLOCK)
        return self._socket

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._monitor.close()
            self._socket.disable_monitor()
            self._socket.close()
            self._socket = None

    def _result(self, request: Request, answer: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any value of JSON
        if (error := answer.get("error")) is None:
            return answer.get("result")
        method, parameters = request
        port = f" for port {parameters['port_id']}" if "port_id" in parameters else ""
        reason = error.get("specific_err") or error.get("message")
        raise TestbedError(f"the TRex server refused {method}{port}: {reason}")


def compress(message: bytes) -> bytes:
    """Return a message in compressed form."""
    return _ZIP_HEADER.pack(_ZIP_CONSTANT, len(message)) + zlib.compress(message)


def decompress(message: bytes) -> bytes:
    """Return a message as it was before compression; unchanged if it is not compressed.

    :raises ValueError: if it is damaged.
    """
    if message[:4] != _ZIP_HEADER.pack(_ZIP_CONSTANT, 0)[:4]:
        return message
    try:
        return zlib.decompress(message[_ZIP_HEADER.size :])
    except zlib.error as error:
        raise ValueError(str(error)) from None


@dataclass(frozen=True, slots=True)
class TrexEvent:
    """Something that happened on the server."""

    kind: int
    data: Mapping[str, Any]

    @property
    def port(self) -> int:
        """The number of the port that it concerns; -1 if it concerns none."""
        return int(self.data.get("port_id", -1))


class TrexEventQueue:
    """The events of a session.

    :param port: the TCP port of this machine that leads to the server's publisher.
    :param session: number of the session; the server makes a queue for each that it sees.
    """

    def __init__(self, rpc: TrexRpc, port: int, session: int) -> None:
        self._rpc = rpc
        self._session = session
        self._next = -1
        self.gap = ""
        """Why events are missing; empty if none are."""
        self._socket = rpc.context.socket(zmq.SUB)
        self._socket.linger = 0
        self._socket.subscribe(b"")
        self._socket.connect(f"tcp://127.0.0.1:{port}")

    def subscribe(self, timeout_s: float) -> None:
        """Wait until the publisher can be heard. :raises TestbedError: if it cannot."""
        deadline = time.monotonic() + timeout_s
        while not self._socket.poll(20):
            if time.monotonic() > deadline:
                raise TestbedError("the TRex server publishes no events; is its port 4500 reachable?")
            self._rpc.call("publish_now", key=self._session, baseline=False)
        self.skip()

    def skip(self) -> None:
        """Discard all events until now."""
        self.read()
        self._next = -1
        self.gap = ""

    def wait(self, timeout_s: float) -> list[TrexEvent]:
        """Wait for events, and return those that there are; the server may need one request in 10 s."""
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0 and self._socket.poll(round(1000 * left_s) + 1):
            if self._socket.recv() == _WAKE_UP:
                break
        return self.read()

    def read(self) -> list[TrexEvent]:
        """Return the events since the last call, without waiting for any."""
        with contextlib.suppress(zmq.Again):
            # Before the request: an event that comes after it must still wake up the next call.
            while True:
                self._socket.recv(zmq.NOBLOCK)
        return [
            self._event(entry)
            for entry in self._rpc.call("get_async_events", session_id=self._session, user="sub")["data"]
        ]

    def _event(self, entry: Mapping[str, Any]) -> TrexEvent:
        number = int(entry["seq"])
        if number != self._next and self._next >= 0:
            self.gap = f"TRex lost events: number {self._next} was expected, {number} was next"
        self._next = number + 1
        return TrexEvent(int(entry["type"]), entry["data"])

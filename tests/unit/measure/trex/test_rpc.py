from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import zmq

from perftrend.errors import TestbedError
from perftrend.measure.trex.rpc import TrexRpc, compress, decompress
from tests.doubles.trex import bind


@contextmanager
def responding(respond: Callable[[bytes], bytes]) -> Iterator[TrexRpc]:
    """Run a server that responds to one request, and give a connection to it."""
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        socket.linger = 0
        rpc = TrexRpc(bind(socket, 0))

        def serve() -> None:
            socket.send(respond(socket.recv()))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield rpc
            thread.join()
        finally:
            rpc.close()


@pytest.mark.parametrize("message", [b"", b"{}", b"x" * 100_000])
def test_message_is_the_same_after_compression(message: bytes) -> None:
    assert message == decompress(compress(message))


def test_message_that_is_not_compressed_is_unchanged() -> None:
    assert b'{"id": 1}' == decompress(b'{"id": 1}')


def test_header_has_the_constant_and_the_original_length() -> None:
    assert bytes.fromhex("abe85cea 00000003") + zlib.compress(b"abc") == compress(b"abc")


@pytest.mark.parametrize("response", [b"SSH-2.0-OpenSSH_9.2", compress(b"{}")[:12], b"\xff\xfe"])
def test_server_of_another_protocol_is_an_error(response: bytes) -> None:
    with (
        responding(lambda _: response) as rpc,
        pytest.raises(TestbedError, match="does not speak the protocol of a TRex server"),
    ):
        rpc.call("get_version")


def test_response_to_another_request_is_an_error() -> None:
    with (
        responding(lambda _: json.dumps({"jsonrpc": "2.0", "id": 99, "result": {}}).encode()) as rpc,
        pytest.raises(TestbedError, match="did not respond to all requests"),
    ):
        rpc.call("get_version")


def test_node_that_is_not_reached_is_the_reason() -> None:
    def check() -> None:
        raise TestbedError("the connection to tg is lost")

    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        port = bind(socket, 0)
    rpc = TrexRpc(port, timeout_s=0.05, check=check)

    with pytest.raises(TestbedError, match=r"^the connection to tg is lost$"):
        rpc.call("get_version")
    rpc.close()


def test_server_that_does_not_run_is_an_error() -> None:
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        port = bind(socket, 0)
    rpc = TrexRpc(port, timeout_s=0.05)

    with pytest.raises(TestbedError, match=r"did not respond to get_version within 0.05 s; .*t-rex-64 -i"):
        rpc.call("get_version")
    rpc.close()


def test_request_that_the_server_does_not_know_is_an_error() -> None:
    def refuse(message: bytes) -> bytes:
        (request,) = json.loads(decompress(message))
        error = {"code": -32601, "message": f"Method {request['method']} not registered"}
        return compress(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode())

    with (
        responding(refuse) as rpc,
        pytest.raises(TestbedError, match="refused get_colour for port 3: Method get_colour not registered"),
    ):
        rpc.call("get_colour", port_id=3)

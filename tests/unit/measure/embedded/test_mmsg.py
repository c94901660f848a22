from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator

import numpy as np
import pytest

from perftrend.measure.embedded.mmsg import Messages, frame_addresses

SO_MEMINFO = 55

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Give two datagram sockets that are connected to each other and lose nothing silently."""
    with contextlib.ExitStack() as stack:
        left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for member in (left, right):
            stack.enter_context(member)
            member.setblocking(False)
        yield left, right


class Numbered:
    """Messages that hold their own number and have different lengths."""

    def __init__(self, count: int) -> None:
        self.buffer = np.zeros((count, 64), np.uint8)
        self.buffer[:, 0:4] = np.arange(count, dtype=">u4").view(np.uint8).reshape(-1, 4)
        self.lengths = 4 + np.arange(count, dtype=np.uint64) % np.uint64(50)
        self.messages = Messages(frame_addresses(self.buffer), self.lengths)

    def expected(self, numbers: range) -> list[tuple[int, int]]:
        return [(number, 4 + number % 50) for number in numbers]


def arrived(receiver: socket.socket) -> list[tuple[int, int]]:
    """Return number and length of every message that waits."""
    found = []
    with contextlib.suppress(BlockingIOError):
        while message := receiver.recv(100):
            found.append((int.from_bytes(message[:4], "big"), len(message)))
    return found


def test_every_message_is_sent_once_and_in_order(pair: Pair) -> None:
    sender, receiver = pair
    vector = Numbered(8)

    assert (8, 0) == vector.messages.send(sender.fileno(), 0, 8)
    assert vector.expected(range(8)) == arrived(receiver)


def test_a_part_of_the_messages_can_be_sent(pair: Pair) -> None:
    sender, receiver = pair
    vector = Numbered(8)

    assert (3, 0) == vector.messages.send(sender.fileno(), 4, 3)
    assert vector.expected(range(4, 7)) == arrived(receiver)


def test_what_a_full_queue_refuses_is_sent_and_lost(pair: Pair) -> None:
    """Nobody reads meanwhile, so the queue takes some and refuses the others."""
    sender, receiver = pair
    vector = Numbered(2000)

    done, dropped = vector.messages.send(sender.fileno(), 0, 2000)

    taken = arrived(receiver)
    assert 2000 == done
    assert 0 < len(taken) == 2000 - dropped
    assert vector.expected(range(len(taken))) == taken


def test_what_was_refused_is_never_sent_again(pair: Pair) -> None:
    sender, receiver = pair
    vector = Numbered(2000)
    vector.messages.send(sender.fileno(), 0, 2000)
    arrived(receiver)

    assert (5, 0) == vector.messages.send(sender.fileno(), 100, 5)
    assert vector.expected(range(100, 105)) == arrived(receiver)


def test_more_messages_than_one_system_call_takes_are_each_sent_once() -> None:
    """The kernel takes 1024 messages a call. A UDP receiver that does not read counts what it drops."""
    vector = Numbered(3000)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
    ):
        receiver.bind(("127.0.0.1", 0))
        receiver.setblocking(False)
        sender.connect(receiver.getsockname())

        assert (3000, 0) == vector.messages.send(sender.fileno(), 0, 3000)
        taken = arrived(receiver)
        meminfo = receiver.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36)

    assert vector.expected(range(len(taken))) == taken
    assert 3000 == len(taken) + struct.unpack("9I", meminfo)[8]


def test_frames_to_a_receiver_that_is_gone_are_no_error() -> None:
    vector = Numbered(10)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
            receiver.bind(("127.0.0.1", 0))
            sender.connect(receiver.getsockname())

        assert [10, 10, 10] == [vector.messages.send(sender.fileno(), 0, 10)[0] for _ in range(3)]


def test_an_error_other_than_a_full_queue_is_raised() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nowhere,
        pytest.raises(OSError, match=r"[Dd]estination"),
    ):
        Numbered(3).messages.send(nowhere.fileno(), 0, 3)


def test_receiving_tells_the_length_of_each_message(pair: Pair) -> None:
    sender, receiver = pair
    for number in range(3):
        sender.send(bytes(10 + number))
    room = Messages(frame_addresses(np.zeros((8, 64), np.uint8)), 64)

    assert 3 == room.receive(receiver.fileno(), 8)
    assert [10, 11, 12] == room.received_lengths[:3].tolist()


def test_receiving_puts_each_message_into_its_row(pair: Pair) -> None:
    sender, receiver = pair
    for number in range(3):
        sender.send(bytes([number] * 4))
    buffer = np.full((8, 64), 255, np.uint8)

    Messages(frame_addresses(buffer), 64).receive(receiver.fileno(), 2)

    assert [0, 1, 255] == buffer[:3, 3].tolist()


def test_receiving_from_an_empty_queue_returns_at_once_with_nothing(pair: Pair) -> None:
    room = Messages(frame_addresses(np.zeros((8, 64), np.uint8)), 64)

    assert 0 == room.receive(pair[0].fileno(), 8)


def test_receiving_from_what_is_no_socket_is_an_error() -> None:
    with open("/dev/null") as file, pytest.raises(OSError, match=r"[Ss]ocket"):  # noqa: PTH123
        Messages(frame_addresses(np.zeros((1, 64), np.uint8)), 64).receive(file.fileno(), 1)

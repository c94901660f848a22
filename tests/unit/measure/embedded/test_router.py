from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from perftrend.measure.embedded.mmsg import Messages
from perftrend.measure.embedded.ports import DevicePort
from perftrend.measure.embedded.router import Burst, Forwarding, Path

ROWS = 64


class Port(DevicePort):
    """Stands in for both ports: gives what waits, writes down what it is to send.

    :param waiting: lengths of the frames that wait, in the order of their rows.
    :param refuse: how many frames of each run the next queue refuses.
    """

    def __init__(self, waiting: list[int] | None = None, *, refuse: int = 0) -> None:
        self.buffer = np.zeros((ROWS, 64), np.uint8)
        self.offset = 2
        self.waiting = waiting or []
        self.released: list[int] = []
        self.sent: list[tuple[int, int]] = []
        self.calls: list[int] = []
        """How many frames each call was to send."""
        self._refuse = refuse

    def receive(self, limit: int) -> tuple[int, int]:
        start = len(self.released)
        return start, min(limit, len(self.waiting) - start)

    def lengths(self, start: int, count: int) -> NDArray[np.uint64]:
        return np.array(self.waiting[start : start + count], np.uint64)

    def release(self, start: int, count: int) -> None:
        self.released += range(start, start + count)

    def messages_from(self, source: DevicePort) -> Messages:
        return cast(Messages, SimpleNamespace(frame_lengths=np.zeros(ROWS, np.uint64)))

    def send(self, messages: Messages, start: int, count: int) -> int:
        self.calls.append(count)
        self.sent += [(row, int(messages.frame_lengths[row])) for row in range(start, start + count)]
        return min(self._refuse, count)

    @property
    def sockets(self) -> list[socket.socket]:
        return []

    def count_dropped(self) -> int:
        return 0

    def close(self) -> None:
        """Nothing is open."""


class Permits(Forwarding):
    """Forwards the rows that it is told, and no other."""

    def __init__(self, permitted: list[bool]) -> None:
        self._permitted = np.array(permitted, dtype=bool)

    def forward(self, burst: Burst, rows: slice) -> Any:
        return self._permitted[rows]


def lengths(count: int) -> list[int]:
    return [60 + number for number in range(count)]


@given(st.lists(st.booleans(), max_size=ROWS), st.integers(1, 20))
def test_permitted_frames_are_sent_in_order_and_all_others_are_not(permitted: list[bool], burst: int) -> None:
    source, target = Port(lengths(len(permitted))), Port()
    path = Path(source, target, Permits(permitted))

    while path.move(burst):
        pass

    assert [(row, 60 + row) for row, well in enumerate(permitted) if well] == target.sent
    assert list(range(len(permitted))) == source.released


@given(st.lists(st.booleans(), max_size=ROWS), st.integers(1, 20))
def test_counters_account_for_every_frame(permitted: list[bool], burst: int) -> None:
    path = Path(Port(lengths(len(permitted))), Port(), Permits(permitted))

    while path.move(burst):
        pass

    assert (len(permitted), permitted.count(True)) == (path.received, path.sent)
    assert permitted.count(False) == path.not_forwarded


def test_at_most_one_burst_is_moved_at_a_time() -> None:
    path = Path(Port(lengths(20)), Port(), Permits([True] * 20))

    assert [8, 8, 4, 0] == [path.move(8) for _ in range(4)]


def test_frames_that_the_next_queue_refuses_are_counted_and_not_kept() -> None:
    source = Port(lengths(10))
    path = Path(source, Port(refuse=3), Permits([True] * 10))

    path.move(10)

    assert (10, 3) == (path.sent, path.refused)
    assert list(range(10)) == source.released


def test_nothing_is_touched_while_no_frame_waits() -> None:
    source, target = Port(), Port()

    assert 0 == Path(source, target, Permits([])).move(8)
    assert ([], []) == (source.released, target.sent)


@pytest.mark.parametrize("permitted", [[False] * 4, [True] * 4])
def test_burst_of_one_mind_needs_at_most_one_system_call(permitted: list[bool]) -> None:
    target = Port()

    Path(Port(lengths(4)), target, Permits(permitted)).move(4)

    assert [4] * permitted[0] == target.calls

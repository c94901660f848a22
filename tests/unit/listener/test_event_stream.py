"""Being woken by events, and connecting again."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

import pytest

from perftrend.clients.gerrit import CommentAdded, EventsDropped, EventStream, UnavailableError, stream
from perftrend.clients.gerrit.stream import read_event
from perftrend.errors import PerftrendError, SettingsError
from perftrend.listener.comment_poller import EventReceiver, Wakes
from tests.doubles import gerrit


def comment(change: int, project: str = "router") -> CommentAdded:
    told = gerrit.event()
    told["change"] |= {"number": change, "project": project}
    found = read_event(json.dumps(told).encode())
    assert isinstance(found, CommentAdded)
    return found


class FakeStream:
    """Events that are known beforehand, after which it breaks."""

    def __init__(self, events: list[Any], on_end: Callable[[], None]) -> None:
        self._events, self._on_end = events, on_end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def events(self, idle_s: float | None = None) -> Iterator[Any]:
        yield from self._events
        self._on_end()
        raise UnavailableError("the stream of events broke off; connect again")

    def close(self) -> None:
        pass


class Connections:
    """Connections one after the other, the last of which ends the watch."""

    def __init__(self, *connections: list[Any] | PerftrendError) -> None:
        self._connections = list(connections)
        self.wakes = Wakes()
        self.states: list[bool] = []
        self.watch = EventReceiver(self.listen, self.wakes, projects={"router"}, pause_s=0.0, idle_s=1.0)  # type: ignore[arg-type]

    def listen(self) -> FakeStream:
        self.states.append(self.watch.is_connected)
        following = self._connections.pop(0)
        if isinstance(following, PerftrendError):
            raise following
        is_last = not self._connections
        return FakeStream(following, self.watch._stopping.set if is_last else lambda: None)

    def followed(self) -> tuple[list[int], bool]:
        """Run it to its end; return what it woke."""
        self.watch.run()
        return self.wakes.drain()


def test_comment_wakes_for_its_change() -> None:
    connections = Connections([comment(3), comment(2), comment(3), comment(4, "another project")])

    assert ([2, 3], True) == connections.followed()


def test_connection_makes_the_listener_look_everywhere() -> None:
    assert ([], True) == Connections([None]).followed()


def test_connection_that_never_stood_wakes_nobody() -> None:
    assert ([], False) == Connections([]).followed()


@pytest.mark.parametrize("kind", ["patchset-created", "change-abandoned"])
def test_new_patch_set_and_abandoned_change_are_looked_at(kind: str) -> None:
    events = [
        read_event(json.dumps({"type": kind, "change": {"project": project, "number": number}}).encode())
        for project, number in (("router", 4), ("another", 5))
    ]

    assert ([4], True) == Connections(events).followed()


def test_dropped_events_make_the_listener_look_everywhere() -> None:
    connections = Connections([None, EventsDropped()])
    looks = []
    wake = connections.wakes.wake
    connections.wakes.wake = lambda *a, **k: (looks.append(k), wake(*a, **k))  # type: ignore[method-assign]

    connections.followed()

    assert 2 == looks.count({"everywhere": True})


def test_broken_connection_is_made_again_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    connections = Connections([None], UnavailableError("away"), UnavailableError("away"), [comment(5)])

    assert ([5], True) == connections.followed()
    assert [False, False, False, False] == connections.states
    assert ["the stream of events broke off; connect again", "away"] == caplog.messages[:2]


def test_settings_that_will_never_do_end_it() -> None:
    error = SettingsError("gerrit.user is not set")
    connections = Connections(error)

    connections.followed()

    assert error is connections.watch.failure


def test_pauses_grow_while_there_is_no_connection_and_no_further_than_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connections = Connections(*[UnavailableError("away")] * 9, [])
    connections.watch._first_pause_s = connections.watch._pause_s = 1.0
    pauses: list[float] = []
    monkeypatch.setattr(connections.watch._stopping, "wait", pauses.append)
    monkeypatch.setattr("random.uniform", lambda _, most: most)

    connections.followed()

    assert [1, 2, 4, 8, 16, 32, 60, 60, 60, 60] == pauses


def test_watch_ends_although_its_program_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_FAREWELL_S", 0.1)
    opened = EventStream(["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"], "gerrit")
    watch = EventReceiver(lambda: opened, Wakes(), projects=None, idle_s=0.05)
    watch.start()
    while not opened.refused:
        time.sleep(0.01)

    watch.stop()

    assert not watch.is_alive()


def test_waiting_ends_when_somebody_wakes() -> None:
    wakes = Wakes()
    thread = threading.Timer(0.01, wakes.wake)
    thread.start()

    wakes.wait(60.0)

    thread.join()
    assert ([], False) == wakes.drain()

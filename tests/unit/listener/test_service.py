"""The loop of the listener: failures are retried, and reported meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from perftrend.clients.gerrit import UnavailableError
from perftrend.errors import PerftrendError, ServiceError, SettingsError, StoreError
from perftrend.listener import service
from perftrend.listener.comment_poller import Wakes
from perftrend.listener.service import ListenerService

LINE = "perftest-2n-clx mrrAND64b"


class FakeWatch:
    """A connection whose state the test sets."""

    def __init__(self) -> None:
        self.is_connected, self.problem, self.connected_at = True, "", 0.0
        self.failure: PerftrendError | None = None
        self.lives = True

    def is_alive(self) -> bool:
        return self.lives


class Time:
    """The monotonic clock of a service that never really waits, and ends when it has waited enough."""

    def __init__(self, patch: pytest.MonkeyPatch, wakes: Wakes) -> None:
        self.now, self.waits, self.most = 1000.0, [], 1
        patch.setattr(service, "time", self)
        patch.setattr(wakes, "wait", self.sleep)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        if len(self.waits) >= self.most:
            raise KeyboardInterrupt


class FakeLeadership:
    """The database's answers to who serves the requests, one for each question; the last one stays."""

    def __init__(self, *answers: bool | StoreError) -> None:
        self.answers = list(answers)

    def is_held(self) -> bool:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, StoreError):
            raise answer
        return answer


class Running:
    """A service on the bench."""

    def __init__(self, bench: Any, patch: pytest.MonkeyPatch, leadership: Any = None) -> None:
        self.bench, self.watch, self.wakes = bench, FakeWatch(), Wakes()
        self.time = Time(patch, self.wakes)
        self.service = ListenerService(
            bench.processor, poller=bench.poller(), wakes=self.wakes, watch=self.watch,  # type: ignore[arg-type]
            metrics=bench.metrics, groups=bench.settings.groups, poll_s=300.0, leadership=leadership,
        )  # fmt: skip

    def turns(self, number: int) -> None:
        """Let it run until it has waited so often."""
        self.time.most = len(self.time.waits) + number
        with pytest.raises(KeyboardInterrupt):
            self.service.run()

    @property
    def problems(self) -> tuple[str, ...]:
        return self.service.health().problems


@pytest.fixture
def running(listener: Any, monkeypatch: pytest.MonkeyPatch) -> Running:
    return Running(listener, monkeypatch)


def test_it_looks_when_it_starts_and_when_nobody_wakes_it(running: Running) -> None:
    running.bench.gerrit.write(LINE)
    running.turns(1)
    assert [LINE] == running.bench.runner.started

    running.bench.gerrit.write("perftest-1n-veth")
    running.turns(2)

    assert [LINE, "perftest-1n-veth"] == running.bench.runner.started
    assert (5.0, ()) == (running.time.waits[0], running.problems)


def test_it_looks_soon_after_what_runs(running: Running) -> None:
    running.bench.runner.runs = [True] * 6

    running.turns(4)

    assert [1, 1, 1] == running.time.waits[:3]


def test_server_that_is_away_is_asked_again_with_growing_pauses(running: Running) -> None:
    running.bench.gerrit.write(LINE)
    running.bench.gerrit.failures = [UnavailableError("502 Bad Gateway")] * 3

    running.turns(1)
    assert (("502 Bad Gateway",), ["502 Bad Gateway"]) == (running.problems, running.bench.said)
    running.turns(7)

    assert ([LINE], ()) == (running.bench.runner.started, running.problems)
    assert 1 == running.bench.said.count("502 Bad Gateway")
    assert b'failures_total{service="service"} 3.0' in running.service.metrics()


def test_server_is_left_alone_for_as_long_as_it_asks(running: Running) -> None:
    running.bench.gerrit.write(LINE)
    running.bench.gerrit.failures = [UnavailableError("503", 20.0)]

    running.turns(19)
    assert [] == running.bench.runner.started
    running.turns(3)

    assert [LINE] == running.bench.runner.started


def test_change_that_an_event_told_of_is_looked_at_again_after_a_failure(running: Running) -> None:
    running.bench.gerrit.write("hello")
    running.turns(1)
    running.bench.gerrit.write(LINE)
    running.bench.gerrit.failures = [UnavailableError("500")]
    running.wakes.wake(1)

    running.turns(4)

    assert [LINE] == running.bench.runner.started


def test_jobs_of_this_machine_are_looked_after_while_gerrit_is_away(running: Running) -> None:
    running.bench.gerrit.write(LINE)
    running.bench.gerrit.failures = [UnavailableError("500")] * 100
    running.bench.runner.runs = [True] * 100

    running.turns(50)

    assert 50 >= len(running.bench.runner.runs)


def test_store_that_fails_is_tried_again(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise StoreError("the disk is full")

    running.bench.gerrit.write(LINE)
    with monkeypatch.context() as patch:
        patch.setattr("perftrend.store.requests.Requests.add", full)
        running.turns(1)
        assert ("the disk is full",) == running.problems
    running.turns(3)

    assert [LINE] == running.bench.runner.started


def test_it_ends_even_if_an_error_replaces_the_interruption(running: Running) -> None:
    running.bench.gerrit.write(LINE)
    running.bench.gerrit.failures = [UnavailableError("broke off")]

    running.service.run(lambda: "broke off" in running.bench.said)

    assert [] == running.time.waits


def test_settings_that_will_never_do_end_it(running: Running) -> None:
    running.watch.failure, running.watch.lives = SettingsError("gerrit.user is not set"), False

    with pytest.raises(SettingsError, match="user is not set"):
        running.service.run()


def test_fault_of_the_connection_is_no_silence(running: Running) -> None:
    running.watch.lives = False

    with pytest.raises(ServiceError, match="receiving events failed; restart the listener"):
        running.service.run()


def test_short_break_of_the_connection_is_no_problem_and_a_long_one_is(running: Running) -> None:
    running.turns(1)
    running.watch.is_connected, running.watch.problem = False, "broke off"
    running.watch.connected_at = running.time.now - 299
    assert (False, ()) == (running.service.health().is_connected, running.problems)

    running.watch.connected_at -= 2
    assert ("broke off",) == running.problems
    assert b"perftrend_listener_connected 0.0" in running.service.metrics()


def test_comments_that_were_not_looked_at_for_long_are_a_problem(running: Running) -> None:
    running.turns(1)
    running.time.now += 601

    (problem,) = running.problems
    assert problem.startswith("the comments were last read 606 s ago")


def test_jobs_of_this_machine_are_run_once_even_if_another_request_fails(running: Running) -> None:
    running.bench.gerrit.write(LINE)
    running.bench.runner.failures = [ServiceError("it may have started anyway")] * 5
    running.bench.runner.runs = [True, True, False]
    running.time.most = 100

    with pytest.raises(ServiceError, match="it may have started"):
        running.service.once()

    assert [] == running.bench.runner.runs


def test_listener_waits_until_no_other_one_serves(listener: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    running = Running(listener, monkeypatch, FakeLeadership(*[False] * 200, True))
    running.bench.gerrit.write(LINE)

    running.turns(200)
    assert ([], ()) == (running.bench.runner.started, running.problems)
    assert ["another listener serves the requests; standing by"] == running.bench.said
    assert b"perftrend_listener_serving 0.0" in running.service.metrics()
    assert running.service.health().is_standby
    running.turns(1)

    assert [LINE] == running.bench.runner.started
    assert ["no other listener serves the requests any longer; taking over"] == running.bench.said[1:2]
    assert b"perftrend_listener_serving 1.0" in running.service.metrics()


def test_listener_whose_database_is_away_does_nothing(listener: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = StoreError("the server closed the connection")
    running = Running(listener, monkeypatch, FakeLeadership(True, lost, lost, False, True))
    running.turns(1)
    running.bench.gerrit.write(LINE)

    running.turns(2)
    assert (["the server closed the connection"], []) == (running.bench.said, running.bench.runner.started)
    assert ("the server closed the connection",) == running.problems
    running.turns(1)
    assert () == running.problems
    running.turns(2)

    assert [LINE] == running.bench.runner.started

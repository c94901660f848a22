"""How long an answer is right: own changes count at once, those of others after a while."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from perftrend.dashboard import AppContext
from perftrend.dashboard.background import run_in_background
from perftrend.dashboard.response_cache.cache import LONGEST_S, DataVersion, VersionTracker
from perftrend.store import Store

MAX_AGE_S = 1.0


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def annotate(store: Store) -> None:
    store.annotations.add("c" * 40, "seen", user="eva")


def tried(store: Store, then: Callable[[Clock], None]) -> bool:
    """Return whether an answer is still right after something."""
    clock = Clock()
    freshness = VersionTracker(store.changes, max_age_s=MAX_AGE_S, clock=clock)

    async def tries() -> bool:
        mark = await freshness.mark()
        then(clock)
        return await freshness.holds(mark)

    return asyncio.run(tries())


def elsewhere(store: Store) -> None:
    with store.changes.suspend_commit_count():
        annotate(store)


def test_answer_stays_right_while_nothing_changes(store: Store) -> None:
    def wait(clock: Clock) -> None:
        clock.now += 0.9 * LONGEST_S

    assert tried(store, wait)


def test_answer_is_made_anew_after_a_minute_all_the_same(store: Store) -> None:
    def wait(clock: Clock) -> None:
        clock.now += 1.1 * LONGEST_S

    assert not tried(store, wait)


def test_own_change_counts_at_once(store: Store) -> None:
    assert not tried(store, lambda _: annotate(store))


def test_change_elsewhere_may_count_later(store: Store) -> None:
    def change(clock: Clock) -> None:
        elsewhere(store)
        clock.now += 0.9 * MAX_AGE_S

    assert tried(store, change)


def test_change_elsewhere_counts_after_a_while(store: Store) -> None:
    def change(clock: Clock) -> None:
        elsewhere(store)
        clock.now += 1.1 * MAX_AGE_S

    assert not tried(store, change)


def test_work_beside_the_requests_counts_like_that_of_others(site: AppContext) -> None:
    def work(site: AppContext, _: threading.Event) -> None:
        annotate(site.store)

    own, state = site.store.changes.own, site.store.changes.state()
    with run_in_background(site, work):
        pass

    assert own == site.store.changes.own
    assert state != site.store.changes.state()


def test_answer_of_an_older_look_counts_no_longer_than_the_look(store: Store) -> None:
    """The state was looked at; then somebody wrote; then an answer was made, of the new state."""
    clock = Clock()
    freshness = VersionTracker(store.changes, max_age_s=MAX_AGE_S, clock=clock)
    marks: list[DataVersion] = []

    async def tries() -> bool:
        await freshness.mark()
        elsewhere(store)
        clock.now += 0.5 * MAX_AGE_S
        marks.append(await freshness.mark())
        clock.now += 1.1 * MAX_AGE_S
        return await freshness.holds(marks[0])

    assert not asyncio.run(tries())


def test_database_is_not_asked_more_often_than_needed(store: Store) -> None:
    clock = Clock()
    freshness = VersionTracker(store.changes, max_age_s=MAX_AGE_S, clock=clock)
    looks: list[float] = []
    state = store.changes.state

    def looked() -> object:
        looks.append(clock.now)
        return state()

    store.changes.state = looked  # type: ignore[method-assign]

    async def reads() -> None:
        mark = await freshness.mark()
        for _ in range(100):
            clock.now += MAX_AGE_S / 10
            several: list[Coroutine[Any, Any, bool]] = [freshness.holds(mark) for _ in range(5)]
            await asyncio.gather(*several)

    asyncio.run(reads())

    assert 9 <= len(looks) <= 11

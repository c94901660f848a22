"""Concurrent requests for the same response wait for one computation."""

from __future__ import annotations

import asyncio

import pytest

from perftrend.dashboard.response_cache.cache import SingleFlight


class Work:
    """Something that takes until it is let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.ready = asyncio.Event()

    async def __call__(self) -> int:
        self.begun += 1
        await self.ready.wait()
        return self.begun


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_several_get_one_result() -> None:
    async def several() -> tuple[list[int], int]:
        flights, work = SingleFlight[int](), Work()
        asked = [asyncio.ensure_future(flights.join("a", work)) for _ in range(50)]
        await settled()
        work.ready.set()
        return list(await asyncio.gather(*asked)), await flights.join("a", work)

    assert ([1] * 50, 2) == asyncio.run(several())


def test_others_go_on_when_the_first_goes_away() -> None:
    async def leaving() -> int:
        flights, work = SingleFlight[int](), Work()
        first, second = (asyncio.ensure_future(flights.join("a", work)) for _ in range(2))
        await settled()
        first.cancel()
        await settled()
        work.ready.set()
        return await second

    assert 1 == asyncio.run(leaving())


def test_failure_is_told_to_all_and_not_kept() -> None:
    async def fail() -> int:
        raise ZeroDivisionError

    async def succeed() -> int:
        return 1

    async def failing() -> int:
        flights = SingleFlight[int]()
        with pytest.raises(ZeroDivisionError):
            await flights.join("a", fail)
        return await flights.join("a", succeed)

    assert 1 == asyncio.run(failing())

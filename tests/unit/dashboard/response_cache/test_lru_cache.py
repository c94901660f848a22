"""The memory of the cache is bounded, whatever is requested."""

from __future__ import annotations

import pytest

from perftrend.dashboard.auth import Role
from perftrend.dashboard.response_cache.cache import OVERHEAD, Answer, CachedResponse, DataVersion, LruCache
from perftrend.dashboard.response_cache.cache_key import CacheKey, Reader

READER = Reader(Role.VIEWER, testbeds=(), signed_in=False, has_forms=False, has_session=False, is_here=False)
ROOM = 100 * OVERHEAD


def asked(query: str) -> CacheKey:
    return CacheKey("/", query.encode(), as_json=False, reader=READER)


def entry(size: int) -> CachedResponse:
    messages = [
        {"type": "http.response.start", "status": 200, "headers": []},
        {"type": "http.response.body", "body": bytes(size)},
    ]
    return CachedResponse(Answer.of(messages), DataVersion(0.0, 0, None))


@pytest.fixture
def memory() -> LruCache:
    return LruCache(ROOM)


def test_many_small_answers_take_no_more_than_the_room(memory: LruCache) -> None:
    for number in range(1000):
        memory.put(asked(f"{number}"), entry(0))

    assert memory.bytes <= ROOM
    assert 90 < len(memory) <= 100


def test_long_questions_count_as_well(memory: LruCache) -> None:
    for number in range(100):
        memory.put(asked(f"{number}{'x' * OVERHEAD}"), entry(0))

    assert len(memory) < 51


def test_what_was_asked_for_last_stays(memory: LruCache) -> None:
    for number in range(150):
        memory.find(asked("0"))
        memory.put(asked(f"{number}"), entry(0))

    assert memory.find(asked("0")) is not None
    assert memory.find(asked("1")) is None


def test_one_answer_does_not_take_all_room(memory: LruCache) -> None:
    memory.put(asked("small"), entry(0))
    memory.put(asked("large"), entry(ROOM // 4))

    assert memory.find(asked("large")) is None
    assert memory.find(asked("small")) is not None


def test_newer_answer_takes_the_place_of_the_older(memory: LruCache) -> None:
    first, second = entry(1), entry(2)
    memory.put(asked("a"), first)
    before = memory.bytes
    memory.put(asked("a"), second)

    assert second is memory.find(asked("a"))
    assert (1, before + 1) == (len(memory), memory.bytes)


def test_room_of_nothing_keeps_nothing() -> None:
    memory = LruCache(0)
    memory.put(asked("a"), entry(0))

    assert 0 == len(memory) == memory.bytes

"""Least recently used (LRU) cache of responses, limited by its size in bytes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from perftrend.dashboard.response_cache.answers import Answer
from perftrend.dashboard.response_cache.cache_key import CacheKey
from perftrend.dashboard.response_cache.version import DataVersion

OVERHEAD = 2048
"""Bytes that an entry counts in addition to its content, which limits the number of small entries."""
_SHARE = 8
"""Divisor of the cache size; larger entries are not cached."""


@dataclass(frozen=True, slots=True)
class CachedResponse:
    """A response and the state that it was computed from."""

    answer: Answer
    mark: DataVersion


class LruCache:
    """Responses by cache key; for one event loop.

    :param most_bytes: maximum size of all entries.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._entries: OrderedDict[CacheKey, CachedResponse] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: CacheKey) -> CachedResponse | None:
        """Return the entry of a key, or None."""
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
        return found

    def put(self, key: CacheKey, entry: CachedResponse) -> None:
        """Store an entry in place of an older one of the same key, unless it is too large."""
        self.forget(key)
        size = _size(key, entry)
        if size > self._most_bytes // _SHARE:
            return
        self._entries[key] = entry
        self.bytes += size
        while self.bytes > self._most_bytes:
            oldest, dropped = self._entries.popitem(last=False)
            self.bytes -= _size(oldest, dropped)

    def forget(self, key: CacheKey) -> None:
        """Remove the entry of a key."""
        dropped = self._entries.pop(key, None)
        if dropped is not None:
            self.bytes -= _size(key, dropped)


def _size(key: CacheKey, entry: CachedResponse) -> int:
    return key.size + entry.answer.size + OVERHEAD

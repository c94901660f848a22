"""Least recently used (LRU) cache of responses, limited by its size in bytes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from perftrend.dashboard.kept.answers import Answer
from perftrend.dashboard.kept.asked import Asked
from perftrend.dashboard.kept.freshness import Mark

OVERHEAD = 2048
"""Bytes that an entry counts in addition to its content, which limits the number of small entries."""
_SHARE = 8
"""Divisor of the cache size; larger entries are not cached."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A response and the state that it was computed from."""

    answer: Answer
    mark: Mark


class Memory:
    """Responses by cache key; for one event loop.

    :param most_bytes: maximum size of all entries.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._entries: OrderedDict[Asked, Entry] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, asked: Asked) -> Entry | None:
        """Return the entry of a key, or None."""
        found = self._entries.get(asked)
        if found is not None:
            self._entries.move_to_end(asked)
        return found

    def keep(self, asked: Asked, entry: Entry) -> None:
        """Store an entry in place of an older one of the same key, unless it is too large."""
        self.forget(asked)
        size = _size(asked, entry)
        if size > self._most_bytes // _SHARE:
            return
        self._entries[asked] = entry
        self.bytes += size
        while self.bytes > self._most_bytes:
            oldest, dropped = self._entries.popitem(last=False)
            self.bytes -= _size(oldest, dropped)

    def forget(self, asked: Asked) -> None:
        """Remove the entry of a key."""
        dropped = self._entries.pop(asked, None)
        if dropped is not None:
            self.bytes -= _size(asked, dropped)


def _size(asked: Asked, entry: Entry) -> int:
    return asked.size + entry.answer.size + OVERHEAD

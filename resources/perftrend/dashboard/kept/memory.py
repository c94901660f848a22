"""What is kept: as much as there is room for, and of that what was asked for last."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from perftrend.dashboard.kept.answers import Answer
from perftrend.dashboard.kept.asked import Asked
from perftrend.dashboard.kept.freshness import Mark

OVERHEAD = 2048
"""Bytes that an answer takes beside its own: so small ones cannot be too many."""
_SHARE = 8
"""One answer takes no more than this part of the room."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An answer, and what it was made of."""

    answer: Answer
    mark: Mark


class Memory:
    """Answers by what was asked; for one event loop.

    :param most_bytes: that they may take together.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._entries: OrderedDict[Asked, Entry] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, asked: Asked) -> Entry | None:
        """Return what is kept for a question."""
        found = self._entries.get(asked)
        if found is not None:
            self._entries.move_to_end(asked)
        return found

    def keep(self, asked: Asked, entry: Entry) -> None:
        """Keep an answer in place of an older one to the same question."""
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
        """Keep nothing for a question."""
        dropped = self._entries.pop(asked, None)
        if dropped is not None:
            self.bytes -= _size(asked, dropped)


def _size(asked: Asked, entry: Entry) -> int:
    return asked.size + entry.answer.size + OVERHEAD

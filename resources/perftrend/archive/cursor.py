"""Values of a JSON file that is read as a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import ijson  # type: ignore[import-untyped]  # it has no types

from perftrend.errors import ArchiveError

DEPTH_LIMIT = 50
"""Values that are kept are not nested deeper."""


class Readable(Protocol):
    """A file of bytes."""

    def read(self, size: int = -1, /) -> bytes:
        """Return some bytes, none only at the end."""


class Cursor:
    """Goes through a JSON file once. Its reader takes the values that it wants and skips the others.

    A value that is not of the type that is asked for counts as an empty one: files change.

    :param charge: told of each text that is kept; it may refuse.
    :raises ArchiveError: by every method, for what is no JSON.
    """

    def __init__(self, file: Readable, charge: Callable[[str], None]) -> None:
        self._events = self._sound(ijson.basic_parse(file, use_float=True))
        self._charge = charge
        self._event: str
        self._value: Any
        self._advance()

    def members(self) -> Iterator[str]:
        """Yield the keys of an object. The value of each is to be taken before the next one."""
        if self._event != "start_map":
            self.skip()
            return
        self._advance()
        while self._event != "end_map":
            key = str(self._value)
            self._advance()
            yield key
        self._advance()

    def items(self) -> Iterator[None]:
        """Yield before each item of a list. It is to be taken before the next one."""
        if self._event != "start_array":
            self.skip()
            return
        self._advance()
        while self._event != "end_array":
            yield
        self._advance()

    def skip(self) -> None:
        """Pass over a value."""
        depth = 0
        while True:
            depth += self._event.startswith("start_")
            depth -= self._event.startswith("end_")
            self._advance()
            if depth <= 0:
                return

    def text(self) -> str:
        """Return a string; an empty one for anything else but a number."""
        if self._event not in ("string", "number"):
            self.skip()
            return ""
        return str(self.value())

    def value(self, depth: int = DEPTH_LIMIT) -> Any:  # noqa: ANN401 - whatever the file holds
        """Return any value.

        :raises ArchiveError: if it is nested deeper than anything that is kept.
        """
        if not depth:
            raise ArchiveError(f"has a value that is nested more than {DEPTH_LIMIT} deep")
        if self._event == "start_map":
            return {key: self._member(key, depth) for key in self.members()}
        if self._event == "start_array":
            return [self.value(depth - 1) for _ in self.items()]
        value = self._value
        self._charge(value if isinstance(value, str) else "")
        self._advance()
        return value

    def _member(self, key: str, depth: int) -> Any:  # noqa: ANN401 - as value()
        self._charge(key)
        return self.value(depth - 1)

    def _advance(self) -> None:
        self._event, self._value = next(self._events, ("", None))

    def _sound(self, events: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        try:
            yield from events
        except (ijson.JSONError, UnicodeDecodeError) as error:
            said = str(error).splitlines() or ["it is cut off"]
            raise ArchiveError(f"is no JSON: {said[0].strip()}; was the file cut off or damaged?") from error

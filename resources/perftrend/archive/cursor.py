"""Values of a JSON file, read as a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import ijson  # type: ignore[import-untyped]  # it has no types

from perftrend.errors import ArchiveError

DEPTH_LIMIT = 50
"""Maximum nesting of values that are read."""


class BinaryFile(Protocol):
    """A file of bytes."""

    def read(self, size: int = -1, /) -> bytes:
        """Return some bytes; empty only at the end."""


class Cursor:
    """Reads a JSON file once, from start to end. Callers read the values that they need and skip the others.

    A value that does not have the requested type counts as an empty one, since file formats change.

    :param charge: called with each text that is retained; it may raise an error.
    :raises ArchiveError: by every method, if the file is not valid JSON.
    """

    def __init__(self, file: BinaryFile, charge: Callable[[str], None]) -> None:
        self._events = self._sound(ijson.basic_parse(file, use_float=True))
        self._charge = charge
        self._event: str
        self._value: Any
        self._advance()

    def members(self) -> Iterator[str]:
        """Yield the keys of an object. The value of each has to be read before the next key."""
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
        """Yield before each item of a list. The item has to be read before the next one."""
        if self._event != "start_array":
            self.skip()
            return
        self._advance()
        while self._event != "end_array":
            yield
        self._advance()

    def skip(self) -> None:
        """Skip a value."""
        depth = 0
        while True:
            depth += self._event.startswith("start_")
            depth -= self._event.startswith("end_")
            self._advance()
            if depth <= 0:
                return

    def text(self) -> str:
        """Return a string or a number as a string; an empty one for other values."""
        if self._event not in ("string", "number"):
            self.skip()
            return ""
        return str(self.value())

    def value(self, depth: int = DEPTH_LIMIT) -> Any:  # noqa: ANN401 - any JSON value
        """Return a value of any type.

        :raises ArchiveError: if it is nested more deeply than ``depth``.
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
            lines = str(error).splitlines() or ["it is cut off"]
            raise ArchiveError(
                f"is not valid JSON: {lines[0].strip()}; was the file cut off or damaged?"
            ) from error

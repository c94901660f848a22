"""The parameters of requests to the double of a TRex server, and how it refuses them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

PARSE, EXECUTE, METHOD, TRY_AGAIN = -32602, -32000, -32601, -32001


class RefusedError(Exception):
    """A request that the server refuses."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def typed(parameters: Mapping[str, Any], name: str, kind: type) -> Any:
    """Return a parameter. :raises RefusedError: if it is missing or of another type."""
    value = parameters.get(name)
    if value is None:
        raise RefusedError(PARSE, f"field '{name}' value is null")
    expected = (int, float) if kind is float else kind
    if not isinstance(value, expected) or (isinstance(value, bool) and kind is not bool):
        raise RefusedError(PARSE, f"'{name}' is '{type(value).__name__}', expecting '{kind.__name__}'")
    return value


def bounded(parameters: Mapping[str, Any], name: str, bits: int) -> int:
    """Return a number that is not negative and has at most so many bits."""
    value: int = typed(parameters, name, int)
    if not 0 <= value < 2**bits:
        raise RefusedError(PARSE, f"'{name}' has value {value}, expecting a number of {bits} bits")
    return value


def choice(parameters: Mapping[str, Any], name: str, known: Collection[Any]) -> Any:
    """Return one of the known values."""
    value = typed(parameters, name, type(next(iter(known))))
    if value not in known:
        raise RefusedError(PARSE, f"field '{name}' has an invalid value: {value}")
    return value

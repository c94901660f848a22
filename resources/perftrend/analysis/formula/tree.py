"""The syntax tree of a formula: calls with their arguments.

``str()`` of a tree returns the formula in its canonical form, which is parsed to the same tree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from perftrend.analysis.formula.keys import format_key
from perftrend.model import TraceKey


@dataclass(frozen=True, slots=True)
class Text:
    """A string, which cannot contain a quotation mark."""

    value: str
    position: int = field(default=0, compare=False)
    """Where it begins in the text: at its quotation mark."""

    def __str__(self) -> str:
        return f'"{self.value}"'


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number."""

    value: float
    position: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return repr(self.value).removesuffix(".0")


@dataclass(frozen=True, slots=True)
class TraceNode:
    """A normal trace, which is in the names of calculated ones but never in a formula of a user."""

    key: TraceKey
    position: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return format_key(self.key)


@dataclass(frozen=True, slots=True)
class Call:
    """A function and its arguments."""

    function: str
    arguments: tuple[Argument, ...]
    position: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


Argument: TypeAlias = Call | Text | Number | TraceNode

"""The parser of formulas: function calls with strings, numbers and calls as arguments, and nothing else.

::

    formula  = call
    call     = name, "(", argument, { ",", argument }, ")"
    argument = call | string | number
    string   = '"', { any printable character except '"' }, '"'
    number   = [ sign ], digits, [ ".", digits ], [ "e", [ sign ], digits ]

Spaces, tabs and line breaks are allowed between all of these. In the names of calculated traces an argument
may also be the name of a normal trace, such as ``norm(,test=x,)``.

The parser descends without backtracking: its time is linear in the length of the text. Its result has been
checked against the table of functions.

Source: "Skia Perf: Design", section Trace IDs.
"""

from __future__ import annotations

import math
import re

from perftrend.analysis.formula.call_checks import check_call
from perftrend.analysis.formula.escapes import quote
from perftrend.analysis.formula.functions import FUNCTIONS, Makes
from perftrend.analysis.formula.keys import check_length, read_key
from perftrend.analysis.formula.tree import Argument, Call, Number, Text, TraceNode
from perftrend.errors import FormulaError

MOST_CALLS = 100
"""In one formula."""

MOST_DEPTH = 20
"""Nested calls."""

_BLANKS = re.compile(r"[ \t\r\n]*")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_STRING = re.compile(r'"([^"]*)"')
_OTHER_QUOTES = "'`\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"
_EXAMPLE = 'a function such as filter("test=x")'
_END = "the end"


def parse(text: str) -> Call:
    """Read a formula.

    :returns: the outermost call; ``str()`` of it returns the formula.
    :raises FormulaError: if it is invalid, with the position and the expected text.
    """
    return _read(text, "formula", traces=False)


def parse_calculated(text: str) -> Call | TraceNode:
    """Read the name of a calculated trace, such as ``norm(,test=x,)``, without its ``!``.

    :raises FormulaError: if it is invalid.
    """
    check_length(text, "trace id")
    if text.startswith(","):
        key, end = read_key(text, 0, subject="trace id")
        if end < len(text):
            raise FormulaError("trace id", end, f"expected the end, but found {quote(text[end:])}")
        return TraceNode(key)
    call = _read(text, "trace id", traces=True)
    _check_chain(call)
    return call


def _check_chain(call: Call) -> None:
    """Raise an error if a call does not apply functions of each row to one normal trace."""
    innermost: Argument = call
    while isinstance(innermost, Call) and FUNCTIONS[innermost.function].makes is Makes.EACH:
        innermost = innermost.arguments[0]
    if not isinstance(innermost, TraceNode):
        reason = "expected the name of a normal trace, or a function of each row, such as norm(,test=x,)"
        raise FormulaError("trace id", innermost.position, reason)


def _read(text: str, subject: str, *, traces: bool) -> Call:
    check_length(text, subject)
    parser = _FormulaParser(text, subject, traces=traces)
    call = parser.call(depth=1)
    if parser.rest():
        raise parser.syntax_error(_END)
    return call


class _FormulaParser:
    """A parser: the text, and the place up to which it has been read."""

    def __init__(self, text: str, subject: str, *, traces: bool) -> None:
        self.text = text
        self.subject = subject
        self.traces = traces
        self.place = 0
        self.calls = 0

    def call(self, *, depth: int) -> Call:
        self.skip_blanks()
        start = self.place
        name = _NAME.match(self.text, start)
        if not name:
            raise self.syntax_error(_EXAMPLE)
        self.count_call(depth)
        self.place = name.end()
        if not self.took("("):
            raise self.syntax_error(f"a ( after {quote(name[0])}")
        arguments: list[Argument] = []
        while not self.took(")"):
            if arguments and not self.took(","):
                raise self.syntax_error(", or )")
            arguments.append(self.argument(depth))
        call = Call(name[0], tuple(arguments), start)
        check_call(call, self.subject)
        return call

    def argument(self, depth: int) -> Argument:
        self.skip_blanks()
        first = self.text[self.place : self.place + 1]
        if self.traces and first == ",":
            start = self.place
            key, self.place = read_key(self.text, start, subject=self.subject)
            return TraceNode(key, start)
        if first == '"':
            return self.string()
        number = _NUMBER.match(self.text, self.place)
        return self.number(number) if number else self.call(depth=depth + 1)

    def string(self) -> Text:
        start = self.place
        found = _STRING.match(self.text, start)
        if not found:
            raise self.wrong('this string is never closed; write a " at its end')
        for place, character in enumerate(found[1], start + 1):
            if not character.isprintable():
                self.place = place
                raise self.wrong(f"{quote(character)} is not allowed in a string; write it as %XX")
        self.place = found.end()
        return Text(found[1], start)

    def number(self, found: re.Match[str]) -> Number:
        value = float(found[0])
        if not math.isfinite(value):
            raise self.wrong(f"{quote(found[0])} is too large a number")
        number = Number(value, self.place)
        self.place = found.end()
        return number

    def count_call(self, depth: int) -> None:
        self.calls += 1
        if depth > MOST_DEPTH:
            raise self.wrong(f"more than {MOST_DEPTH} calls within calls; write a simpler formula")
        if self.calls > MOST_CALLS:
            raise self.wrong(f"more than {MOST_CALLS} calls; write a simpler formula")

    def skip_blanks(self) -> None:
        blanks = _BLANKS.match(self.text, self.place)
        self.place = blanks.end() if blanks else self.place

    def rest(self) -> str:
        self.skip_blanks()
        return self.text[self.place :]

    def took(self, mark: str) -> bool:
        self.skip_blanks()
        if not self.text.startswith(mark, self.place):
            return False
        self.place += len(mark)
        return True

    def syntax_error(self, what: str) -> FormulaError:
        rest = self.rest()
        hint = '; write strings between plain "' if rest and rest[0] in _OTHER_QUOTES else ""
        return self.wrong(f"expected {what}, but found {_token(rest)}{hint}")

    def wrong(self, reason: str) -> FormulaError:
        return FormulaError(self.subject, self.place, reason)


def _token(rest: str) -> str:
    """Return the next token of a text for an error message."""
    if not rest:
        return _END
    if rest[0] == '"':
        return "a string"
    found = _NAME.match(rest) or _NUMBER.match(rest)
    return quote(found[0] if found else rest[0])

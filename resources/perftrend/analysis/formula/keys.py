"""Names of normal traces: a trace's parameters as ``,key=value,key=value,``.

The parameters are in the order of their names. A comma, an equals sign or a percent sign in a name or a value
is escaped, so that every trace has exactly one name, and every name belongs to one trace.

Source: "Skia Perf: Design", section Trace IDs; the form with keys is that of its successors.
"""

from __future__ import annotations

from perftrend.analysis.formula.escapes import escape, is_plain, quote, unescape
from perftrend.errors import FormulaError
from perftrend.model import TraceKey

MOST_CHARACTERS = 10_000
"""In one name, one query or one formula."""

SUBJECT = "trace id"
_SPECIAL = ",="


def format_key(key: TraceKey) -> str:
    """Return the name of a normal trace.

    :raises FormulaError: if the key has no parameters, or one without a name.
    """
    if not key.parameters or not all(name for name, _ in key.parameters):
        raise FormulaError(SUBJECT, 0, "a trace has at least one parameter, and each has a name")
    pairs = sorted(key.parameters)
    if not is_plain("".join(map("".join, pairs)), _SPECIAL):
        pairs = [(escape(name, _SPECIAL), escape(value, _SPECIAL)) for name, value in pairs]
    return f",{','.join(map('='.join, pairs))},"


def parse_key(text: str) -> TraceKey:
    """Read the name of a normal trace.

    :raises FormulaError: if it is invalid, with the position of the error.
    """
    check_length(text, SUBJECT)
    key, end = read_key(text, 0, subject=SUBJECT)
    if end < len(text):
        raise FormulaError(
            SUBJECT, end, f"expected key=value and a comma, or the end; found {quote(text[end:])}"
        )
    return key


def read_key(text: str, start: int, *, subject: str) -> tuple[TraceKey, int]:
    """Read the name of a normal trace that begins at ``start``.

    :returns: the key and where its name ends.
    :raises FormulaError: if there is no name at this position.
    """
    if not text.startswith(",", start):
        found = quote(text[start:]) if start < len(text) else "the end"
        raise FormulaError(subject, start, f"expected a name such as ,test=x,testbed=y, but found {found}")
    parameters: dict[str, str] = {}
    end = start + 1
    while (name_end := _name_end(text, end)) is not None:
        stop = text.find(",", end)
        if stop < 0:
            raise FormulaError(subject, len(text), "expected the comma that ends a parameter")
        name = unescape(text[end:name_end], _SPECIAL, subject=subject, position=end)
        value = unescape(text[name_end + 1 : stop], _SPECIAL, subject=subject, position=name_end + 1)
        _check_order(name, parameters, subject=subject, position=end)
        parameters[name] = value
        end = stop + 1
    if not parameters:
        raise FormulaError(subject, end, "expected key=value and a comma")
    return TraceKey(tuple(parameters.items())), end


def check_length(text: str, subject: str) -> None:
    """Raise an error if a text is too long.

    :raises FormulaError: if it has more than 10,000 characters.
    """
    if len(text) > MOST_CHARACTERS:
        reason = f"{len(text)} characters are too many; write at most {MOST_CHARACTERS}"
        raise FormulaError(subject, MOST_CHARACTERS, reason)


def _name_end(text: str, start: int) -> int | None:
    """Return the place of the equals sign of the parameter that begins here; None if no parameter does."""
    comma = text.find(",", start)
    equals = text.find("=", start, comma if comma >= 0 else len(text))
    return equals if equals >= 0 else None


def _check_order(name: str, before: dict[str, str], *, subject: str, position: int) -> None:
    last = next(reversed(before), "")
    if not name:
        raise FormulaError(subject, position, "a parameter needs a name; write it before the =")
    if name in before:
        raise FormulaError(subject, position, f"the parameter {quote(name)} occurs twice; remove one")
    if name < last:
        reason = f"parameters must be in the order of their names; write {quote(name)} before {quote(last)}"
        raise FormulaError(subject, position, reason)

"""Names of traces in the form of the Skia Perf design: their values, ``64b-ip4:mrr:2n-clx``.

The values are in the order of the parameters' names, which are omitted. A name is therefore short, but
several traces may have the same one; :func:`perftrend.analysis.formula.format_key` writes the form with
names, which is unique. A colon or a percent sign in a value is escaped.

Source: "Skia Perf: Design", section Trace IDs: ``foo:bar:baz:quux``.
"""

from __future__ import annotations

from perftrend.analysis.formula.escapes import escape, unescape
from perftrend.model import TraceKey

_SPECIAL = ":"
SUBJECT = "trace name"


def format_skia_name(key: TraceKey) -> str:
    """Return the name of a trace in the form of the Skia Perf design."""
    return ":".join(escape(value, _SPECIAL) for _, value in key.parameters)


def parse_skia_name(text: str) -> tuple[str, ...]:
    """Read a name in the form of the Skia Perf design.

    :returns: the values, in the order of the parameters' names.
    :raises FormulaError: if it is invalid, with the position of the error.
    """
    values = []
    position = 0
    for part in text.split(":"):
        values.append(unescape(part, _SPECIAL, subject=SUBJECT, position=position))
        position += len(part) + 1
    return tuple(values)

"""Names of traces in the documented form: their values, ``64b-ip4:mrr:2n-clx``.

The values stand in the order of the parameters' names, which are left out. So a name is short, and one
name may be that of several traces; :func:`perftrend.analysis.formula.format_key` writes the form with names,
which is not. A colon or a percent sign in a value is escaped.

Source: "Skia Perf: Design", section Trace IDs: ``foo:bar:baz:quux``.
"""

from __future__ import annotations

from perftrend.analysis.formula.escapes import escaped, unescaped
from perftrend.model import TraceKey

_SPECIAL = ":"
SUBJECT = "trace name"


def documented_name(key: TraceKey) -> str:
    """Return the name of a trace in the documented form."""
    return ":".join(escaped(value, _SPECIAL) for _, value in key.parameters)


def parse_documented_name(text: str) -> tuple[str, ...]:
    """Read a name in the documented form.

    :returns: the values, in the order of the parameters' names.
    :raises FormulaError: if it is none, with the position of what is wrong.
    """
    values = []
    position = 0
    for part in text.split(":"):
        values.append(unescaped(part, _SPECIAL, subject=SUBJECT, position=position))
        position += len(part) + 1
    return tuple(values)

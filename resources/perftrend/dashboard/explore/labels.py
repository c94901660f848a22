"""Names of lines: what they have in common is shown once, and each label has the rest.

Both the parameters with the same value in all lines and the ends of values that are the same are common:
``64b-1c-ip4-mrr`` and ``64b-2c-l2-mrr`` have ``64b-…-mrr`` in common, and labels ``1c-ip4`` and ``2c-l2``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from perftrend.analysis.formula import format_key
from perftrend.dashboard.explore.lines import PointLine

_SEPARATOR = "-"
_OMITTED = "\N{HORIZONTAL ELLIPSIS}"


@dataclass(frozen=True, slots=True)
class LineLabels:
    """Names of lines."""

    common: dict[str, str]
    """The parameters that all traces have in common."""
    parts: dict[str, str]
    """The ends that the values of other parameters have in common."""
    label_of: Mapping[str, str]
    """A label of each line by its id."""


def label_lines(lines: Mapping[str, PointLine]) -> LineLabels:
    """Return the labels of lines.

    A label has the values that are not common, the test first, without those that its name repeats. For a
    calculated line it is within the functions. For the row of a formula it is the id.
    """
    keys = {identity: line.trace.key.as_dict() for identity, line in lines.items() if line.trace}
    shared = set.intersection(*(set(key.items()) for key in keys.values())) if len(keys) > 1 else set()
    own = {
        identity: {name: value for name, value in key.items() if (name, value) not in shared}
        for identity, key in keys.items()
    }
    ends = {name: _common_ends(values) for name, values in _values_of_all(own.values()).items()}
    traces = len({line.trace.key for line in lines.values() if line.trace})
    parts = {name: end for name, end in ends.items() if any(end)}
    short = {identity: short_name(key, parts) for identity, key in own.items()}
    if len(set(short.values())) < traces:
        parts = {}
        short = {identity: short_name(key) for identity, key in own.items()}
    if len(set(short.values())) < traces:
        short = {identity: " ".join(key.values()) for identity, key in own.items()}
    return LineLabels(
        dict(sorted(shared)),
        {name: _SEPARATOR.join((*first, _OMITTED, *last)) for name, (first, last) in sorted(parts.items())},
        {identity: _format_label(line, short.get(identity, "")) for identity, line in lines.items()},
    )


_Ends = tuple[Sequence[str], Sequence[str]]


def short_name(key: Mapping[str, str], parts: Mapping[str, _Ends] | None = None) -> str:
    """Return the values of parameters, the test first, without those that its name repeats.

    :param parts: the ends of values to omit.
    """
    own = {name: _without(value, (parts or {}).get(name, ((), ()))) for name, value in key.items()}
    test = own.pop("test", "")
    others = [value for name, value in own.items() if key[name].lower() not in test.lower()]
    return " ".join(filter(None, (test, *others)))


def _format_label(line: PointLine, label: str) -> str:
    if not (line.trace and label):
        return line.identity
    return label if line.is_normal else line.identity[1:].replace(format_key(line.trace.key), label)


def _values_of_all(keys: Collection[Mapping[str, str]]) -> dict[str, set[str]]:
    """Return the values of each parameter that all keys have."""
    names = set.intersection(*(set(key) for key in keys)) if len(keys) > 1 else set()
    return {name: {key[name] for key in keys} for name in names}


def _common_ends(values: Collection[str]) -> _Ends:
    """Return the words at the beginning and at the end of all values; each has at least one other word."""
    words = [value.split(_SEPARATOR) for value in values]
    most = min(map(len, words)) - 1
    first = _common_length(words, most)
    last = _common_length([each[::-1] for each in words], most - first)
    return words[0][:first], words[0][len(words[0]) - last :]


def _common_length(words: Sequence[Sequence[str]], most: int) -> int:
    return next((place for place in range(most) if len({each[place] for each in words}) > 1), most)


def _without(value: str, ends: _Ends) -> str:
    words = value.split(_SEPARATOR)
    return _SEPARATOR.join(words[len(ends[0]) : len(words) - len(ends[1])])

"""Labels of lines: shared parameters are shown once, and each label has the others."""

from __future__ import annotations

from collections.abc import Mapping

from perftrend.analysis.formula import format_key
from perftrend.dashboard.explore.lines import Line


def labels(lines: Mapping[str, Line]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the parameters that all normal traces have in common, and a label of each line by its id.

    A label has the values of the other parameters, the test first, without those that its name repeats. For a
    calculated line it is within the functions. For the row of a formula it is the id.
    """
    keys = {identity: line.trace.key.as_dict() for identity, line in lines.items() if line.trace}
    shared = set.intersection(*(set(key.items()) for key in keys.values())) if len(keys) > 1 else set()
    own = {
        identity: {name: value for name, value in key.items() if (name, value) not in shared}
        for identity, key in keys.items()
    }
    short = {identity: _without_repeats(key) for identity, key in own.items()}
    if len(set(short.values())) < len({line.trace.key for line in lines.values() if line.trace}):
        short = {identity: " ".join(key.values()) for identity, key in own.items()}
    named = {identity: _named(line, short.get(identity, "")) for identity, line in lines.items()}
    return dict(sorted(shared)), named


def _named(line: Line, label: str) -> str:
    if not (line.trace and label):
        return line.identity
    return label if line.is_normal else line.identity[1:].replace(format_key(line.trace.key), label)


def _without_repeats(key: Mapping[str, str]) -> str:
    test = key.get("test", "")
    others = [value for value in key.values() if value.lower() not in test.lower()]
    return " ".join(filter(None, (test, *others)))

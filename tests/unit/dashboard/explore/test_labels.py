"""What the names of lines have in common is shown once."""

from __future__ import annotations

import numpy as np
import pytest

from perftrend.analysis.formula import format_key
from perftrend.dashboard.explore.labels import LineLabels, label_lines
from perftrend.dashboard.explore.lines import PointLine
from perftrend.model import Better, TraceKey
from perftrend.store.tiles import StoredTrace


def labels_of(*keys: dict[str, str], function: str = "") -> LineLabels:
    lines = {}
    for number, parameters in enumerate(keys):
        key = TraceKey.of(**parameters)
        identity = f"!{function}({format_key(key)})" if function else format_key(key)
        trace = StoredTrace(number, "", key, "pps", Better.HIGHER)
        lines[identity] = PointLine(identity, np.array([1.0]), trace=trace)
    return label_lines(lines)


def keys_of(*names: str, **others: str) -> list[dict[str, str]]:
    return [{"test": name, **others} for name in names]


@pytest.mark.parametrize(
    ("names", "part", "labels"),
    [
        (["64b-1c-ip4-mrr", "64b-2c-l2-mrr"], "64b-…-mrr", ["1c-ip4", "2c-l2"]),
        (["64b-1c-ip4", "64b-2c-ip4", "64b-ip4"], "64b-…", ["1c-ip4", "2c-ip4", "ip4"]),
        (["a-x", "a-x-y"], "a-…", ["x", "x-y"]),
        (["a-b-a", "a-a"], "a-…", ["b-a", "a"]),
        (["64b", "1518b"], None, ["64b", "1518b"]),
        (["64b-a", "1518b-a-a"], "…-a", ["64b", "1518b-a"]),
    ],
)
def test_common_ends_of_names_are_omitted(names: list[str], part: str | None, labels: list[str]) -> None:
    found = labels_of(*keys_of(*names, metric="ndr"))

    assert ({"metric": "ndr"}, labels) == (found.common, list(found.label_of.values()))
    assert found.parts == ({"test": part} if part else {})


def test_value_that_only_the_omitted_part_repeats_remains() -> None:
    found = labels_of(
        {"test": "64b-ip4-mrr", "metric": "mrr", "size": "64B"},
        {"test": "imix-ip4-mrr", "metric": "ndr", "size": "imix"},
    )

    assert ["64b mrr", "imix ndr"] == list(found.label_of.values())


def test_one_line_has_its_whole_name() -> None:
    found = labels_of({"test": "64b-1c-ip4", "metric": "mrr"})

    assert ({}, {}, ["64b-1c-ip4 mrr"]) == (found.common, found.parts, list(found.label_of.values()))


def test_labels_are_unique() -> None:
    """Without the common part of one parameter, its rest would be the value of another."""
    found = labels_of(
        {"test": "a-x", "driver": "x"}, {"test": "a-y", "driver": "x"}, {"test": "a-x", "driver": "q-x"}
    )

    assert 3 == len(set(found.label_of.values()))


def test_calculated_lines_have_labels_within_their_functions() -> None:
    found = labels_of(*keys_of("64b-1c-ip4", "64b-2c-ip4"), function="norm")

    assert ["norm(1c)", "norm(2c)"] == list(found.label_of.values())

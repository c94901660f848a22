"""A condition on a former value of a parameter applies to the current value as well."""

from __future__ import annotations

import pytest

from perftrend.analysis.query import TraceTable, parse
from perftrend.model import TraceKey

FORMER = {"test": {"old": "new", "older": "new"}}
TESTS = ("new", "other", "old-fashioned")


@pytest.mark.parametrize(
    ("query", "fitting"),
    [
        ("test=old", ["new"]),
        ("test=older&test=other", ["new", "other"]),
        ("test!=old", ["other", "old-fashioned"]),
        ("test?!=old", ["other", "old-fashioned"]),
        ("test=~^old", ["new", "old-fashioned"]),
        ("test=~^old$", ["new"]),
        ("test!=~^old", ["other"]),
        ("test=new", ["new"]),
        ("suite=old", []),
        ("test=oldest", []),
    ],
)
def test_former_value_fits_the_current_one(query: str, fitting: list[str]) -> None:
    table = TraceTable([TraceKey.of(test=test) for test in TESTS[:1]], former=FORMER)
    table = table.concatenate(TraceTable([TraceKey.of(test=test) for test in TESTS[1:]], former=FORMER))

    assert fitting == [table.keys[row]["test"] for row in table.rows(parse(query)).tolist()]


def test_choices_are_counted_by_current_values() -> None:
    table = TraceTable([TraceKey.of(test=test, frame="64B") for test in TESTS], former=FORMER)

    assert ["64B"] == [each.value for each in table.choices(parse("test=old"))["frame"]]
    assert [1, 1, 1] == [each.count for each in table.choices(parse("test=old"))["test"]]

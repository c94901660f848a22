"""The output of a measuring command."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.builds import measurement
from perftrend.builds.profile import MeasureTable
from perftrend.model import Better, MetricSamples

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def measure(prints: str = "numbers", **more: object) -> MeasureTable:
    return MeasureTable.model_validate(
        {"command": ["x"], "prints": prints, "unit": "ms", "better": "lower", **more}
    )


def told(printed: str, prints: str = "numbers", **more: object) -> dict[str, tuple[float, ...]]:
    found = measurement.read_numbers(printed.encode(), measure(prints, **more))
    return {name: sampled.samples for name, sampled in found.items()}


def test_plain_numbers_are_the_samples_of_one_test() -> None:
    found = measurement.read_numbers(b"1\n\n 2.5 \r\n-3e-2\n", measure(test="bench"))

    assert {"bench": MetricSamples((1.0, 2.5, -0.03), "ms", Better.LOWER)} == found


def test_samples_of_several_starts_are_joined_by_test() -> None:
    starts = [
        measurement.read_numbers(printed, measure("named"))
        for printed in (b"a 1\nb 2\n", b"a 3\n", b"b 4\na 5\n")
    ]

    joined = measurement.combine_repetitions(starts)

    assert {"a": (1.0, 3.0, 5.0), "b": (2.0, 4.0)} == {name: each.samples for name, each in joined.items()}
    assert {("ms", Better.LOWER)} == {(each.unit, each.better) for each in joined.values()}


def test_other_unit_of_another_start_is_refused() -> None:
    starts = [measurement.read_numbers(printed, measure("named")) for printed in (b"a 1 s\n", b"a 1000\n")]

    with pytest.raises(ValueError, match="the test 'a' has two units, 's' and 'ms'"):
        measurement.combine_repetitions(starts)


def test_names_may_have_blanks_a_colon_and_a_unit() -> None:
    printed = "64b: 1.5 Mpps\nlarge frames 20 s\n64b 2 Mpps\nx = 3\n4 5\n"

    found = measurement.read_numbers(printed.encode(), measure("named"))

    assert {
        "64b": MetricSamples((1.5, 2.0), "Mpps", Better.LOWER),
        "large frames": MetricSamples((20.0,), "s", Better.LOWER),
        "x": MetricSamples((3.0,), "ms", Better.LOWER),
        "4": MetricSamples((5.0,), "ms", Better.LOWER),
    } == found


def test_less_time_is_better_unless_said_otherwise() -> None:
    printed, open_ = b"parse 12 ms\nrate 5 Mpps\nruns 3\n", {"unit": "", "better": ""}

    found = measurement.read_numbers(printed, measure("named", **open_))
    told = measurement.read_numbers(printed, measure("named", unit="", better="higher"))

    assert {"parse": Better.LOWER, "rate": Better.HIGHER, "runs": Better.HIGHER} == {
        name: each.better for name, each in found.items()
    }
    assert {Better.HIGHER} == {each.better for each in told.values()}


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("5", {"command": (5.0,)}),
        ("[1, 2.5]", {"command": (1.0, 2.5)}),
        ('{"a": 1, "b": [2, 3]}', {"a": (1.0,), "b": (2.0, 3.0)}),
    ],
)
def test_json_is_a_number_a_list_or_an_object(printed: str, expected: dict[str, tuple[float, ...]]) -> None:
    assert expected == told(printed, "json")


def test_lines_with_names_are_recognised() -> None:
    with pytest.raises(
        ValueError, match=r"'parse: 12 ms' is not a number; .* set the parameter prints=named"
    ):
        told("parse: 12 ms\n")


def test_lines_are_ignored_only_where_a_pattern_says_so() -> None:
    printed = "# warming up\n12\n"

    assert {"command": (12.0,)} == told(printed, ignore=["#.*"])
    with pytest.raises(
        ValueError, match=r"line 1: '# warming up' is not a number; to skip such lines, set the parameter"
    ):
        told(printed, ignore=["#"])


@pytest.mark.parametrize(
    "line", ["nan", "inf", "-Infinity", "1_000", "0x10", "1,5", "1 2", "\u0661", "1e999", "--1", "ms 5 6 7"]
)
def test_what_is_no_plain_number_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        told(line)


@pytest.mark.parametrize("line", ["fast", "5", "5 ms", ": 5", "test: fast", "test: nan ms", "test 1e999"])
def test_line_without_a_name_or_a_number_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"line 1: .*(not a number|no name)"):
        told(line, "named")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"a": []}'])
def test_no_number_at_all_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it printed no"):
        told(text, "json")
    with pytest.raises(ValueError, match="it printed no number"):
        told("")


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    "text",
    ["true", '"5"', "null", "[true]", '{"a": {"b": 1}}', "NaN", "1e999", "9" * 400, "{", "[" * 100_000],
)
def test_json_without_numbers_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"number|no valid JSON"):
        told(text, "json")


def test_test_with_two_units_is_refused() -> None:
    with pytest.raises(ValueError, match="'a' has two units, 'ms' and 's'"):
        told("a 5 ms\na 6 s\n", "named")


def test_endless_output_is_refused() -> None:
    with pytest.raises(ValueError, match="printed more than 10000000 bytes"):
        measurement.read_numbers(b"1\n" * 10_000_000, measure())


@given(st.lists(FINITE, min_size=1))
def test_numbers_come_back_as_they_were_printed(values: list[float]) -> None:
    assert {"command": tuple(values)} == told("\n".join(map(repr, values)))


@given(st.dictionaries(st.text(), st.lists(FINITE, min_size=1), min_size=1))
def test_json_comes_back_as_it_was_printed(values: dict[str, list[float]]) -> None:
    assert {name: tuple(each) for name, each in values.items()} == told(json.dumps(values), "json")


@given(st.binary(), st.sampled_from(["numbers", "named", "json"]))
def test_whatever_is_printed_is_read_or_refused(printed: bytes, prints: str) -> None:
    try:
        found = measurement.read_numbers(printed, measure(prints))
    except ValueError:
        return

    assert all(math.isfinite(value) for sampled in found.values() for value in sampled.samples)

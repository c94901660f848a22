"""How numbers, names and tables are written for people."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.text import (
    align,
    excerpt,
    fit_table,
    format_count,
    line,
    natural_key,
    percent,
    plain,
    relative_change,
    share,
    span,
    value,
)

ROWS = [
    ("test", "before", "after", "difference", "interval", "verdict"),
    ("64b-1c-ethip4-ip4base-mrr", "0.2128 Mpps", "0.08728 Mpps", "-59.0 %", "-59.6 % to -58.4 %", "slower"),
    ("64b-1c-ethip4-ip4base-acl20-mrr", "0.2128 Mpps", "fails", "", "", "fails from then on"),
]
CELLS = st.text(st.sampled_from("ab -1%\N{EN DASH}"), max_size=30).map(lambda text: " ".join(text.split()))
TABLES = st.integers(2, 6).flatmap(
    lambda columns: st.lists(
        st.tuples(*[CELLS.map(lambda cell: cell or "x")] * columns), min_size=2, max_size=4
    )
)


@pytest.mark.parametrize(
    ("number", "unit", "told"),
    [
        (12_345_678.0, "pps", "12.35 Mpps"),
        (1_000_000.0, "pps", "1.000 Mpps"),
        (812.0, "pps", "0.0008120 Mpps"),
        (999.94, "ms", "999.9 ms"),
        (999.96, "ms", "1000 ms"),
        (4_101_999.6, "lookups/s", "4102000 lookups/s"),
        (0.0, "ms", "0.000 ms"),
        (12.0, "", "12.00"),
        (math.nan, "ms", "\N{EN DASH}"),
        (math.inf, "pps", "\N{EN DASH}"),
        (1_264_532_788.0, "instructions", "1265 million instructions"),
        (45_797_738.0, "instructions", "45.80 million instructions"),
        (457_977.0, "instructions", "457977 instructions"),
    ],
)
def test_value_has_four_digits_that_matter(number: float, unit: str, told: str) -> None:
    assert told == value(number, unit)


@given(st.floats(min_value=-1e300, max_value=1e300))
def test_value_can_be_read_back_to_its_last_digit(number: float) -> None:
    text = value(number, "")

    assert math.isclose(float(text), number, rel_tol=5.1e-4)
    assert not text.endswith(".")


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (-0.0004, "unchanged"),
        (0.0, "unchanged"),
        (0.0006, "+0.1 %"),
        (2.569, "+256.9 %"),
        (math.nan, "\N{EN DASH}"),
    ],
)
def test_change_that_rounds_to_zero_is_unchanged(ratio: float, text: str) -> None:
    assert text == relative_change(ratio)


def test_change_that_rounds_to_nothing_has_no_sign() -> None:
    assert ["0.0 %", "0.0 %", "-0.1 %", "+12.5 %"] == [percent(x) for x in (-0.0004, 0.0, -0.0006, 0.125)]


@given(st.text())
def test_plain_text_can_be_written_and_moves_no_cursor(text: str) -> None:
    shown = plain(text)

    assert not [character for character in shown if ord(character) < 32 and character not in "\n\t"]
    assert shown == shown.encode().decode()
    assert len(shown) == len(text.replace("\r\n", "\n"))


@pytest.mark.parametrize(
    ("ratio", "told"),
    [(0.031, "3.1 %"), (-0.1, "10 %"), (0.0999, "10 %"), (0.00042, "0.042 %"), (0.0, "0 %")],
)
def test_share_has_two_digits_and_no_sign(ratio: float, told: str) -> None:
    assert told == share(ratio)


@pytest.mark.parametrize(
    ("ratios", "told"),
    [
        ([], ""),
        ([math.nan, math.inf], ""),
        ([-0.052, 0.031], "3.1 to 5.2 %"),
        ([0.1, 0.1001], "10 %"),
        ([math.nan, -0.5], "50 %"),
    ],
)
def test_span_goes_from_the_smallest_to_the_largest(ratios: list[float], told: str) -> None:
    assert told == span(ratios)


def test_count_has_its_word() -> None:
    assert ["0 rounds", "1 round", "2 rounds"] == [format_count(number, "round") for number in range(3)]


@given(st.text())
def test_line_is_one_without_control_characters(text: str) -> None:
    told = line(text)

    assert len(told.splitlines()) <= 1
    assert told == line(told)


def test_excerpt_leaves_out_empty_lines_and_cuts_long_ones() -> None:
    told = excerpt(["a\tb", "", "  ", "\x1b[31mred", "x" * 500])

    assert ["a    b", "\N{REPLACEMENT CHARACTER}[31mred", "x" * 200] == told


def test_numbers_in_names_are_sorted_as_numbers() -> None:
    assert ["64b", "128b", "1518b"] == sorted(["1518b", "64b", "128b"], key=natural_key)


@given(st.lists(st.text(alphabet="0129٣²a-"), max_size=6))
def test_any_names_can_be_sorted(names: list[str]) -> None:
    assert sorted(names) == sorted(sorted(names, key=natural_key))


def test_number_of_thousands_of_digits_can_be_sorted() -> None:
    names = ["9" * 5000, "1", "a"]

    assert ["1", "9" * 5000, "a"] == sorted(names, key=natural_key)


def test_rows_are_one_line_elsewhere() -> None:
    assert align(ROWS) == fit_table(ROWS, None) == fit_table(ROWS, 200)


def test_cells_wrap_between_words_and_numbers_keep_their_units() -> None:
    assert [
        "test                before         after  difference    interval  verdict",
        "64b-1c-ethip4  0.2128 Mpps  0.08728 Mpps     -59.0 %  -59.6 % to  slower",
        "                                                         -58.4 %",
    ] == fit_table([ROWS[0], ("64b-1c-ethip4", *ROWS[1][1:])], 73)


def test_name_has_a_line_of_its_own_on_a_narrow_terminal() -> None:
    assert [
        "test",
        "       before         after  difference    interval  verdict",
        "64b-1c-ethip4-ip4base-mrr",
        "  0.2128 Mpps  0.08728 Mpps     -59.0 %  -59.6 % to  slower",
        "                                            -58.4 %",
    ] == fit_table(ROWS[:2], 60)


def test_each_cell_has_a_line_of_its_own_on_a_very_narrow_one() -> None:
    assert [
        "64b-1c-ethip4-ip4base-acl20-mrr",
        "  before: 0.2128 Mpps",
        "  after: fails",
        "  verdict: fails from then on",
    ] == fit_table([ROWS[0], ROWS[2]], 32)


@given(rows=TABLES, width=st.integers(8, 60))
def test_nothing_is_cut_and_no_line_is_too_long(rows: list[tuple[str, ...]], width: int) -> None:
    lines = fit_table(rows, width)

    assert max(map(len, lines)) <= width
    assert not letters(cell for row in rows[1:] for cell in row) - letters(lines)


def letters(texts: Iterable[str]) -> Counter[str]:
    return Counter(re.sub(r"\s", "", "".join(texts)))


@pytest.mark.parametrize("width", [31, 40, 60, 79, 90])
def test_names_and_verdicts_are_whole(width: int) -> None:
    shown = "\n".join(fit_table(ROWS, width))

    assert {row[0] for row in ROWS[1:]} <= set(shown.split())
    assert {"slower", "fails", "from", "then", "on"} <= set(shown.split())

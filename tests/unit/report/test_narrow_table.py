"""Tables that fit a terminal: nothing is cut, however narrow it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.report.narrow_table import fit
from perftrend.text import align

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


def test_rows_are_one_line_elsewhere() -> None:
    assert align(ROWS) == fit(ROWS, None) == fit(ROWS, 200)


def test_cells_wrap_between_words_and_numbers_keep_their_units() -> None:
    assert [
        "test                before         after  difference    interval  verdict",
        "64b-1c-ethip4  0.2128 Mpps  0.08728 Mpps     -59.0 %  -59.6 % to  slower",
        "                                                         -58.4 %",
    ] == fit([ROWS[0], ("64b-1c-ethip4", *ROWS[1][1:])], 73)


def test_name_has_a_line_of_its_own_on_a_narrow_terminal() -> None:
    assert [
        "test",
        "       before         after  difference    interval  verdict",
        "64b-1c-ethip4-ip4base-mrr",
        "  0.2128 Mpps  0.08728 Mpps     -59.0 %  -59.6 % to  slower",
        "                                            -58.4 %",
    ] == fit(ROWS[:2], 60)


def test_each_cell_has_a_line_of_its_own_on_a_very_narrow_one() -> None:
    assert [
        "64b-1c-ethip4-ip4base-acl20-mrr",
        "  before: 0.2128 Mpps",
        "  after: fails",
        "  verdict: fails from then on",
    ] == fit([ROWS[0], ROWS[2]], 32)


@given(rows=TABLES, width=st.integers(8, 60))
def test_nothing_is_cut_and_no_line_is_too_long(rows: list[tuple[str, ...]], width: int) -> None:
    lines = fit(rows, width)

    assert max(map(len, lines)) <= width
    assert not letters(cell for row in rows[1:] for cell in row) - letters(lines)


def letters(texts: Iterable[str]) -> Counter[str]:
    return Counter(re.sub(r"\s", "", "".join(texts)))


@pytest.mark.parametrize("width", [31, 40, 60, 79, 90])
def test_names_and_verdicts_are_whole(width: int) -> None:
    shown = "\n".join(fit(ROWS, width))

    assert {row[0] for row in ROWS[1:]} <= set(shown.split())
    assert {"slower", "fails", "from", "then", "on"} <= set(shown.split())

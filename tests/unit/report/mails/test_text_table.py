from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from perftrend.report.mails.content import WIDTH, align, wrap


def test_columns_are_aligned() -> None:
    lines = align(["Test", "NIC", "Runs"], [["64b", "x710", "3"], ["1518b", "-", "12"]], left=2)

    assert [["Test   NIC   Runs"], ["64b    x710     3"], ["1518b  -       12"]] == lines


def test_long_name_stands_whole_on_a_line_of_its_own() -> None:
    name = "64b-" + "x" * WIDTH

    lines = align(["Test", "Runs"], [[name, "3"]], left=1)

    assert name == lines[1][0]
    assert WIDTH == len(lines[1][1])
    assert lines[1][1].endswith("     3")


def test_wide_characters_take_two_columns() -> None:
    lines = align(["Test", "Runs"], [["測試", "1"]], left=1)

    assert [["Test  Runs"], ["測試     1"]] == lines


@given(st.text(), st.integers(1, 5))
def test_wrapped_lines_fit(text: str, lines: int) -> None:
    found = wrap(text, indent="    ", lines=lines)

    assert len(found) <= lines
    assert all(cell_len(each) <= WIDTH + len(" …") for each in found)


def test_wrapped_text_loses_no_word_where_there_is_room() -> None:
    text = " ".join(f"word{number}" for number in range(60))

    assert text.split() == " ".join(wrap(text, indent="  ", lines=10)).split()


def test_text_that_is_cut_says_so() -> None:
    assert ["one", "two …"] == wrap("one\ntwo\nthree", indent="", lines=2)

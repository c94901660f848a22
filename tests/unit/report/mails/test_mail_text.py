from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from perftrend.model import TraceKey, Verdict
from perftrend.report.mails.mail_text import WIDTH, align, amounts, line, nic, plain, unit_name, wrap
from perftrend.text import NOTHING

MakeVerdict = Callable[..., Verdict]


@given(st.text())
def test_line_has_nothing_that_hides_or_turns_what_is_read(text: str) -> None:
    categories = {unicodedata.category(each) for each in line(text)}

    assert not categories & {"Cc", "Cf", "Cs", "Zl", "Zp"}


def test_bidirectional_marks_are_seen() -> None:
    assert "64b\N{REPLACEMENT CHARACTER}exe" == line("64b\N{RIGHT-TO-LEFT OVERRIDE}exe")


def test_plain_keeps_lines() -> None:
    assert "no carrier\nplug it in" == plain("no carrier\r\nplug it in")


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"suite": "Tests.Ip4.2N1L-10Ge2P1X710-Ethip4-Mrr", "test": "64b-mrr"}, "10ge2p1x710"),
        ({"suite": "ip4", "test": "100ge2p1cx556a-64b-mrr"}, "100ge2p1cx556a"),
        ({"nic": "x710", "suite": "10ge2p1x520"}, "x710"),
        ({"test": "64b-1c-ethip4-ip4base-mrr"}, NOTHING),
    ],
)
def test_nic_is_read_from_parameters_and_names(
    make_verdict: MakeVerdict, parameters: dict[str, str], expected: str
) -> None:
    verdict = make_verdict()
    named = replace(verdict, series=replace(verdict.series, key=TraceKey.of(**parameters)))

    assert expected == nic(named)


@pytest.mark.parametrize(
    ("values", "unit", "expected"),
    [
        ([8e6, 12.345678e6], "pps", ["8.000", "12.346"]),
        ([512345.0], "CPS", ["512345"]),
        ([0.000123, 0.02], "s", ["0.0001230", "0.0200000"]),
        ([3e12], "bps", ["3e+12"]),
        ([math.nan, 1e6], "pps", [NOTHING, "1.000"]),
        ([0.0], "packets", ["0.000"]),
        ([], "pps", []),
    ],
)
def test_trends_of_a_column_have_the_same_decimals(
    values: list[float], unit: str, expected: list[str]
) -> None:
    assert expected == amounts(values, unit)


@given(st.lists(st.floats(), max_size=5), st.sampled_from(["pps", "s"]))
def test_every_trend_can_be_written(values: list[float], unit: str) -> None:
    assert len(values) == len(amounts(values, unit))


def test_packets_per_second_are_written_in_millions() -> None:
    assert ["Mpps", "CPS"] == [unit_name("pps"), unit_name("CPS")]


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

"""CSV exports are read by spreadsheets, which must not evaluate what others have typed."""

from __future__ import annotations

import pytest

from perftrend.dashboard.csv_export import as_cell, as_csv


@pytest.mark.parametrize(
    "text",
    [
        '=HYPERLINK("http://x")',
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        " =1",
        "'=1",
        "\n=1",
        "\N{FULLWIDTH EQUALS SIGN}1",
        "|calc",
        "%0A",
    ],
)
def test_formula_of_a_spreadsheet_becomes_a_text(text: str) -> None:
    assert as_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", [",test=x,", "!norm(,a=b,)", "1a2b3c", "", "a=b"])
def test_text_stays_as_it_is(text: str) -> None:
    assert as_cell(text) == text


def test_cells_with_separators_are_quoted() -> None:
    assert 'test,"a, b"\r\n1,\r\n' == as_csv([["test", "a, b"], [1, ""]])

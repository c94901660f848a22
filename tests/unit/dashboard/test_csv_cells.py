from __future__ import annotations

import pytest

from perftrend.dashboard.formats import as_cell


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

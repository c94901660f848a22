"""The formulas, ids and errors on the pages about formulas are right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perftrend.analysis.formula import FUNCTIONS, parse, parse_query, parse_trace_id
from perftrend.analysis.formula.evaluation import DEFAULT_LIMITS
from perftrend.analysis.formula.keys import MOST_CHARACTERS
from perftrend.analysis.formula.parser import MOST_CALLS, MOST_DEPTH
from perftrend.analysis.formula.query import MOST_TERMS
from perftrend.errors import FormulaError

METHOD = Path(__file__).parents[4] / "docs" / "method"
PAGE = "".join((METHOD / name).read_text("utf-8") for name in ("formulas.rst", "formulas-reference.rst"))
ROWS = re.findall(r"^   \* - ``(.+)``\n     - (.+(?:\n {7}.+)*)$", PAGE, re.MULTILINE)
ERRORS = [(wrong, told) for wrong, told in ROWS if told.startswith("character ")]
QUERIES = [term for term, _ in ROWS if re.match(r"[a-z]+!?=", term)]
BLOCKS = re.findall(r"(?:^    .*\n)+", PAGE, re.MULTILINE)
EXAMPLES = [block for block in BLOCKS if block.strip()[0].isalpha()]
IDS = [text for text, _ in ROWS if text[0] in ",!@"]


def test_every_function_is_listed_with_its_signature_and_its_help() -> None:
    listed = [(call, " ".join(told.split())) for call, told in ROWS if re.match(r"[a-z_]+\(.+\)$", call)]

    known = [(each.signature, each.help) for each in FUNCTIONS.values()]
    assert known == [row for row in listed if row not in ERRORS]


@pytest.mark.parametrize(("formula", "error"), ERRORS)
def test_a_wrong_formula_is_refused_as_it_says(formula: str, error: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse(formula)

    assert f"formula, {error}" == str(caught.value)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_is_read_as_it_is_written(query: str) -> None:
    assert query == str(parse_query(query))


@pytest.mark.parametrize("text", IDS)
def test_an_id_is_one(text: str) -> None:
    assert text == str(parse_trace_id(text))


def test_the_tables_were_found() -> None:
    assert (11, 7, 3, 2) == (len(ERRORS), len(QUERIES), len(IDS), len(EXAMPLES))


@pytest.mark.parametrize("formula", EXAMPLES)
def test_an_example_is_a_formula(formula: str) -> None:
    assert parse(formula) == parse(str(parse(formula)))


def test_the_bounds_are_told() -> None:
    words = " ".join(PAGE.split())

    assert f"at most {MOST_CHARACTERS:,} characters and {MOST_CALLS} calls, {MOST_DEPTH} of them" in words
    assert f"at most {MOST_TERMS} terms" in words
    assert f"at most {DEFAULT_LIMITS.cells // 10**6} million values" in words
    assert f"{DEFAULT_LIMITS.total_cells // 10**6} million in all, and {DEFAULT_LIMITS.calls} calls" in words

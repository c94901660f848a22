"""The examples on the page about triggers are refused as it states."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perftrend.trigger import DEFAULT_WORDS, JOBS, Refusal, Trigger, parse

PAGE = (Path(__file__).parents[3] / "docs" / "triggers.rst").read_text(encoding="utf-8")
ROWS = re.findall(r"^   \* - ``(.*)``\n     - (.*)\n     - ``(.*)``$", PAGE, re.MULTILINE)
EXAMPLES = re.findall(r"^    (\w+test-2n-clx .*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("comment", "reason", "right_form"), ROWS)
def test_a_comment_of_the_table_is_refused_as_it_says(comment: str, reason: str, right_form: str) -> None:
    (answer,) = parse(comment, testbeds=["1n-veth", "2n-clx"])

    assert Refusal(comment, reason, right_form) == answer


def test_the_table_was_found() -> None:
    assert len(ROWS) > 30


@pytest.mark.parametrize("comment", EXAMPLES)
def test_an_example_is_a_request(comment: str) -> None:
    (answer,) = parse(comment)

    assert isinstance(answer, Trigger)
    assert comment == str(answer)


def test_words_and_jobs_are_all_told() -> None:
    assert [] == [word for word, job in DEFAULT_WORDS.items() if f"   {word}: {job}\n" not in PAGE]
    assert [] == [job for job in JOBS if f"``{job}``" not in PAGE]

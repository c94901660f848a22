"""The pattern for Jenkins finds the lines that ask for something, and no others.

It is written in what Java and Python have in common, so Python stands in for Java here. Java lets ``(?i)`` be
of ASCII alone, which Python does with ``re.ASCII``.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from perftrend.trigger import DEFAULT_WORDS, JOBS, Limits, Trigger, java_pattern, parse

FOLDER = Path(__file__).parents[2] / "data" / "comments"
TESTBEDS = ("1n-veth", "2n-clx", "3n-icx")
WORDS = {
    **DEFAULT_WORDS,
    "csit-{testbed}-perftest": "perftest",
    "gha-run csit-vpp-{testbed} perftest": "perftest",
}
PATTERN = re.compile(java_pattern(WORDS, TESTBEDS), re.ASCII)
BY_JOB = {job: re.compile(java_pattern(WORDS, TESTBEDS, job=job), re.ASCII) for job in sorted(WORDS.values())}
LINES = sorted(
    {
        line
        for file in FOLDER.glob("*.yaml")
        for example in yaml.safe_load(file.read_text(encoding="utf-8"))
        for line in example["comment"].split("\n")
    }
)

HEADS = [
    "perftest-2n-clx",
    "PERFTEST-1N-VETH",
    "bisecttest-2n-clx 1a2b3c4",
    "bisecttest-2n-clx",
    "csit-2n-clx-perftest",
    "gha-run csit-vpp-1n-veth perftest",
    "gha-run  csit-vpp-1n-veth\u00a0Perftest",
    " perftest-2n-clx",
    "\u00a0perftest-2n-clx",
    "    perftest-2n-clx",
    "> perftest-2n-clx",
    "run perftest-2n-clx",
    "perftest-9n-a",
]
TYPED = """
    mrr AND OR NOT 64b * ? [ab] [!a ] ! # _ . : - -- & nic_ none is and please --duration 10 0.05 60.1 61 = s
    --multiplicity 50 51 --dry-run 1a2b3c4 perftest-2n-clx csit-2n-clx-perftest 2n-xx FAILURE ' , é NO NE was.
"""
BETWEEN = [" ", " ", " ", "  ", "\u00a0", "\r", "\t", " \u2014"]
heads = st.sampled_from(HEADS)
pieces = st.sampled_from([*TYPED.split(), *BETWEEN, "x" * 199])
lines = st.builds(lambda head, rest: head + "".join(rest), heads, st.lists(pieces, max_size=9))


def asks(line: str, job: str | None = None) -> bool:
    answers = parse(line, words=WORDS, testbeds=TESTBEDS)
    return any(isinstance(answer, Trigger) and job in (None, answer.job) for answer in answers)


@given(lines)
def test_a_line_is_found_where_it_asks_for_something(line: str) -> None:
    assert asks(line) == bool(PATTERN.search(line))


@pytest.mark.parametrize("line", LINES)
def test_no_line_of_a_comment_is_found_that_asks_for_nothing(line: str) -> None:
    assert asks(line) or not PATTERN.search(line)


@pytest.mark.parametrize("line", [line for line in LINES if line.isascii() and asks(line)])
def test_each_line_that_asks_for_a_job_is_found_for_that_job_alone(line: str) -> None:
    found = {job for job, pattern in BY_JOB.items() if pattern.search(f"See:\n{line}\nThanks")}

    assert {job for job in JOBS if asks(line, job)} == found


def test_the_pattern_is_ascii_in_what_both_dialects_have() -> None:
    pattern = java_pattern(WORDS, None)

    assert pattern.isascii()
    assert pattern.isprintable()
    assert not re.search(r"\(\?[^:!<i]|\\[^\[\].&*?nrtudwu+-]", pattern.replace(r"\u", ""))


def test_limits_of_options_are_in_the_pattern() -> None:
    pattern = re.compile(java_pattern(WORDS, None, limits=Limits((0.5, 2.5), (2, 3))), re.ASCII)
    found = [
        number
        for number in ("0.4", "0.5", "0.9", "1", "1.9", "2", "2.5", "2.6", "3", "25")
        if pattern.search(f"perftest-9n-abc -- --duration {number}")
    ]

    assert ["0.5", "0.9", "1", "1.9", "2", "2.5"] == found


def test_nothing_is_found_where_nothing_can_be_started() -> None:
    texts = "\n".join([*LINES, "perftest- mrr", "perftest-", "mrr", ""])

    assert not re.search(java_pattern(WORDS, []), texts, re.ASCII)
    assert not re.search(java_pattern(WORDS, TESTBEDS, job="analysis"), texts, re.ASCII)

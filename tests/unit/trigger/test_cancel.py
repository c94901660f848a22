"""The trigger word that ends jobs: it is alone on its line, and counts where other trigger words count."""

from __future__ import annotations

import pytest

from perftrend.trigger import CANCEL, Refusal, Trigger, parse

TESTBEDS = ("1n-veth", "2n-clx")
ALONE = Trigger(CANCEL, "2n-clx")


@pytest.mark.parametrize(
    "comment",
    [
        "canceltest-2n-clx",
        "CancelTest-2N-CLX",
        "  canceltest-2n-clx.  ",
        "canceltest\u20102n\u2010clx",
        "Patch Set 3:\n\ncanceltest-2n-clx",
        "Wrong tags, sorry.\n\ncanceltest-2n-clx\n",
        "canceltest-2n-clx\ncanceltest-2n-clx",
    ],
)
def test_word_alone_on_its_line_is_a_request(comment: str) -> None:
    assert [ALONE] == parse(comment, testbeds=TESTBEDS)


@pytest.mark.parametrize(
    "comment",
    [
        "> canceltest-2n-clx",
        "`canceltest-2n-clx`",
        "```\ncanceltest-2n-clx\n```",
        "    canceltest-2n-clx",
        "On Monday, Jane Doe wrote:\ncanceltest-2n-clx",
        "canceltest-2n-clx was posted too late",
        "canceltest-2n-clx: what does that do?",
        "canceltest-2n-clx is a comment that ends the jobs",
        "Please use canceltest-2n-clx",
        "- canceltest-2n-clx",
        "canceltest",
        "canceltest-related",
    ],
)
def test_word_in_prose_quotes_or_code_is_ignored(comment: str) -> None:
    assert [] == parse(comment, testbeds=TESTBEDS)


@pytest.mark.parametrize(
    "rest",
    ["mrr", "mrrAND64b !soak", "#nightly", "-- --dry-run", "3ab5c9d", "all", "'; rm -rf /", "perftest"],
)
def test_nothing_may_follow_the_word(rest: str) -> None:
    (answer,) = parse(f"canceltest-2n-clx {rest}", testbeds=TESTBEDS)

    assert isinstance(answer, Refusal)
    assert "canceltest-2n-clx" == answer.right_form


@pytest.mark.parametrize(
    ("comment", "right_form"),
    [
        ("canceltest-2n-clxx", "canceltest-2n-clx"),
        ("canceltst-2n-clx", "canceltest-2n-clx"),
        ("canceltest 2n-clx", "canceltest-2n-clx"),
        ("canceltest-2n-clx, mrr", "canceltest-2n-clx"),
        ("canceltest mrrAND64b", "canceltest-TESTBED"),
        ("canceltest-2n-clx canceltest-1n-veth", "canceltest-2n-clx"),
        ("canceltest-2n-clx\nmrrAND64b", "canceltest-2n-clx"),
    ],
)
def test_mistake_is_answered_with_the_right_form(comment: str, right_form: str) -> None:
    (answer,) = parse(comment, testbeds=TESTBEDS)

    assert isinstance(answer, Refusal)
    assert right_form == answer.right_form


def test_ends_and_starts_are_read_in_order() -> None:
    found = parse("canceltest-2n-clx\nperftest-2n-clx mrr\ncanceltest-1n-veth", testbeds=TESTBEDS)

    assert ["canceltest-2n-clx", "perftest-2n-clx mrr", "canceltest-1n-veth"] == list(map(str, found))


def test_word_is_a_setting() -> None:
    words = {"stop on {testbed}": "cancel", "perftest-{testbed}": "perftest"}

    assert [ALONE] == parse("stop on 2n-clx", words=words, testbeds=TESTBEDS)
    assert [] == parse("canceltest-2n-clx", words=words, testbeds=TESTBEDS)

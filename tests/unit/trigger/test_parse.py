"""Properties of every comment: nothing raises, rendered requests are parsed again, requests count once."""

from __future__ import annotations

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.errors import SettingsError
from perftrend.trigger import (
    CANCEL,
    DEFAULT_WORDS,
    JOBS,
    MOST_CANDIDATES,
    MOST_LINES,
    MOST_REQUESTS,
    OptionLimits,
    Refusal,
    RequestOptions,
    Trigger,
    parse,
)

TESTBEDS = ("1n-veth", "2n-clx", "3n-icx")
WORDS = {
    **DEFAULT_WORDS,
    "csit-{testbed}-perftest": "perftest",
    "gha-run csit-vpp-{testbed} perftest": "perftest",
    "analysistest-{testbed}": "analysis",
}
REQUEST = Trigger("perftest", "2n-clx", include=("mrr",))

tags = st.sampled_from(
    ["mrr", "?", "64b", "1C", "L3Fwd", "nic_*", "ip4??p-*", "[ab]c", "*", "eth-l2patch", "q.x"]
)
operators = st.sampled_from(["AND", "OR", "NOT"])
expressions = st.builds(
    lambda negated, first, rest: ("NOT" if negated else "") + first + "".join(a + b for a, b in rest),
    st.booleans(),
    tags,
    st.lists(st.tuples(operators, tags), max_size=3),
)
unique = st.lists(expressions, max_size=4, unique_by=str.lower).map(tuple)
options = st.builds(
    RequestOptions,
    st.none() | st.integers(1, 600).map(lambda tenths: tenths / 10),
    st.none() | st.integers(1, 50),
    st.booleans(),
)
words = st.sampled_from(sorted(WORDS))
triggers = st.builds(
    lambda word, testbed, old, include, exclude, lists, options: (
        Trigger(CANCEL, testbed, word=word)
        if WORDS[word] == CANCEL
        else Trigger(
            WORDS[word],
            testbed,
            old if WORDS[word] == "bisect" else None,
            include,
            exclude,
            lists,
            options,
            word,
        )
    ),
    words,
    st.sampled_from(TESTBEDS),
    st.text("0123456789abcdef", min_size=7, max_size=40),
    unique,
    unique,
    st.lists(st.sampled_from(["soak", "2n-icx-vpp-soak", "generate-all", "A_1.b"]), unique=True).map(tuple),
    options,
)
TYPED = """
    perftest-2n-clx bisecttest-2n-clx perftest- 2n-clx 3ab5c9d mrr AND OR NOT & ! # * ? [ ] [a-z] -- -
    --duration --dry-run = 10 . , ; : > ` ``` ~~~ " ' ( ) { } {testbed} was please and \\ / $ | < On wrote:
    From: To: gha-run csit-vpp-2n-clx perftest trendingtest-1n-veth é 好
"""
PASTED = [
    "\u202e",
    "\ud800",
    "\x00",
    "\u2014",
    "\U0001f680",
    "\t",
    "    ",
    "\u00a0",
    "\u200b",
    "\u2028",
    "\x0b",
]
BETWEEN = ["\t", "    ", " ", " ", " ", "\n", "\n", "\n\n", "\r\n", "> "]
pieces = st.sampled_from([*TYPED.split(), *PASTED, *BETWEEN])


@given(st.text(st.characters()) | st.lists(pieces, max_size=60).map("".join))
def test_no_text_raises(text: str) -> None:
    for answer in [*parse(text, words=WORDS), *parse(text, words=WORDS, testbeds=TESTBEDS)]:
        str(answer).encode()


@given(triggers)
def test_what_is_rendered_is_understood(trigger: Trigger) -> None:
    assert [trigger] == parse(str(trigger), words=WORDS)
    assert [trigger] == parse(str(trigger), words=WORDS, testbeds=TESTBEDS)


@given(triggers)
def test_the_word_that_was_written_is_the_one_that_is_rendered(trigger: Trigger) -> None:
    (answer,) = parse(str(trigger), words=WORDS)

    assert str(trigger) == str(answer)


@given(st.lists(pieces, max_size=25).map("".join))
def test_whatever_is_understood_is_understood_again(text: str) -> None:
    for answer in parse(f"perftest-2n-clx {text}", words=WORDS, testbeds=TESTBEDS):
        if isinstance(answer, Trigger):
            assert [answer] == parse(str(answer), words=WORDS, testbeds=TESTBEDS)


@given(st.lists(pieces, max_size=25).map("".join))
def test_the_right_form_is_right(text: str) -> None:
    for answer in parse(f"perftest-2n-clx {text}", words=WORDS, testbeds=TESTBEDS):
        if isinstance(answer, Refusal) and not {"HASH", "TESTBED"} & set(
            answer.right_form.replace("-", " ").split()
        ):
            (again,) = parse(answer.right_form, words=WORDS, testbeds=TESTBEDS)
            assert answer.right_form == str(again)


@given(st.lists(pieces, max_size=25).map("".join))
def test_an_answer_to_a_comment_asks_for_nothing(text: str) -> None:
    for answer in parse(f"perftest-2n-clx {text}", words=WORDS):
        if isinstance(answer, Refusal):
            assert [] == parse(str(answer), words=WORDS)


@given(st.lists(triggers, max_size=6))
def test_every_request_of_a_comment_counts_once_and_in_order(several: list[Trigger]) -> None:
    known: set[object] = set()
    first = [each for each in several if not (each.identity in known or known.add(each.identity))]

    assert first == parse("\n".join(map(str, several)), words=WORDS)


@given(triggers)
def test_a_quoted_request_asks_for_nothing(trigger: Trigger) -> None:
    for quoted in (f"> {trigger}", f">> {trigger}", f"    {trigger}", f"`{trigger}`", f"```\n{trigger}\n```"):
        assert [] == parse(quoted, words=WORDS)


def test_same_request_in_another_order_and_case_counts_once() -> None:
    comment = "perftest-2n-clx mrr 64B !soak\nPERFTEST-2N-CLX !SOAK 64b MRR"

    assert ["perftest-2n-clx mrr 64B !soak"] == list(map(str, parse(comment)))


def test_operators_and_tags_of_other_meaning_are_no_same_request() -> None:
    assert len(parse("perftest-2n-clx mrrANDx\nperftest-2n-clx mrrandx\nperftest-2n-clx mrrORx")) == 3


def test_a_testbed_is_told_as_it_is_configured() -> None:
    (trigger,) = parse("perftest-LAB.one mrr", testbeds=["Lab.One"])

    assert "perftest-Lab.One mrr" == str(trigger)


def test_without_configured_testbeds_any_well_formed_name_counts() -> None:
    (trigger,) = parse("perftest-12n-xyz-a mrr")

    assert isinstance(trigger, Trigger)
    assert [] == parse("perftest-something mrr")


def test_a_name_that_is_almost_well_formed_is_answered_where_none_is_configured() -> None:
    (refusal,) = parse("perftest-2nclx mrr")

    assert isinstance(refusal, Refusal)
    assert "perftest-2n-clx mrr" == refusal.right_form


def test_where_no_testbed_is_configured_nothing_is_started() -> None:
    (refusal,) = parse("perftest-2n-clx mrr", testbeds=[])

    assert isinstance(refusal, Refusal)
    assert "unknown testbed '2n-clx'; known are none" == refusal.reason


def test_limits_are_those_that_are_given() -> None:
    limits = OptionLimits(duration_s=(1.0, 2.0), multiplicity=(1, 3))

    (allowed, refused) = parse(
        "perftest-2n-clx -- --duration 2 --multiplicity 3\nperftest-2n-clx -- --multiplicity 4", limits=limits
    )

    assert isinstance(allowed, Trigger)
    assert isinstance(refused, Refusal)
    assert "perftest-2n-clx -- --multiplicity 3" == refused.right_form


def test_a_refusal_shows_the_line_in_one_line_that_can_be_sent() -> None:
    (refusal,) = parse(f"perftest-2n-clx \ud800\x00,{'x' * 300}")

    assert isinstance(refusal, Refusal)
    assert len(refusal.line) <= 200
    assert refusal.line.isprintable()


def test_requests_beyond_the_most_are_answered_once() -> None:
    answers = parse("\n".join(f"perftest-2n-clx t{number}" for number in range(2 * MOST_REQUESTS)))

    assert MOST_REQUESTS + 1 == len(answers)
    assert ["Refusal"] == [type(answer).__name__ for answer in answers if isinstance(answer, Refusal)]
    assert isinstance(answers[-1], Refusal)


@pytest.mark.parametrize("line", ["perftest-2n-clx " + "t " * 65, "perftest-2n-clx " + "a" * 201])
def test_what_nobody_types_is_refused(line: str) -> None:
    (refusal,) = parse(line)

    assert isinstance(refusal, Refusal)


def test_a_line_of_a_million_characters_is_refused() -> None:
    (refusal,) = parse("perftest-2n-clx " + "mrr " * 250_000)

    assert isinstance(refusal, Refusal)
    assert "the line is longer than 4096 characters" == refusal.reason


def test_a_request_is_found_among_a_million_characters() -> None:
    """The text is random, and the same each time; some of its lines begin as triggers do."""
    chance = random.Random(7)  # noqa: S311 - no secret
    lines = ["".join(chance.choices(string.printable[:95], k=80)) for _ in range(12_000)]
    quoted = [f"> {REQUEST}" for _ in range(1000)]

    answers = parse("\n".join([*lines, "", *quoted, "", str(REQUEST), ""]), testbeds=TESTBEDS)

    assert REQUEST in answers


@pytest.mark.parametrize(
    "above",
    ["p\n", "\n", "p\n\n", "```\n```\n", "~~~\n~~~~\n\n", "> q\n\n", "On Monday J wrote:\n> q\n\n", "`a\n\n"],
)
def test_a_request_is_found_below_thousands_of_lines(above: str) -> None:
    assert [REQUEST] == parse(above * 4000 + str(REQUEST))


def test_a_log_is_read_up_to_a_bound() -> None:
    """No person writes so many different lines that begin like a trigger word."""
    log = [f"perftest-2n-clx was {number} today" for number in range(MOST_CANDIDATES)]

    assert [] == parse("\n".join([*log, "", str(REQUEST)]))
    assert [REQUEST] == parse("\n".join([*log[1:], *log[1:], "", str(REQUEST)]))


def test_a_text_is_read_up_to_a_line() -> None:
    assert [REQUEST] == parse("\n" * (MOST_LINES - 1) + str(REQUEST))
    assert [] == parse("\n" * MOST_LINES + str(REQUEST))
    assert [REQUEST] == parse(str(REQUEST) + "\n" * 2 * MOST_LINES)


def test_a_text_of_backticks_is_code() -> None:
    assert [REQUEST] == parse(f"{'a``b' * 25_000}\n\n{REQUEST}")
    assert [] == parse(f"{'a``b' * 25_000}`\n\n{REQUEST}")


def test_a_line_counts_where_it_is_no_part_of_a_sentence() -> None:
    wrapped = f"What I would like to see once more on this change here is the\n{REQUEST}"

    assert [] == parse(wrapped)
    assert [REQUEST] == parse(f"{wrapped}\n\n{REQUEST}\n{REQUEST}")


@pytest.mark.parametrize(
    "text", ["`", "`\n", "> ", "\n", "-", "perftest-", "perftest-1n-", "\u200b", "(", "[", "On "]
)
def test_repetition_is_no_request(text: str) -> None:
    assert not [each for each in parse(text * (200_000 // len(text))) if isinstance(each, Trigger)]


def test_trigger_words_that_cannot_be_used_are_told() -> None:
    with pytest.raises(SettingsError, match=r"should contain \{testbed\} once"):
        parse("perftest-2n-clx", words={"perftest": "perftest"})


@pytest.mark.parametrize("job", JOBS)
def test_a_trigger_made_by_hand_renders_the_word_of_its_job(job: str) -> None:
    assert str(Trigger(job, "2n-clx")).endswith("test-2n-clx")


@pytest.mark.parametrize("depth", [1, 16, 17, 400, 4000])
def test_parentheses_within_each_other_raise_nothing(depth: int) -> None:
    [refusal] = parse(f"perftest-2n-clx {'(' * depth}a)b")

    assert isinstance(refusal, Refusal)


def test_many_alternatives_are_not_multiplied() -> None:
    alternatives = f"({'OR'.join(map(str, range(400)))})"
    [refusal] = parse(f"perftest-2n-clx {alternatives}AND{alternatives}")

    assert isinstance(refusal, Refusal)


def test_long_expression_is_the_same_with_and_without_spaces() -> None:
    operands = [letter * 45 for letter in "ghijk"]
    [spaced] = parse(f"perftest-2n-clx {' OR '.join(operands)}")
    [joined] = parse(f"perftest-2n-clx {'OR'.join(operands)}")

    assert isinstance(spaced, Trigger)
    assert spaced == joined
    assert [spaced] == parse(str(spaced))

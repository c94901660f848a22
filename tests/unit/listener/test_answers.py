"""The replies: one text for a review, which starts nothing wherever it is read."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.clients.gerrit.reviews import LONGEST_TEXT, shorten, units
from perftrend.execution.permissions import key
from perftrend.listener import request_processor
from perftrend.store.requests import Request, RequestState
from perftrend.trigger import Refusal, RequestOptions, Trigger, parse

MOMENT = datetime(2026, 3, 2, tzinfo=UTC)
TESTBEDS = ("2n-clx",)

tags = st.sampled_from(["mrr", "64bAND1c", "*hoststack*", "NOTip4??p-*", "was", "[!n]*ORx", "FAILURE"])
triggers = st.builds(
    Trigger,
    st.sampled_from(["perftest", "trending"]),
    st.just("2n-clx"),
    include=st.lists(tags, max_size=3, unique=True).map(tuple),
    exclude=st.lists(tags, max_size=2, unique=True).map(tuple),
    options=st.builds(RequestOptions, st.none() | st.just(1.0), st.none() | st.just(3), st.booleans()),
)
states = st.sampled_from(list(RequestState))


def request(line: str, state: RequestState, **others: str) -> Request:
    usual = {"told": "3 tests, about 4 minutes, at most 14 minutes", "reason": "no test matches"}
    return Request(
        key="k", change=1, patch_set=1, project="p", branch="b", revision="r", ref="f", review="m",
        comment="c", path=None, account="1", asked=MOMENT, place=0, line=line, job="perftest",
        testbed="2n-clx", state=state, **{**usual, **others},
    )  # fmt: skip


@given(st.lists(st.tuples(triggers, states), max_size=5))
def test_no_answer_asks_for_anything(asked: list[tuple[Trigger, RequestState]]) -> None:
    requests = [
        request(str(each), state, right_form=right)
        for each, state in asked
        for right in ("", str(each))
    ]  # fmt: skip

    text = request_processor.reply_text(requests)

    assert [] == parse(text, testbeds=TESTBEDS)
    # What Jenkins searches comments for, in jjb/.
    assert not re.search(r"(?im)^[ \u00A0]{0,3}(?:perf|trending)test-2n-clx(?=[\s\u00A0.,;!]|$)", text)


@pytest.mark.parametrize("state", [RequestState.SEEN, RequestState.CLAIMED, RequestState.IGNORED])
def test_nothing_is_said_of_what_is_not_decided_or_asked_too_often(state: RequestState) -> None:
    assert "" == request_processor.reply_text([request("perftest-2n-clx", state)])


def test_longest_answer_fits_into_a_comment() -> None:
    told = request_processor.reply_text([request("perftest-2n-clx " + "x" * 180, RequestState.STARTED)] * 100)

    assert LONGEST_TEXT >= units(shorten(told))


def test_key_is_the_same_for_the_same_request_whatever_its_order_and_case() -> None:
    """And in every process: the expected one was made in another."""
    first, second = (parse(f"perftest-2n-clx {tags}")[0] for tags in ("MRR 64b !soak", "64B mrr !SOAK"))

    expected = "6fb75abfd35246d6a6825cf574f471defeb3a62825387958fd2e3338555715f4"
    assert key("m1", first) == key("m1", second)
    assert expected == key("m1", first)


def test_keys_are_those_of_earlier_versions() -> None:
    """If a key changed with an update, comments that were just answered would start their jobs again."""
    (bisect,) = parse("bisecttest-2n-clx 1a2b3c4 mrrAND64b", testbeds=TESTBEDS)
    (perftest,) = parse("perftest-2n-clx mrr", testbeds=TESTBEDS)

    assert key("m1", bisect) == "81d883f7f47aef7254b04240fd3a2e18297413499566becf8b47285384105e1c"
    assert key("m1", perftest) == "aad7c597453729ed20e754e25be345a53f033837318ef03bcb9886411c300aae"


def test_other_reviews_and_requests_have_other_keys() -> None:
    asked = [parse(f"perftest-2n-clx {tags}")[0] for tags in ("mrr", "mrr 64b", "!mrr", "mrr -- --dry-run")]
    refused = [Refusal("perftest-2n-clx mrr", "a", "b"), Refusal("perftest-2n-clx  mrr", "a", "b")]

    keys = [key(review, each) for review in ("m1", "m2") for each in (*asked, *refused)]

    assert len(keys) == len(set(keys))

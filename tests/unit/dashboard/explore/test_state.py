from __future__ import annotations

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.formula import Query, Term
from perftrend.dashboard.explore.state import (
    Downsample,
    ExploreState,
    Show,
    Spread,
    read,
)
from perftrend.dashboard.explore.zoom import WHOLE, Zoom, ZoomRange
from perftrend.dashboard.links import MOST_IDS
from perftrend.errors import UsageError

texts = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=20)
terms = st.builds(Term, texts, texts, st.booleans())
ranges = (
    st.lists(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e20, max_value=1e20),
             min_size=2, max_size=2, unique=True)
    .map(sorted).map(lambda ends: ZoomRange(*ends))
)  # fmt: skip
zooms = st.builds(
    Zoom,
    st.none() | ranges,
    st.dictionaries(st.sampled_from(["", "Mpps", "us", "1 of all"]), ranges, max_size=2).map(
        lambda found: tuple(found.items())
    ),
)
states = st.builds(
    ExploreState,
    testbed=texts.map(str.strip),
    scale=st.integers(0, 5),
    tile=st.none() | st.integers(0, 10**8),
    query=st.lists(terms, max_size=4, unique=True).map(lambda found: Query(tuple(found))),
    ids=st.lists(
        st.sampled_from([",a=b,", "!norm(,a=b,)", '@ave(filter("x=y"))', "@nothing("]), unique=True
    ).map(tuple),
    shortcut=st.sampled_from(["", "54"]),
    show=st.sampled_from(Show),
    by=texts.map(str.strip),
    downsample=st.sampled_from(Downsample),
    spread=st.sampled_from(Spread),
    changes=st.booleans(),
    zoom=zooms,
    at=st.none() | st.integers(0, 10**8),
    of=texts,
    since=st.none() | st.integers(0, 10**8),
    find=texts.map(str.strip),
)


@given(states)
def test_the_address_has_everything(state: ExploreState) -> None:
    assert state.pairs == read(state.encoded).pairs


@given(zooms)
def test_what_is_seen_is_read_as_it_was_written(zoom: Zoom) -> None:
    assert zoom == read(ExploreState(zoom=zoom).encoded).zoom


def test_another_part_of_time_is_seen_as_a_whole() -> None:
    zoomed = read("tile=3&q=a%3Db&x=400..410&y=1..2+Mpps")

    assert ("/explore?tile=3&q=a%3Db&x=400..410&y=1..2+Mpps", WHOLE) == (
        zoomed.url,
        zoomed.with_tile(0, 2).zoom,
    )


def test_what_is_as_usual_is_left_out() -> None:
    assert ExploreState().url == "/explore"


def test_boxes_and_text_make_one_query() -> None:
    state = read(urlencode([("p.frame", "64B"), ("p.frame", "1518B"), ("q", "test=~^l2&driver!=avf")]))

    assert str(state.query) == "frame=64B&frame=1518B&test=~^l2&driver!=avf"
    assert state.written == "test=~^l2&driver!=avf"
    assert state.chosen == {("frame", "64B"), ("frame", "1518B")}


def test_a_value_of_a_box_is_never_read_as_a_query() -> None:
    value = '~x&y=z"'
    state = read(urlencode([("p.a=b", value)]))

    assert state.query.terms == (Term("a=b", value),)
    assert read(state.encoded).query == state.query


def test_buttons_open_a_point_and_leave_a_trace_out() -> None:
    shown = read(urlencode([("id", ",test=a,"), ("id", ",test=b c,"), ("at", 1), ("look", "7 ,test=b c,")]))
    left = read(urlencode([("id", ",test=a,"), ("id", ",test=b c,"), ("drop", ",test=a,")]))

    assert (7, ",test=b c,") == (shown.at, shown.of)
    assert (",test=b c,",) == left.ids


def test_formula_is_an_id_without_its_mark() -> None:
    assert read("formula=ave(filter(%22%22))").ids == ('@ave(filter(""))',)


@pytest.mark.parametrize(
    ("typed", "identity"),
    [
        ('@ave(filter(""))', '@ave(filter(""))'),
        (",test=a,", ",test=a,"),
        ("!norm(,test=a,)", "!norm(,test=a,)"),
        ("#54", '@filter("#54")'),
    ],
)
def test_field_of_a_formula_takes_any_trace_id(typed: str, identity: str) -> None:
    state = read(urlencode([("formula", typed)]))

    assert ((identity,), ()) == (state.ids, state.problems)


@pytest.mark.parametrize(
    ("encoded", "field", "position"),
    [
        ("q=frame", "q", 0),
        ("q=a=b%26test=~((", "q", 10),
        ("formula=ave(filter(%22a", "id", 12),
        ("id=@norm(", "id", 6),
        ("id=test", "id", 0),
        ("shortcut=a+b", "shortcut", 0),
    ],
)
def test_what_is_wrong_is_told_with_its_place(encoded: str, field: str, position: int) -> None:
    (problem,) = read(encoded).problems

    assert (problem.field, problem.position) == (field, position)
    assert problem.caret == " " * position + "^"


def test_wrong_query_stays_in_the_address_to_be_corrected() -> None:
    state = read(urlencode([("p.frame", "64B"), ("q", "driver")]))

    assert state.written == "driver"
    assert state.chosen == {("frame", "64B")}
    assert read(state.encoded).problems


@pytest.mark.parametrize(
    "encoded",
    [
        "scale=x", "scale=-1", "tile=1e5", "tile=" + "9" * 30, "at=%C2%B2", "since=0x1", "show=everything",
        "x=1", "x=1..", "x=2..1", "x=1..1", "x=nan..2", "x=1..inf", "x=0..1e999", "x=0..2,1", "x=0..2 pps",
        "y=1..%0a2", "y=1..x", "x=%D9%A1..%D9%A2", "x=" + "1" * 22 + "..2e30", "y=Mpps",
        "y=1..2 " + "x" * 101, "y=1..2+a&y=1..2+b&y=1..2+c",
        "spread=1", "testbed=" + "x" * 2000, "q=" + "x" * 17_000, "&".join(["p.a=b"] * 2000),
        urlencode([("id", f",a={number},") for number in range(MOST_IDS + 1)]),
        urlencode([("p.a", str(number)) for number in range(501)]),
    ],
)  # fmt: skip
def test_nonsense_is_refused(encoded: str) -> None:
    with pytest.raises(UsageError):
        read(encoded)


@given(st.text(max_size=300))
def test_no_address_is_a_fault(encoded: str) -> None:
    try:
        state = read(encoded)
    except UsageError:
        return
    assert state.pairs == read(state.encoded).pairs

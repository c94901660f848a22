"""Requests and marks in the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perftrend.store import Store
from perftrend.store.requests import Request, Requests, RequestState

MOMENT = datetime(2026, 3, 2, 18, tzinfo=UTC)
REQUEST = Request(
    key="k1", change=1, patch_set=2, project="router", branch="master", revision="a" * 40,
    ref="refs/changes/01/1/2", review="m1", comment="c1", path="/PATCHSET_LEVEL", account="1", asked=MOMENT,
    place=0, line="perftest-2n-clx", job="perftest", testbed="2n-clx",
)  # fmt: skip


@pytest.fixture
def requests(tmp_path: Path) -> Iterator[Requests]:
    with Store.open(tmp_path / "store.sqlite") as store:
        yield store.requests


def test_request_comes_back_as_it_went_in(requests: Requests) -> None:
    decided = replace(
        REQUEST, decided=MOMENT, state=RequestState.ENDED, exit_code=1, link="https://x", told="3 tests"
    )
    requests.add([decided])

    assert [decided] == requests.in_states(RequestState.ENDED)


def test_request_enters_once_and_stays_as_it_is(requests: Requests) -> None:
    assert [REQUEST] == requests.add([REQUEST, REQUEST])
    assert [] == requests.add([replace(REQUEST, line="other")])
    assert [REQUEST] == requests.in_states(RequestState.SEEN)


def test_former_name_of_a_job_is_read_as_the_present_one(requests: Requests) -> None:
    requests.add([replace(REQUEST, job="bisection")])

    assert [replace(REQUEST, job="bisect")] == requests.in_states(RequestState.SEEN)


def test_state_is_changed_by_who_comes_first_alone(requests: Requests) -> None:
    requests.add([REQUEST])

    assert requests.change(REQUEST, state=RequestState.CLAIMED, decided=MOMENT)
    assert not requests.change(REQUEST, state=RequestState.CLAIMED, decided=MOMENT)


def test_open_are_those_that_wait_for_something_the_oldest_first(requests: Requests) -> None:
    later = replace(REQUEST, key="k2", asked=MOMENT + timedelta(seconds=1))
    second = replace(REQUEST, key="k3", place=1)
    done = replace(REQUEST, key="k4", state=RequestState.STARTED, answered=True)
    untold = replace(REQUEST, key="k5", place=2, state=RequestState.STARTED)
    claimed = replace(REQUEST, key="k6", place=3, state=RequestState.CLAIMED, answered=True)
    requests.add([later, claimed, second, done, untold, REQUEST])

    assert ["k1", "k3", "k5", "k6", "k2"] == [each.key for each in requests.list_open()]


def test_answered_requests_are_not_open(requests: Requests) -> None:
    requests.add([replace(REQUEST, state=RequestState.REFUSED)])

    requests.mark_answered(["k1"])

    assert [] == requests.list_open()


def test_what_somebody_asked_on_a_change_is_found_from_a_moment_on(requests: Requests) -> None:
    mine = replace(REQUEST, decided=MOMENT)
    old = replace(REQUEST, key="k2", decided=MOMENT - timedelta(seconds=1))
    others = replace(mine, key="k3", account="2")
    elsewhere = replace(mine, key="k4", change=2)
    requests.add([mine, old, others, elsewhere, replace(REQUEST, key="k5")])

    assert [mine] == requests.of(1, "1", MOMENT)


def test_review_is_known_by_any_of_its_requests(requests: Requests) -> None:
    requests.add([REQUEST])

    assert (True, False) == (requests.has_review("m1"), requests.has_review("m2"))


def test_mark_moves(requests: Requests) -> None:
    assert requests.mark("comments") is None
    requests.set_mark("comments", MOMENT)
    requests.set_mark("comments", MOMENT + timedelta(days=1))

    assert MOMENT + timedelta(days=1) == requests.mark("comments")

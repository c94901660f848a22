"""Requests and marks in the store."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier

import pytest

from perftrend.errors import StoreError
from perftrend.store import Store
from perftrend.store.requests import JobTime, Request, Requests, RequestState

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


def test_durations_are_those_of_the_newest_jobs_with_a_result(requests: Requests) -> None:
    done = replace(REQUEST, state=RequestState.ENDED, exit_code=0, began=MOMENT, duration_s=60.0)
    later = MOMENT + timedelta(hours=1)
    requests.add(
        [
            done,
            replace(done, key="k2", began=later, duration_s=120.0, exit_code=1),
            replace(done, key="k3", began=later, duration_s=1.0, exit_code=4),
            replace(
                done, key="k4", began=later + timedelta(hours=1), exit_code=None, result={}, duration_s=90.0
            ),
            replace(done, key="k5", exit_code=None, duration_s=2.0),
            replace(done, key="k6", duration_s=None),
            replace(done, key="k7", job="bisect"),
            replace(done, key="k8", testbed="3n-skx"),
        ]
    )

    assert [90.0, 120.0, 60.0] == requests.durations_s("perftest", "2n-clx", newest=9)
    assert [90.0, 120.0] == requests.durations_s("perftest", "2n-clx", newest=2)
    assert [] == requests.durations_s("trending", "2n-clx", newest=2)


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


def test_what_somebody_asked_on_all_changes_is_found_from_a_moment_on(requests: Requests) -> None:
    mine = replace(REQUEST, decided=MOMENT)
    old = replace(REQUEST, key="k2", decided=MOMENT - timedelta(seconds=1))
    others = replace(mine, key="k3", account="2")
    elsewhere = replace(mine, key="k4", change=2)
    requests.add([mine, old, others, elsewhere, replace(REQUEST, key="k5")])

    assert {"k1", "k4"} == {each.key for each in requests.of("1", MOMENT)}


def test_request_is_claimed_if_the_check_of_the_others_passes(requests: Requests) -> None:
    claimed = replace(REQUEST, state=RequestState.CLAIMED, decided=MOMENT, estimated_s=60.0)
    requests.add([REQUEST])

    assert "wrong" == requests.claim(REQUEST, claimed, lambda _: "wrong", since=MOMENT)
    assert [REQUEST] == requests.in_states(*RequestState)
    assert requests.claim(REQUEST, claimed, lambda _: None, since=MOMENT) is None
    assert [claimed] == requests.in_states(*RequestState)


def test_claim_adds_a_request_that_is_not_known(requests: Requests) -> None:
    assert requests.claim(REQUEST, REQUEST, lambda _: None, since=MOMENT) is None

    assert {"k1": REQUEST} == requests.with_keys(["k1", "k2"])


def test_claim_of_what_another_process_has_changed_is_an_error(requests: Requests) -> None:
    requests.add([replace(REQUEST, state=RequestState.CLAIMED)])

    with pytest.raises(StoreError, match="request k1 is also processed by another process"):
        requests.claim(REQUEST, REQUEST, lambda _: None, since=MOMENT)


def test_claim_checks_what_concerns_the_person_the_change_or_the_testbed(requests: Requests) -> None:
    decided = replace(REQUEST, state=RequestState.ENDED, decided=MOMENT)
    alien = replace(decided, change=9, account="9", testbed="9n")
    before = MOMENT - timedelta(seconds=1)
    seen: list[Request] = []
    counting = [
        replace(alien, key="person", account="1"),
        replace(alien, key="change", change=1),
        replace(alien, key="testbed", testbed="2n-clx"),
        replace(alien, key="waiting", testbed="2n-clx", state=RequestState.WAITING, decided=before),
    ]
    requests.add([
        *counting,
        replace(alien, key="alien"),
        replace(alien, key="alien waiting", state=RequestState.WAITING),
        replace(decided, key="old", decided=before),
        replace(REQUEST, key="undecided", account="9"),
    ])  # fmt: skip

    requests.claim(REQUEST, REQUEST, seen.extend, since=MOMENT)

    assert {each.key for each in counting} == {each.key for each in seen}


def test_two_claims_at_once_do_not_both_get_what_is_left(requests: Requests) -> None:
    begin = Barrier(4)

    def claim(number: int) -> str | None:
        request = replace(REQUEST, key=f"k{number}", decided=MOMENT, state=RequestState.CLAIMED)

        def one_at_most(others: Sequence[Request]) -> str | None:
            # Long enough for the others to check as well, if they could.
            time.sleep(0.05)
            return "beyond the limit" if others else None

        begin.wait()
        return requests.claim(request, request, one_at_most, since=MOMENT)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(claim, range(4)))

    assert 1 == found.count(None)
    assert 1 == len(requests.in_states(RequestState.CLAIMED))


def test_review_is_known_by_any_of_its_requests(requests: Requests) -> None:
    requests.add([REQUEST])

    assert (True, False) == (requests.has_review("m1"), requests.has_review("m2"))


def test_mark_moves(requests: Requests) -> None:
    assert requests.mark("comments") is None
    requests.set_mark("comments", MOMENT)
    requests.set_mark("comments", MOMENT + timedelta(days=1))

    assert MOMENT + timedelta(days=1) == requests.mark("comments")


def test_job_of_jenkins_has_ended_after_two_weeks(requests: Requests) -> None:
    lengths = {RequestState.STARTED: 15, RequestState.ADMITTED: 15, RequestState.RUNNING: 15}
    requests.add(
        replace(REQUEST, key=state.value, state=state, decided=MOMENT - timedelta(days=days))
        for state, days in lengths.items()
    )
    requests.add([replace(REQUEST, key="recent", state=RequestState.ADMITTED, decided=MOMENT)])

    requests.end_old(MOMENT)

    assert {"started", "admitted"} == {each.key for each in requests.in_states(RequestState.ENDED)}


def test_job_that_entered_its_request_itself_is_queued_but_not_the_listeners(requests: Requests) -> None:
    admitted = replace(REQUEST, state=RequestState.ADMITTED, decided=MOMENT, began=MOMENT, answered=True)
    requests.add([admitted])

    assert [admitted] == requests.list_queue(10)
    assert ([], set(), []) == (requests.active_on(1), requests.active_changes(), requests.list_open())


def test_time_of_jobs_is_added_by_person_in_a_period(requests: Requests) -> None:
    ended = replace(REQUEST, state=RequestState.ENDED, began=MOMENT, duration_s=60.0, author="Jane")
    requests.add([
        ended,
        replace(ended, key="k2", duration_s=30.0),
        replace(ended, key="k3", account="2", author="", state=RequestState.CANCELLED, duration_s=7.0),
        replace(ended, key="k4", began=MOMENT - timedelta(days=1)),
        replace(ended, key="k5", began=MOMENT + timedelta(days=1)),
        replace(ended, key="k6", state=RequestState.RUNNING, duration_s=None),
    ])  # fmt: skip

    found = requests.job_times(MOMENT, MOMENT + timedelta(days=1))

    assert [JobTime("1", "Jane", 90.0), JobTime("2", "", 7.0)] == found


def test_requests_that_have_changed_meanwhile_are_not_cancelled(requests: Requests) -> None:
    running = replace(REQUEST, key="k2", state=RequestState.RUNNING)
    by = replace(REQUEST, key="k3", line="canceltest-2n-clx", job="cancel", state=RequestState.DONE)
    requests.add([REQUEST, running])
    requests.change(running, state=RequestState.ENDED)

    requests.cancel(by, [REQUEST, running])

    cancelling = replace(REQUEST, state=RequestState.CANCELLING, cancelled_by="k3")
    assert [cancelling] == requests.cancelled_by(by) == requests.in_states(RequestState.CANCELLING)
    assert ["k2"] == [each.key for each in requests.in_states(RequestState.ENDED)]
    assert [by] == requests.in_states(RequestState.DONE)

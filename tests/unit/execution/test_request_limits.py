"""How much of the testbeds may be requested."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.execution import admission
from perftrend.execution.request_validation import LimitExceeded
from perftrend.settings import GerritSettings
from perftrend.store.requests import Request, RequestState

NOW = datetime(2026, 3, 2, 18, tzinfo=UTC)
HOUR_S = 3600.0
REQUEST = Request(
    key="k", change=1, patch_set=2, project="router", branch="master", revision="a" * 40,
    ref="refs/changes/01/1/2", review="m", comment="c", path=None, account="1", asked=NOW, place=0,
    line="perftest-2n-clx mrr", job="perftest", testbed="2n-clx", state=RequestState.CLAIMED, decided=NOW,
)  # fmt: skip
LIMITS = GerritSettings(
    hours_per_request=8, hours_per_day=10, hours_per_change=12, hours_of_queue=14, jobs_per_day=3
)


def job(hours: float | None, key: str = "other", *, hours_ago: float = 1, **others: Any) -> Request:
    usual: dict[str, Any] = {"state": RequestState.ENDED, "decided": NOW - timedelta(hours=hours_ago)}
    estimated_s = None if hours is None else hours * HOUR_S
    return replace(REQUEST, key=key, estimated_s=estimated_s, **{**usual, **others})


def exceeded(hours: float | None, *jobs: Request, limits: GerritSettings = LIMITS) -> LimitExceeded | None:
    numbered = [replace(each, key=f"other {number}") for number, each in enumerate(jobs)]
    request = replace(REQUEST, estimated_s=None if hours is None else hours * HOUR_S)
    return admission.exceeded(request, numbered, limits, NOW)


ELSEWHERE = {"testbed": "3n-icx", "change": 2, "account": "2"}


def test_request_up_to_the_limit_is_accepted_and_one_beyond_it_is_not() -> None:
    assert exceeded(8) is None
    reason = "it needs about 31 hours, but a request may need 8 hours"
    assert LimitExceeded(reason, room_s=8 * HOUR_S) == exceeded(31)


def test_what_a_person_requests_on_all_changes_and_testbeds_counts() -> None:
    jobs = [job(4, change=2, testbed="3n-icx"), job(3, change=3, testbed="1n-veth")]

    assert exceeded(3, *jobs) is None
    assert (
        LimitExceeded(
            "it needs about 4 hours, but the jobs of a person may need 10 hours in 24 hours, "
            "of which about 180 minutes are left",
            3 * HOUR_S,
        )
        == exceeded(4, *jobs)
    )  # fmt: skip


def test_what_is_requested_on_a_change_by_several_people_counts() -> None:
    others = {"testbed": "3n-icx"}
    jobs = [job(6, account="2", **others), job(5, account="3", **others)]

    found = exceeded(2, *jobs)

    assert found
    assert (
        "it needs about 120 minutes, but the jobs on a change may need 12 hours in 24 hours, "
        "of which about 60 minutes are left"
    ) == found.reason


@pytest.mark.parametrize("state", [RequestState.WAITING, RequestState.RUNNING, RequestState.CLAIMED])
def test_what_is_not_finished_on_a_testbed_counts_however_old_it_is(state: RequestState) -> None:
    waiting = job(13, state=state, hours_ago=100, change=2, account="2")

    found = exceeded(2, waiting)

    assert found
    assert (
        "it needs about 120 minutes, but 2n-clx may have 14 hours of work left to do, "
        "of which about 60 minutes are left"
    ) == found.reason
    assert exceeded(2, replace(waiting, testbed="3n-icx")) is None
    assert exceeded(2, replace(waiting, state=RequestState.ENDED)) is None


def test_jobs_of_jenkins_are_left_to_do_for_as_long_as_they_are_estimated_to_need() -> None:
    started = {"state": RequestState.STARTED, "change": 2, "account": "2"}

    # The first one ended an hour ago. The second one has run since then, and the third one waits for it.
    jobs = [job(4, hours_ago=5, **started), job(6, hours_ago=3, **started), job(2, hours_ago=2, **started)]

    assert 7 * HOUR_S == admission.backlog_s(jobs, NOW)
    assert 0 == admission.backlog_s(jobs[:1], NOW)
    assert 0 == admission.backlog_s([], NOW)


@pytest.mark.parametrize("state", [RequestState.STARTED, RequestState.RUNNING, RequestState.ADMITTED])
def test_job_that_has_begun_needs_what_is_left_of_its_estimate(state: RequestState) -> None:
    running = job(4, state=state, hours_ago=9, began=NOW - timedelta(hours=1))

    assert 3 * HOUR_S == admission.backlog_s([running], NOW)
    assert 0 == admission.backlog_s([replace(running, began=NOW - timedelta(hours=5))], NOW)


def test_job_waits_for_the_one_that_runs() -> None:
    running = job(4, state=RequestState.STARTED, hours_ago=9, began=NOW - timedelta(hours=1))
    waiting = job(2, state=RequestState.STARTED, hours_ago=8)

    assert 5 * HOUR_S == admission.backlog_s([running, waiting], NOW)


def test_job_that_has_ended_counts_with_the_time_that_it_took() -> None:
    assert exceeded(8, job(10, duration_s=2 * HOUR_S)) is None
    assert exceeded(8, job(1, duration_s=3 * HOUR_S)) is not None


def test_job_that_was_cancelled_counts_with_the_time_that_it_took() -> None:
    began = NOW - timedelta(hours=3)
    cancelled = job(10, state=RequestState.CANCELLED)

    assert exceeded(8, cancelled) is None
    assert exceeded(8, replace(cancelled, began=began, duration_s=2 * HOUR_S)) is None
    assert exceeded(8, replace(cancelled, began=began, duration_s=3 * HOUR_S)) is not None


@pytest.mark.parametrize("state", [RequestState.CANCELLING, RequestState.CANCELLED, RequestState.DONE])
def test_job_that_was_cancelled_is_not_in_the_queue(state: RequestState) -> None:
    assert 0 == admission.backlog_s([job(10, state=state)], NOW)


def test_nothing_of_a_limit_may_be_left() -> None:
    found = exceeded(1, job(10))

    assert found
    assert found.reason.endswith("may need 10 hours in 24 hours, of which nothing is left now")
    assert 0 == found.room_s


def test_room_is_what_all_limits_leave() -> None:
    found = exceeded(9, job(13, state=RequestState.RUNNING, **{**ELSEWHERE, "testbed": "2n-clx"}))

    assert found
    assert ("it needs about 9 hours, but a request may need 8 hours", HOUR_S) == (found.reason, found.room_s)


@pytest.mark.parametrize(
    "other",
    [
        job(10, hours_ago=25),
        job(10, state=RequestState.REFUSED),
        job(10, state=RequestState.DRY_RUN),
        job(10, state=RequestState.SEEN, decided=None),
        job(10, **ELSEWHERE),
        job(None),
    ],
)
def test_what_does_not_count(other: Request) -> None:
    assert exceeded(8, other) is None


def test_request_itself_does_not_count() -> None:
    itself = replace(REQUEST, estimated_s=8 * HOUR_S)

    assert admission.exceeded(itself, [itself], LIMITS, NOW) is None


def test_number_of_jobs_of_a_person_is_limited_on_all_changes_together() -> None:
    jobs = [job(None, change=change, hours_ago=change) for change in (2, 3, 4)]

    assert exceeded(None, *jobs[:2]) is None
    assert LimitExceeded(
        "3 jobs of yours started in the last 24 hours, which is the maximum; "
        "the next is possible at 2026-03-03 14:00 UTC"
    ) == exceeded(None, *jobs)


def test_800_jobs_on_40_changes_are_not_started() -> None:
    accepted: list[Request] = []
    for number in range(800):
        each = replace(REQUEST, key=f"k{number}", change=number % 40, estimated_s=60.0)
        if admission.exceeded(each, accepted, GerritSettings(), NOW) is None:
            accepted.append(each)

    assert 50 == len(accepted)


@given(st.lists(st.floats(0.01, 20_000), max_size=30))
def test_no_order_of_requests_exceeds_the_hours(hours: list[float]) -> None:
    limits = LIMITS.model_copy(update={"jobs_per_day": 1000})
    accepted: list[Request] = []
    for number, each in enumerate(hours):
        request = replace(REQUEST, key=f"k{number}", estimated_s=each * HOUR_S)
        found = admission.exceeded(request, accepted, limits, NOW)
        if found is None:
            accepted.append(request)
        elif found.room_s:
            smaller = replace(request, estimated_s=found.room_s)
            assert admission.exceeded(smaller, accepted, limits, NOW) is None

    assert 10 * HOUR_S + 1e-6 >= sum(each.estimated_s or 0 for each in accepted)


def test_requests_that_can_still_count_are_read() -> None:
    assert NOW - timedelta(hours=24) == admission.horizon(LIMITS, NOW)
    long_queue = LIMITS.model_copy(update={"hours_of_queue": 100.0})
    assert NOW - timedelta(hours=108) == admission.horizon(long_queue, NOW)

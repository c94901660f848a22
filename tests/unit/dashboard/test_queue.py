"""The queue: what runs and waits, when it will probably begin, and the hours of each person."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext
from perftrend.dashboard.queue import MOST_JOBS, estimated_starts
from perftrend.settings import Settings
from perftrend.store import Store
from perftrend.store.requests import RequestState
from tests.unit.dashboard.conftest import request

JSON = {"Accept": "application/json"}
NOW = datetime.now(UTC).replace(microsecond=0)
HOUR = timedelta(hours=1)
HOUR_S = 3600.0
MONDAY = datetime.combine(NOW.date() - timedelta(days=NOW.weekday()), datetime.min.time(), UTC)


def shown(client: TestClient, query: str = "") -> Any:
    answer = client.get(f"/queue{query}", headers=JSON)
    assert 200 == answer.status_code
    return answer.json()


@pytest.fixture
def settings() -> Settings:
    return Settings.load(environment={}, overrides={"gerrit.url": "https://review.example.org"})


# ---- estimates


def test_waiting_jobs_follow_the_running_one() -> None:
    starts = estimated_starts([(NOW - HOUR / 4, HOUR_S)], [1800.0, HOUR_S, HOUR_S], NOW)

    assert [NOW + HOUR * hours for hours in (0.75, 1.25, 2.25)] == starts


def test_first_job_of_a_free_testbed_begins_now() -> None:
    assert [NOW, NOW + HOUR] == estimated_starts([], [HOUR_S, HOUR_S], NOW)


def test_job_that_takes_longer_than_usual_may_end_at_any_time() -> None:
    assert [NOW] == estimated_starts([(NOW - 2 * HOUR, HOUR_S)], [HOUR_S], NOW)


def test_as_many_jobs_run_at_once_as_now() -> None:
    starts = estimated_starts([(NOW, HOUR_S), (NOW, 2 * HOUR_S)], [HOUR_S] * 3, NOW)

    assert [NOW + HOUR, NOW + 2 * HOUR, NOW + 2 * HOUR] == starts


def test_nothing_is_estimated_after_a_job_of_unknown_duration() -> None:
    assert [NOW, None] == estimated_starts([], [None, HOUR_S], NOW)
    assert [None] == estimated_starts([(NOW, None)], [HOUR_S], NOW)


# ---- the page


def test_running_and_waiting_jobs_are_listed_by_testbed(client: TestClient, store: Store) -> None:
    link = "https://jenkins.example.org/job/perftrend-perftest-2n-clx/5/"
    store.requests.add([
        request("k1", RequestState.STARTED, began=NOW - HOUR / 2, link=link),
        request("k2", RequestState.STARTED, asked=NOW),
        request("k3", RequestState.CLAIMED, testbed="1n-veth"),
        request("k4", RequestState.CANCELLING, began=NOW, testbed="1n-veth"),
    ])  # fmt: skip

    veth, clx = shown(client)["testbeds"]

    assert ("1n-veth", "2n-clx") == (veth["testbed"], clx["testbed"])
    assert [1, 1, 1, 1] == [len(each) for bed in (veth, clx) for each in (bed["running"], bed["waiting"])]
    assert (True, False) == (veth["running"][0]["is_ending"], clx["running"][0]["is_ending"])
    (running,), (waiting,) = clx["running"], clx["waiting"]
    assert {"change": "https://review.example.org/c/router/+/12", "build": link} == running["links"]
    assert ("Jane Doe", "perftest", "perftest-2n-clx mrrAND64b", 12, 3) == tuple(
        waiting[name] for name in ("person", "job", "request", "change", "patch_set")
    )
    start = datetime.fromisoformat(waiting["estimated_start"])
    assert NOW + HOUR / 2 == start.replace(microsecond=0) or start > NOW + HOUR / 2 - timedelta(minutes=5)
    assert running["estimated_start"] is None


@pytest.mark.parametrize(
    "state", sorted({*RequestState} - {"admitted", "claimed", "started", "waiting", "running", "cancelling"})
)
def test_request_that_is_not_queued_is_not_listed(
    client: TestClient, store: Store, state: RequestState
) -> None:
    store.requests.add([request("k1", RequestState(state))])

    assert [] == shown(client)["testbeds"]


def test_times_in_the_future_are_marked_as_estimates(client: TestClient, store: Store) -> None:
    store.requests.add([request("k1"), request("k2", estimated_s=None, testbed="1n-veth"),
                        request("k3", testbed="1n-veth", asked=NOW)])  # fmt: skip

    page = client.get("/queue").text

    assert "Durations and future times are estimates" in page
    assert 2 == page.count("<td>estimated <time")
    assert 1 == page.count("<td>unknown</td>")


def test_hours_are_added_by_person_and_week(client: TestClient, store: Store) -> None:
    ended = {"state": RequestState.ENDED, "duration_s": 1.5 * HOUR_S}
    store.requests.add([
        request("k1", began=MONDAY, **ended),
        request("k2", began=MONDAY, **{**ended, "state": RequestState.CANCELLED}),
        request("k3", began=MONDAY - timedelta(seconds=1), **ended),
        request("k4", began=MONDAY - timedelta(weeks=8), **ended),
        request("k5", began=MONDAY, account="7", author="John", **ended),
        request("k6", RequestState.RUNNING, began=MONDAY),
    ])  # fmt: skip

    found = shown(client)

    assert ["Jane Doe", "John"] == [each["person"] for each in found["people"]]
    assert [[3.0, 1.5, 0, 0, 0, 0, 0, 0], [1.5, 0, 0, 0, 0, 0, 0, 0]] == [
        each["hours"] for each in found["people"]
    ]
    assert [str(MONDAY.date()), str(MONDAY.date() - timedelta(weeks=1))] == found["weeks"][:2]
    assert "<td>3.0</td>" in client.get("/queue").text


def test_number_of_weeks_is_a_parameter(client: TestClient) -> None:
    assert 2 == len(shown(client, "?weeks=2")["weeks"])
    assert [422, 422] == [client.get(f"/queue?weeks={weeks}").status_code for weeks in ("0", "x")]


def test_no_address_of_a_person_is_shown(client: TestClient, store: Store) -> None:
    store.requests.add([request("k1", account="@jane@example.org", author=""), request("k2", author="")])

    page = client.get("/queue").text

    assert "<td>jane</td>" in page
    assert "<td>account 1000003</td>" in page
    assert "example.org</td>" not in page


def test_what_persons_typed_is_escaped_and_links_are_http(client: TestClient, store: Store) -> None:
    hostile = "<script>alert(1)</script>"
    store.requests.add([request("k1", author=hostile, line=hostile, link="javascript:alert(1)")])

    page = client.get("/queue").text

    assert hostile not in page
    assert "javascript:" not in page


def test_long_queue_is_cut_and_the_page_says_so(client: TestClient, store: Store) -> None:
    store.requests.add([request(f"k{number}") for number in range(MOST_JOBS + 1)])

    assert not shown(client)["is_complete"]
    assert "Only the oldest jobs are shown." in client.get("/queue").text


def test_empty_store_has_an_empty_page(client: TestClient, site: AppContext) -> None:
    page = client.get("/queue").text

    assert "No job is queued or running." in page
    assert "No job has ended in these weeks." in page

"""What a patch set gave is read from the store."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard.compare.patches import read_patch, traces_of
from perftrend.errors import UsageError
from perftrend.model import TraceKey
from perftrend.store import Store
from tests.unit.dashboard.compare.conftest import JOB, LEVELS, Stored
from tests.unit.dashboard.conftest import RUNS, TESTBEDS, TESTS, Filled, commit

JSON = {"Accept": "application/json"}


def told(client: TestClient, **asked: Any) -> Any:
    answer = client.get("/compare", params={"by": "patch", "patch": f"{JOB}/7", **asked}, headers=JSON)
    assert answer.status_code == 200, answer.text
    return answer.json()


def by_row(found: Any) -> dict[str, Any]:
    return {row["name"]: next(filter(None, row["cells"])) for row in found["table"]["rows"]}


@pytest.mark.parametrize(
    "name",
    [
        "",
        "..",
        "../../etc/passwd",
        f"{JOB}/7/..",
        f"{JOB}/8",
        f"/{JOB}/7",
        "*/*",
        "1/2",
        f"{JOB}/99999999999",
    ],
)
def test_what_the_store_does_not_have_is_refused(store: Store, stored: Stored, name: str) -> None:
    stored(7)

    with pytest.raises(UsageError, match="the store has no per-patch test"):
        read_patch(store, name)


def test_newest_test_of_a_patch_set_is_found_by_change_and_patch_set(store: Store, stored: Stored) -> None:
    stored(7, change=1234, patch_set=3)
    stored(8, change=1234, patch_set=3)
    stored(9, change=1234, patch_set=4)

    assert f"{JOB}/8" == read_patch(store, "1234/3").test.name


def test_invalid_test_is_not_compared(store: Store, stored: Stored) -> None:
    store.patch_tests.invalidate(stored(7), "a fan failed", author="ann")

    with pytest.raises(UsageError, match=f"{JOB}/7 is marked as invalid: a fan failed"):
        read_patch(store, f"{JOB}/7")


def test_invalid_result_is_left_out(client: TestClient, store: Store, stored: Stored) -> None:
    store.patch_tests.invalidate(stored(7), "noise", author="ann", name="unknown-test")

    assert {f"{TESTS[0]} mrr", f"{TESTS[1]} mrr"} == by_row(told(client)).keys()


def test_link_of_a_report_is_one_of_the_web(store: Store, stored: Stored) -> None:
    stored(7, page="javascript:alert(1)")

    assert "" == read_patch(store, f"{JOB}/7").test.page


def test_names_of_a_report_belong_to_traces() -> None:
    keys = {
        place: TraceKey.of(test=test, suite="s", metric=metric)
        for place, (test, metric) in enumerate(
            [
                ("a", "mrr"),
                ("b", "ndr"),
                ("b", "pdr"),
                ("c", "x"),
                ("c", "y"),
                ("b", "pdr_0.01"),
                ("a", "cycles_total"),
                ("b", "cycles_total"),
            ]
        )
    }

    names = ["a", "a mrr", "s.a", "s.a mrr", "b", "b ndr", "c", "c y", "d", ""]
    assert [0, 0, 0, 0, 2, 1, None, 4, None, None] == traces_of(names, keys)
    assert [0, 0, 0] == traces_of(["was", "was mrr", "s.was"], keys, former={"was": "a"})


def test_patch_is_compared_with_its_parent(client: TestClient, filled: Filled, stored: Stored) -> None:
    stored(7)
    found = by_row(told(client))

    assert {TESTS[0], TESTS[1], "unknown-test"} == found.keys()
    assert found[TESTS[0]]["ratio"] == pytest.approx(0.9, rel=0.005)
    assert ["worse", "within noise", "better"] == [
        found[name]["verdict"] for name in (TESTS[0], TESTS[1], "unknown-test")
    ]


def test_patch_is_compared_with_the_latest_runs(client: TestClient, filled: Filled, stored: Stored) -> None:
    stored(7, {f"{TESTS[0]} mrr": (8.5e6, 8.0e6), "unknown-test": (1.0, 2.0)})
    page = told(client, against="traces")
    found = by_row(page)

    assert {TESTS[0]} == found.keys()
    assert found[TESTS[0]]["ratio"] == pytest.approx(8.0 / 8.5, rel=0.02)
    assert ("worse", commit(RUNS - 1)) == (found[TESTS[0]]["verdict"], found[TESTS[0]]["right"]["commit"])
    assert ["unknown-test"] == page["table"]["left_alone"]


def test_patch_is_compared_with_the_runs_nearest_to_a_commit(
    client: TestClient, filled: Filled, stored: Stored
) -> None:
    stored(7, {f"{TESTS[0]} mrr": (10e6, 10e6)})

    found = by_row(told(client, against="traces", at=commit(3)))

    assert commit(3) == found[TESTS[0]]["right"]["commit"]
    assert found[TESTS[0]]["ratio"] == pytest.approx(1.0, rel=0.02)


def test_query_chooses_the_tests(client: TestClient, filled: Filled, stored: Stored) -> None:
    stored(7)

    assert {TESTS[1]} == by_row(told(client, q=f"test={TESTS[1]}")).keys()


def test_page_offers_the_tests_and_tells_what_the_job_said(
    client: TestClient, filled: Filled, stored: Stored
) -> None:
    stored(7, change=1234, patch_set=3)
    found = told(client)

    page = client.get("/compare", params={"by": "patch", "patch": f"{JOB}/7"}).text

    assert f'<option value="{JOB}/7" selected>change 1234, patch set 3, {TESTBEDS[0]}, ' in page
    assert "in progress" not in page
    assert found["table"]["patch"]
    assert len(LEVELS) == found["table"]["all_rows"]


def test_test_in_progress_is_polled_until_it_has_ended(
    client: TestClient, filled: Filled, stored: Stored
) -> None:
    stored(7, ended=False, number=6)
    found = told(client)
    page = client.get("/compare", params={"by": "patch", "patch": f"{JOB}/7"}).text

    assert ([True], True) == (
        [each["in_progress"] for each in found["patches"]],
        found["table"]["in_progress"],
    )
    assert 'http-equiv="refresh"' in page
    assert "compare.js" in page

    stored(7)
    found = told(client)
    assert ([False], False) == (
        [each["in_progress"] for each in found["patches"]],
        found["table"]["in_progress"],
    )
    assert "compare.js" not in client.get("/compare", params={"by": "patch", "patch": f"{JOB}/7"}).text


def test_tests_are_offered_the_newest_first(client: TestClient, stored: Stored) -> None:
    for build in (7, 9, 8):
        stored(build)

    answer = client.get("/compare", params={"by": "patch"}, headers=JSON).json()
    assert [f"{JOB}/8", f"{JOB}/9", f"{JOB}/7"] == [each["name"] for each in answer["patches"]]


def test_build_that_is_not_there_is_told_beside_the_form(client: TestClient) -> None:
    answer = client.get("/compare", params={"by": "patch", "patch": "../../x/1"}, headers=JSON)

    assert (400, True) == (answer.status_code, "the store has no per-patch test" in answer.json()["problem"])


def test_testbed_of_the_report_is_the_one_whose_traces_count(
    client: TestClient, filled: Filled, stored: Stored
) -> None:
    stored(7, testbed=TESTBEDS[1])

    [cell] = [cell for name, cell in by_row(told(client, against="traces")).items() if name == TESTS[0]]
    assert f"testbed={TESTBEDS[1]}" in cell["right"]["trace"]


def test_program_that_measures_itself_has_no_testbed(client: TestClient, stored: Stored) -> None:
    stored(7, {"parse": (10.0, 9.0)}, testbed="", change=None, patch_set=None, page="")

    found = told(client)
    page = client.get("/compare", params={"by": "patch", "patch": f"{JOB}/7"}).text

    assert ["parse"] == [row["name"] for row in found["table"]["rows"]]
    assert [""] == [each["testbed"] for each in found["patches"]]
    assert ", ," not in page

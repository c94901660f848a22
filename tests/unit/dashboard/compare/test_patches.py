"""What a patch set gave is read from the archive, and from nowhere else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard.compare.patches import builds, read_patch, traces_of
from perftrend.errors import ArchiveError, UsageError
from perftrend.model import TraceKey
from tests.unit.dashboard.compare.conftest import JOB, LEVELS, Archived
from tests.unit.dashboard.conftest import RUNS, TESTBEDS, TESTS, Filled, commit

JSON = {"Accept": "application/json"}


def told(client: TestClient, **asked: Any) -> Any:
    answer = client.get("/compare", params={"by": "patch", "patch": f"{JOB}/7", **asked}, headers=JSON)
    assert answer.status_code == 200, answer.text
    return answer.json()


def by_row(found: Any) -> dict[str, Any]:
    return {row["name"]: next(filter(None, row["cells"])) for row in found["table"]["rows"]}


def test_builds_are_listed_the_newest_first(archive: Path, archived: Archived) -> None:
    for number, build in enumerate((7, 8, 30)):
        os.utime(archived(build), (number, number))

    assert [f"{JOB}/30", f"{JOB}/8", f"{JOB}/7"] == [build.name for build in builds(archive)]


def test_what_is_no_build_is_passed_over(archive: Path, archived: Archived, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    archived(7).parent.parent.rename(outside)
    (archive / JOB / "8").symlink_to(outside)
    (archive / JOB / "9").mkdir()
    (archive / JOB / "latest").mkdir()
    (archive / "a file").write_text("")

    assert [] == builds(archive)
    assert [] == builds(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "name", ["", "..", "../../etc/passwd", f"{JOB}/7/..", f"{JOB}/8", f"/{JOB}/7", "*/*"]
)
def test_what_is_not_in_the_list_is_refused(archive: Path, archived: Archived, name: str) -> None:
    archived(7)

    with pytest.raises(UsageError, match="the archive has no report of"):
        read_patch(archive, name)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 1}', "\x00"])
def test_broken_report_is_told_in_one_line(archive: Path, archived: Archived, content: str) -> None:
    archived(7).write_text(content)

    with pytest.raises(ArchiveError, match="the report is broken"):
        read_patch(archive, f"{JOB}/7")


def test_report_of_another_format_is_refused(archive: Path, archived: Archived) -> None:
    file = archived(7)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": "perftrend-perftest-2"}))

    with pytest.raises(ArchiveError, match="of another format"):
        read_patch(archive, f"{JOB}/7")


def test_link_of_a_report_is_one_of_the_web(archive: Path, archived: Archived) -> None:
    archived(7, page="javascript:alert(1)")

    assert "" == read_patch(archive, f"{JOB}/7").page


def test_names_of_a_report_belong_to_traces() -> None:
    keys = {
        place: TraceKey.of(test=test, suite="s", metric=metric)
        for place, (test, metric) in enumerate(
            [("a", "mrr"), ("b", "ndr"), ("b", "pdr"), ("c", "x"), ("c", "y"), ("b", "pdr_0.01")]
        )
    }

    names = ["a", "a mrr", "s.a", "s.a mrr", "b", "b ndr", "c", "c y", "d", ""]
    assert [0, 0, 0, 0, 2, 1, None, 4, None, None] == traces_of(names, keys)
    assert [0, 0, 0] == traces_of(["was", "was mrr", "s.was"], keys, former={"was": "a"})


def test_patch_is_compared_with_its_parent(client: TestClient, filled: Filled, archived: Archived) -> None:
    archived(7)
    found = by_row(told(client))

    assert {TESTS[0], TESTS[1], "unknown-test"} == found.keys()
    assert found[TESTS[0]]["ratio"] == pytest.approx(0.9, rel=0.005)
    assert ["worse", "within noise", "better"] == [
        found[name]["verdict"] for name in (TESTS[0], TESTS[1], "unknown-test")
    ]


def test_patch_is_compared_with_the_latest_runs(
    client: TestClient, filled: Filled, archived: Archived
) -> None:
    archived(7, {f"{TESTS[0]} mrr": (8.5e6, 8.0e6), "unknown-test": (1.0, 2.0)})
    page = told(client, against="traces")
    found = by_row(page)

    assert {TESTS[0]} == found.keys()
    assert found[TESTS[0]]["ratio"] == pytest.approx(8.0 / 8.5, rel=0.02)
    assert ("worse", commit(RUNS - 1)) == (found[TESTS[0]]["verdict"], found[TESTS[0]]["right"]["commit"])
    assert ["unknown-test"] == page["table"]["left_alone"]


def test_patch_is_compared_with_the_runs_nearest_to_a_commit(
    client: TestClient, filled: Filled, archived: Archived
) -> None:
    archived(7, {f"{TESTS[0]} mrr": (10e6, 10e6)})

    found = by_row(told(client, against="traces", at=commit(3)))

    assert commit(3) == found[TESTS[0]]["right"]["commit"]
    assert found[TESTS[0]]["ratio"] == pytest.approx(1.0, rel=0.02)


def test_query_chooses_the_tests(client: TestClient, filled: Filled, archived: Archived) -> None:
    archived(7)

    assert {TESTS[1]} == by_row(told(client, q=f"test={TESTS[1]}")).keys()


def test_page_offers_the_builds_and_tells_what_the_job_said(
    client: TestClient, filled: Filled, archived: Archived
) -> None:
    archived(7)
    found = told(client)

    page = client.get("/compare", params={"by": "patch", "patch": f"{JOB}/7"}).text

    assert f'<option value="{JOB}/7" selected>' in page
    assert found["table"]["patch"]
    assert len(LEVELS) == found["table"]["all_rows"]


def test_build_that_is_not_there_is_told_beside_the_form(client: TestClient) -> None:
    answer = client.get("/compare", params={"by": "patch", "patch": "../../x/1"}, headers=JSON)

    assert (400, True) == (answer.status_code, "the archive has no report" in answer.json()["problem"])


def test_testbed_of_the_report_is_the_one_whose_traces_count(
    client: TestClient, filled: Filled, archived: Archived
) -> None:
    archived(7, testbed=TESTBEDS[1])

    [cell] = [cell for name, cell in by_row(told(client, against="traces")).items() if name == TESTS[0]]
    assert f"testbed={TESTBEDS[1]}" in cell["right"]["trace"]

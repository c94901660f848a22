"""Reports of builds in Jenkins that are named by their numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard.compare import patches
from perftrend.errors import ArchiveError, ServiceError, UsageError
from perftrend.settings import JenkinsSettings, Settings
from tests.unit.dashboard.compare.conftest import JOB, Stored, reported
from tests.unit.dashboard.conftest import TESTS, Filled

JENKINS = "https://jenkins.example.org/ci"
JSON = {"Accept": "application/json"}


@dataclass
class Files:
    """A Jenkins with one file."""

    address: str
    content: bytes
    url: str = JENKINS
    asked: int = 0

    @contextmanager
    def open(self, address: str) -> Iterator[Iterator[bytes]]:
        self.asked += 1
        if address != self.address:
            raise ServiceError(f"GET {address}: not found (404)")
        yield iter([self.content[:100], self.content[100:]])


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Iterator[Files]:
    """Give a Jenkins that has the report of a build."""
    address = f"{JENKINS}/job/team/job/{JOB}/7/artifact/report/perftest.json"
    found = Files(address, reported(7))
    monkeypatch.setattr(patches, "connect", lambda _: found)
    patches.fetch_report.cache_clear()
    yield found
    patches.fetch_report.cache_clear()


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"jenkins": JenkinsSettings(url=JENKINS)})


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("perftrend-perftest-2n-clx/7", ("perftrend-perftest-2n-clx", 7)),
        ("team/nightly/12", ("team/nightly", 12)),
        (f"{JENKINS}/job/team/job/{JOB}/7/", (f"team/{JOB}", 7)),
        (f"{JENKINS}/job/{JOB}/7/console", (JOB, 7)),
        (f"{JENKINS}/job/{JOB}/7", (JOB, 7)),
    ],
)
def test_build_is_named_by_job_and_number_or_by_its_address(text: str, build: tuple[str, int]) -> None:
    assert build == patches.parse_build(text, JENKINS)


@pytest.mark.parametrize(
    "text",
    [
        "", "7", "job", "job/0", "job/x", "job/7/8/../9", "a b/7", "job/7?x", "job/12345678901",
        "https://elsewhere.example/job/a/7", f"{JENKINS}.evil.example/job/a/7",
        f"{JENKINS}/job/..%2F..%2Fx/7", f"{JENKINS}/user/me/7", "x" * 300 + "/1", "../7", "a/../7",
    ],
)  # fmt: skip
def test_nothing_else_is_a_build(text: str) -> None:
    with pytest.raises(UsageError):
        patches.fetch_report(JenkinsSettings(url=JENKINS), *patches.parse_build(text, JENKINS))


@pytest.mark.parametrize("text", [f"team/{JOB}/7", f"{JENKINS}/job/team/job/{JOB}/7/"])
def test_patch_set_that_jenkins_measured_is_compared(
    client: TestClient, filled: Filled, files: Files, text: str
) -> None:
    answers = [client.get("/compare", params={"by": "patch", "patch": text}, headers=JSON) for _ in range(2)]

    for answer in answers:
        assert [200, ""] == [answer.status_code, answer.json()["problem"]]
        assert any(TESTS[0] in row["name"] for row in answer.json()["table"]["rows"])
    assert 1 == files.asked


def test_patch_set_that_the_store_has_is_not_fetched(
    client: TestClient, filled: Filled, files: Files, stored: Stored
) -> None:
    stored(7)
    for text in (f"{JOB}/7", f"{JENKINS}/job/{JOB}/7/console"):
        told = client.get("/compare", params={"by": "patch", "patch": text}, headers=JSON).json()
        assert [f"{JOB}/7"] == [each["name"] for each in told["patches"]]
        assert told["table"]

    assert 0 == files.asked


def test_what_jenkins_says_stands_beside_the_form(client: TestClient, files: Files) -> None:
    page = client.get("/compare", params={"by": "patch", "patch": f"{JOB}/8"})

    assert 400 == page.status_code
    assert "not found (404)" in page.text
    assert f'value="{JOB}/8"' in page.text


@pytest.mark.parametrize("content", [b"{", b"[]", json.dumps({"format": "x"}).encode()])
def test_what_is_no_report_is_told(client: TestClient, files: Files, content: bytes) -> None:
    files.content = content
    answer = client.get("/compare", params={"by": "patch", "patch": f"team/{JOB}/7"}, headers=JSON)

    assert (400, True) == (answer.status_code, "report" in answer.json()["problem"])


def test_report_has_bounds(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches, "MOST_BYTES", 150)

    with pytest.raises(ArchiveError, match="larger than 150 bytes"):
        patches.fetch_report(JenkinsSettings(url=JENKINS), f"team/{JOB}", 7)

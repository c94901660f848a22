"""Jobs and builds, listed from a double of Jenkins."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perftrend.clients.jenkins import Jenkins, TooLargeError, api
from perftrend.clients.jenkins.builds import read_build
from perftrend.errors import ServiceError, UsageError
from tests.doubles.jenkins import FIRST_STARTED_MS, JenkinsDouble, Job, running

Client = Callable[..., Jenkins]


def numbers(count: int) -> list[int]:
    return list(range(count, 0, -1))


@pytest.fixture
def jenkins(client: Client, double: JenkinsDouble) -> Jenkins:
    double.jobs = {"top": Job([3, 2, 1]), "team/night ly": Job([1]), "team/deep/x": Job([]), "teams": Job([])}
    return client()


def test_jobs_in_folders_have_full_names(jenkins: Jenkins) -> None:
    assert ["top", "team/night ly", "team/deep/x", "teams"] == list(jenkins.jobs())
    assert ["top", "teams"] == list(jenkins.jobs(recursive=False))
    assert ["team/night ly", "team/deep/x"] == list(jenkins.jobs(folder="team"))


def test_pattern_is_for_the_full_name(jenkins: Jenkins) -> None:
    assert ["team/night ly", "team/deep/x"] == list(jenkins.jobs("team/*"))
    assert ["top"] == list(jenkins.jobs("to[p]"))


def test_view_chooses_jobs(jenkins: Jenkins, double: JenkinsDouble) -> None:
    double.views = {"mine/a b": ["top"]}

    assert ["top"] == list(jenkins.jobs(view="mine/a b"))
    assert "/view/mine/view/a%20b/api/json" in double.asked()


def test_view_that_is_missing_is_told(jenkins: Jenkins) -> None:
    with pytest.raises(ServiceError, match="view/mine/api/json: 404"):
        list(jenkins.jobs(view="mine"))


def test_name_that_no_job_can_have_is_not_asked_for(jenkins: Jenkins, double: JenkinsDouble) -> None:
    for name in ("../etc", "a//b", "/a", "a/", "a\nb", "."):
        with pytest.raises(UsageError, match="cannot be the name of a job"):
            jenkins.build(name, 1)

    assert [] == double.requests


@pytest.mark.parametrize("name", ["..", "a/b", "", "\x1b[2J", 7, None])
def test_name_that_no_server_can_have_is_refused(client: Client, double: JenkinsDouble, name: object) -> None:
    double.always = lambda handler: handler.json({"jobs": [{"name": name}]})

    with pytest.raises(ServiceError, match="cannot exist there") as caught:
        list(client().jobs())

    assert str(caught.value).isprintable()


def test_folders_without_end_are_refused(client: Client, double: JenkinsDouble) -> None:
    double.always = lambda handler: handler.json({"jobs": [{"name": "x", "jobs": [{"name": "x"}]}]})

    with pytest.raises(ServiceError, match="cannot exist there"):
        list(client().jobs())


def test_builds_come_newest_first_with_what_is_told_of_them(jenkins: Jenkins, double: JenkinsDouble) -> None:
    third, second, first = jenkins.builds("top")

    assert [3, 2, 1] == [third.number, second.number, first.number]
    assert ("top", "SUCCESS", False, 60.0, "") == (
        third.job, third.result, third.building, third.duration_s, third.description)  # fmt: skip
    assert datetime.fromtimestamp(FIRST_STARTED_MS / 1000 + 3 * 3600, UTC) == third.started
    assert {"TESTBED": "1n-veth"} == third.parameters
    assert f"{double.url}/job/top/3/" == third.url
    assert [f"{double.url}/job/top/3/artifact/archives/output.xml.gz"] == [
        each.url for each in third.artifacts
    ]


def test_job_in_a_folder_is_asked_for_by_its_quoted_path(jenkins: Jenkins, double: JenkinsDouble) -> None:
    assert 1 == jenkins.build("team/night ly", 1).number
    assert "/job/team/job/night%20ly/1/api/json" in double.asked()


def test_running_build_has_no_result(jenkins: Jenkins, double: JenkinsDouble) -> None:
    double.jobs["top"].building = {3}

    build = next(jenkins.builds("top"))

    assert (None, True, False) == (build.result, build.building, build.is_finished)


def test_20_000_builds_take_less_than_20_requests(client: Client, double: JenkinsDouble) -> None:
    double.jobs["long"] = Job(numbers(20_000))

    listed = [build.number for build in client().builds("long")]

    assert numbers(20_000) == listed
    assert len(double.requests) < 20


def test_newest_builds_of_20_000_take_one_small_answer(client: Client, double: JenkinsDouble) -> None:
    double.jobs["long"] = Job(numbers(20_000))

    newest = list(itertools.islice(client().builds("long"), 20))

    assert 20 == len(newest)
    assert ["/api/json", "/job/long/api/json"] == double.asked()
    assert double.requests[-1].query["tree"][0].endswith("{0,100}")


def test_builds_are_bounded_by_number_and_start(client: Client, double: JenkinsDouble) -> None:
    double.jobs["long"] = Job([number for number in numbers(20_000) if number % 3])
    since = datetime.fromtimestamp(FIRST_STARTED_MS / 1000 + 19_997 * 3600, UTC)

    assert [20_000, 19_999, 19_997] == [build.number for build in client().builds("long", since=since)]
    assert len(double.requests) < 4
    assert [8, 7, 5] == [build.number for build in client().builds("long", numbers=(5, 9))]
    assert len(double.requests) < 8
    assert [] == list(client().builds("long", numbers=(30_000, None)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 350), st.lists(st.sampled_from(["begin", "delete", "nothing"]), max_size=6))
def test_every_build_that_stays_is_listed_once_whatever_happens_meanwhile(
    count: int, changes: list[str]
) -> None:
    with running() as double:
        job = double.jobs["busy"] = Job(numbers(count))

        def change(kind: str) -> None:
            if kind == "begin":
                job.numbers[:0] = [max(job.numbers, default=0) + step for step in (2, 1)]
            elif kind == "delete":
                del job.numbers[3:7]

        double.changes.extend([lambda kind=kind: change(kind) for kind in changes])  # type: ignore[misc]

        listed = [build.number for build in Jenkins(double.url).builds("busy")]

        assert sorted(set(listed), reverse=True) == listed
        assert {number for number in job.numbers if number <= count} <= set(listed)


def test_page_that_is_too_large_is_asked_for_in_parts(
    client: Client, double: JenkinsDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    double.jobs["wide"] = Job(numbers(250), artifacts=tuple(f"tests/{part}.json" for part in range(50)))
    monkeypatch.setattr(api, "MAXIMUM_JSON", 100_000)

    assert numbers(250) == [build.number for build in client().builds("wide")]

    monkeypatch.setattr(api, "MAXIMUM_JSON", 1000)
    with pytest.raises(TooLargeError, match="answers with more than 1000 bytes"):
        list(client().builds("wide"))


def test_server_that_repeats_itself_is_not_followed_for_ever(client: Client, double: JenkinsDouble) -> None:
    told = [Job([]).told(number) for number in numbers(200)]
    double.always = lambda handler: handler.json({"allBuilds": told})

    assert numbers(200) == [build.number for build in client().builds("x")]


def test_numbers_without_end_are_not_looked_through(client: Client, double: JenkinsDouble) -> None:
    told = [{"number": number} for number in range(30_000, 20_000, -1)]
    double.always = lambda handler: handler.json({"allBuilds": told})

    with pytest.raises(ServiceError, match="the response is not a valid build"):
        list(client().builds("x", numbers=(None, 5)))


def test_file_elsewhere_does_not_tell_what_the_server_is(client: Client, double: JenkinsDouble) -> None:
    """An artifact may be kept in another store, which Jenkins redirects to."""
    double.jobs["x"] = Job(numbers(3))
    jenkins = client()
    list(jenkins.jobs())
    double.faults.append(lambda handler: handler.send(200, b"", {"X-Jenkins": ""}))
    with jenkins.open(f"{double.url}/file"):
        pass

    list(jenkins.builds("x"))

    assert double.requests[-1].query["tree"][0].endswith("{0,100}")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(Job([]).told(1))), ANYTHING)
def test_whatever_a_server_tells_of_a_build_is_taken_or_refused(name: str, value: object) -> None:
    told = {**Job([]).told(1), name: value}
    build = None
    with suppress(ServiceError):
        build = read_build("x", "http://h/job/x", told)

    if build:
        assert all(isinstance(each, str) for pair in build.parameters.items() for each in pair)
        assert all(each.url.startswith("http://h/job/x/") for each in build.artifacts)
        str(build).encode()

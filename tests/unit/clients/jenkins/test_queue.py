"""The queue, starting builds, and search by a parameter, on a double of Jenkins."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perftrend.clients.jenkins import (
    Jenkins,
    JenkinsBuild,
    QueuedBuild,
    QueueItem,
    RefusedError,
    TooLargeError,
    api,
)
from perftrend.errors import ServiceError, UsageError
from tests.doubles import faulty
from tests.doubles import jenkins as doubles
from tests.doubles.jenkins import FIRST_STARTED_MS, JenkinsDouble, Job

Client = Callable[..., Jenkins]
JOB = "team/per test"
WHY = "Waiting for next available executor on \u2018testbeds\u2019"
SINCE = datetime.fromtimestamp(FIRST_STARTED_MS / 1000, UTC)


@pytest.fixture
def jenkins(client: Client, double: JenkinsDouble) -> Jenkins:
    double.jobs = {JOB: Job([2, 1], parameters=("CHANGE", "TAGS")), "other": Job([], parameters=("CHANGE",))}
    double.queue_holds = True
    return client()


def identities(found: object) -> list[tuple[str, int]]:
    assert isinstance(found, list)
    return [(type(each).__name__, each.number) for each in found]


def test_what_waits_is_told_with_its_reason(jenkins: Jenkins) -> None:
    jenkins.start(JOB, {"CHANGE": "4711", "TAGS": "ü & b"})

    expected = QueueItem(1, JOB, SINCE + timedelta(seconds=1), WHY, {"CHANGE": "4711", "TAGS": "ü & b"})
    assert [expected] == jenkins.queue()


def test_what_waits_of_one_job_comes_newest_first(jenkins: Jenkins) -> None:
    for job in (JOB, "other", JOB):
        jenkins.start(job, {"CHANGE": "1"})

    assert [3, 2, 1] == [item.number for item in jenkins.queue()]
    assert [3, 1] == [item.number for item in jenkins.queue(JOB)]
    assert [] == jenkins.queue("team")


def test_what_has_begun_waits_no_more(jenkins: Jenkins, double: JenkinsDouble) -> None:
    jenkins.start(JOB, {"CHANGE": "1"})
    double.let_go(1)

    assert [] == jenkins.queue()


def test_server_without_a_queue_has_nothing_that_waits(jenkins: Jenkins, double: JenkinsDouble) -> None:
    double.has_queue = False

    assert [] == jenkins.queue()
    assert [] == jenkins.find(JOB, "CHANGE", "1")


def test_queue_that_fails_is_asked_again_and_not_taken_for_an_empty_one(
    jenkins: Jenkins, double: JenkinsDouble
) -> None:
    jenkins.start(JOB, {"CHANGE": "1"})
    double.faults.append(faulty.status(503))
    assert 1 == len(jenkins.queue())

    double.always = faulty.status(403)
    with pytest.raises(ServiceError, match="403 Forbidden"):
        jenkins.queue()


def test_queue_without_end_is_refused(
    jenkins: Jenkins, double: JenkinsDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(10):
        jenkins.start(JOB, {"CHANGE": "x" * 100})
    monkeypatch.setattr(api, "MAXIMUM_JSON", 1000)

    with pytest.raises(TooLargeError, match="more than 1000 bytes"):
        jenkins.queue()


def told(**changed: object) -> dict[str, Any]:
    return doubles.Item(JOB, {"CHANGE": "1"}).told(7, "http://ci.example.org/jenkins") | changed


@pytest.mark.parametrize(
    "task",
    [
        None,
        {},
        {"url": None},
        {"url": "http://ci.example.org/job/x/12/"},
        {"url": "http://ci.example.org/job/x/label=a/"},
        {"url": "http://ci.example.org/job/%2e%2e/"},
        {"url": "http://ci.example.org/job/a%0Ab/"},
    ],
)
def test_what_is_no_job_of_its_own_is_left_out(jenkins: Jenkins, double: JenkinsDouble, task: object) -> None:
    double.always = lambda handler: handler.json({"items": [told(task=task), told()]})

    assert [JOB] == [item.job for item in jenkins.queue()]


@pytest.mark.parametrize(
    "items",
    [
        7,
        [7],
        [told(id="7")],
        [told(id=None)],
        [told(inQueueSince=10**30)],
        [told(inQueueSince=None)],
        [told(task=7)],
        [told(task={"url": 7})],
        [told(task={"url": "http://[::"})],
        [told(why=7)],
        [told(actions=7)],
        [told(actions=[{"parameters": [{"value": "x"}]}])],
    ],
)
def test_queue_that_is_none_is_told(jenkins: Jenkins, double: JenkinsDouble, items: object) -> None:
    double.always = lambda handler: handler.json({"items": items})

    with pytest.raises(ServiceError, match=r"/queue: the response is not a valid queue"):
        jenkins.queue()


def test_started_builds_are_found_by_parameter_wherever_they_are(
    jenkins: Jenkins, double: JenkinsDouble
) -> None:
    for change in ("4711", "4711", "4712", "4711"):
        jenkins.start(JOB, {"CHANGE": change})
    jenkins.start("other", {"CHANGE": "4711"})
    for item in (1, 3):
        double.let_go(item)

    found = jenkins.find(JOB, "CHANGE", "4711")

    assert [("QueueItem", 4), ("QueueItem", 2), ("JenkinsBuild", 3)] == identities(found)
    assert [1] == [each.queue_item for each in found if isinstance(each, JenkinsBuild)]


def test_parameter_that_was_not_given_has_no_value(jenkins: Jenkins, double: JenkinsDouble) -> None:
    jenkins.start(JOB, {"TAGS": ""})

    assert [] == jenkins.find(JOB, "CHANGE", "")
    assert [("QueueItem", 1)] == identities(jenkins.find(JOB, "TAGS", ""))


def test_blanks_that_the_server_trims_do_not_hide_a_build(jenkins: Jenkins, double: JenkinsDouble) -> None:
    jenkins.start(JOB, {"CHANGE": "4711"})

    assert 1 == len(jenkins.find(JOB, "CHANGE", " 4711\n"))


@pytest.mark.parametrize("looks_before", [0, 1, 2])
def test_build_that_leaves_the_queue_meanwhile_is_found_once(
    jenkins: Jenkins, double: JenkinsDouble, looks_before: int
) -> None:
    jenkins.find(JOB, "CHANGE", "1")
    jenkins.start(JOB, {"CHANGE": "1"})
    double.changes.extend([lambda: None] * looks_before + [lambda: double.let_go(1)])

    found = jenkins.find(JOB, "CHANGE", "1")

    assert 1 == len(found)


def test_search_is_bounded_by_count_and_by_time(jenkins: Jenkins, double: JenkinsDouble) -> None:
    double.jobs["long"] = Job(list(range(20_000, 0, -1)))
    hour = timedelta(hours=1)

    assert 1000 == len(jenkins.find("long", "TESTBED", "1n-veth"))
    assert [20_000, 19_999] == [each.number for each in jenkins.find("long", "TESTBED", "1n-veth", within=2)]
    since = SINCE + 19_998 * hour
    assert 3 == len(jenkins.find("long", "TESTBED", "1n-veth", since=since))


def test_job_that_is_missing_is_told_with_the_nearest(jenkins: Jenkins) -> None:
    with pytest.raises(ServiceError, match=f"did you mean '{JOB}'"):
        jenkins.find("team/pertest", "CHANGE", "1")


STARTED = "/job/team/job/nightly/buildWithParameters"


@pytest.fixture
def job(double: JenkinsDouble) -> Job:
    job = double.jobs["team/nightly"] = Job([2, 1], parameters=("TESTBED", "TAGS"))
    double.jobs["plain"] = Job([])
    return job


def test_build_is_found_by_its_place_in_the_queue(client: Client, double: JenkinsDouble, job: Job) -> None:
    double.queue_looks = 3

    started = client().start("team/nightly", {"TAGS": "a&b=c d"})
    build = client().wait(started, timeout_s=30)

    assert QueuedBuild("team/nightly", 2, 1, {"TAGS": "a&b=c d"}) == started
    assert (3, "SUCCESS", {"TAGS": "a&b=c d"}) == (build.number, build.result, build.parameters)
    assert [STARTED] == double.asked("POST")


def test_job_without_parameters_is_started_without(client: Client, double: JenkinsDouble, job: Job) -> None:
    client().start("plain")

    assert ["/job/plain/build"] == double.asked("POST")


def test_running_build_is_waited_for(client: Client, double: JenkinsDouble, job: Job) -> None:
    job.building = {2}
    sleeps = []

    def sleep(pause_s: float) -> None:
        sleeps.append(pause_s)
        job.building = {2} if len(sleeps) < 3 else set()

    assert 2 == client(sleep=sleep).wait(("team/nightly", 2), timeout_s=60, poll_s=7).number
    assert [7, 7, 7] == sleeps


def test_server_that_is_away_is_waited_for(client: Client, double: JenkinsDouble, job: Job) -> None:
    started = client().start("team/nightly")
    double.faults.extend([faulty.status(503)] * 7)

    assert 3 == client().wait(started, timeout_s=60).number


def test_build_that_does_not_end_is_told(client: Client, double: JenkinsDouble, job: Job) -> None:
    job.building = {2}
    with pytest.raises(ServiceError, match=r"team/nightly/2 has not ended after 0\.1 s; see"):
        client().wait(("team/nightly", 2), timeout_s=0.1)

    double.queue_looks = 10**9
    with pytest.raises(ServiceError, match="has not left the queue"):
        client().wait(client().start("team/nightly"), timeout_s=0.1)


def test_build_taken_out_of_the_queue_is_told(client: Client, double: JenkinsDouble, job: Job) -> None:
    double.queue_cancelled = True

    with pytest.raises(ServiceError, match="was removed from the queue"):
        client().wait(client().start("team/nightly"), timeout_s=30)


def test_build_whose_place_is_forgotten_is_found_by_its_parameters(
    client: Client, double: JenkinsDouble, job: Job
) -> None:
    jenkins = client()
    others = jenkins.start("team/nightly", {"TESTBED": "other"})
    mine = jenkins.start("team/nightly", {"TESTBED": "mine", "TAGS": ""})
    double.queue_forgets = True
    # The server shows no passwords, and trims.
    job.given[4] = {"TESTBED": " mine "}

    assert 4 == jenkins.wait(mine, timeout_s=30).number
    assert 3 == jenkins.wait(others, timeout_s=30).number


def test_build_that_does_not_show_its_parameters_yet_is_not_taken_for_another(
    client: Client, double: JenkinsDouble, job: Job
) -> None:
    def sleep(_: float) -> None:
        job.given[3] = {"TESTBED": "other"}
        job.building.clear()

    double.queue_holds = double.queue_forgets = True
    starts = [client().start("team/nightly", {"TESTBED": whose}) for whose in ("other", "mine")]
    for item in (1, 2):
        double.let_go(item)
    job.given[3], job.building = {}, {3}

    assert [4, 3] == [client(sleep=sleep).wait(each, timeout_s=30).number for each in reversed(starts)]


def test_parameter_that_the_job_lacks_is_refused(client: Client, double: JenkinsDouble, job: Job) -> None:
    with pytest.raises(UsageError, match="no parameter 'TESTBAD'; did you mean 'TESTBED'"):
        client().start("team/nightly", {"TESTBAD": "1n-veth"})

    assert [] == double.asked("POST")


def test_disabled_job_is_refused(client: Client, double: JenkinsDouble, job: Job) -> None:
    job.buildable = False

    with pytest.raises(UsageError, match="is disabled"):
        client().start("team/nightly")


def test_job_that_is_missing_is_answered_with_the_nearest(client: Client, job: Job) -> None:
    with pytest.raises(RefusedError, match="did you mean 'team/nightly'"):
        client().start("team/nightli")


@pytest.mark.parametrize(
    "fault",
    [faulty.status(500), faulty.status(503), faulty.reset, faulty.silent(0.4)],
    ids=["500", "503", "reset", "silent"],
)
def test_start_that_may_have_been_received_is_not_sent_again(
    client: Client, double: JenkinsDouble, job: Job, fault: doubles.Fault
) -> None:
    # Two requests come before: for the job, and for a crumb.
    double.faults.extend([None, None, fault])

    with pytest.raises(ServiceError, match="it may have started anyway, see http"):
        client(timeout_s=0.2).start("team/nightly")

    assert [STARTED] == double.asked("POST")


def test_what_comes_before_the_start_is_asked_again(client: Client, double: JenkinsDouble, job: Job) -> None:
    double.faults.extend([faulty.status(503), None, faulty.reset, None])

    assert 1 == client().start("team/nightly").queue_item


def test_start_that_is_redirected_to_a_page_is_told(client: Client, double: JenkinsDouble, job: Job) -> None:
    double.faults.extend([None, None, faulty.redirected_to("/login?from=%2F")])

    with pytest.raises(ServiceError, match="redirected instead of started"):
        client().start("team/nightly")


def test_crumb_is_fetched_once_and_again_when_its_session_has_ended(
    client: Client, double: JenkinsDouble, job: Job
) -> None:
    double.crumbs = True
    jenkins = client()

    jenkins.start("team/nightly")
    jenkins.start("team/nightly")
    assert 1 == double.asked("GET").count("/crumbIssuer/api/json")

    double.session = 1
    jenkins.start("team/nightly")
    assert 2 == double.asked("GET").count("/crumbIssuer/api/json")
    assert 5 == job.numbers[0]


def test_crumb_that_never_fits_ends_in_a_refusal(client: Client, double: JenkinsDouble, job: Job) -> None:
    double.crumbs = True
    wrong = {"crumb": "wrong", "crumbRequestField": "Jenkins-Crumb"}
    double.faults.extend(
        [None, lambda handler: handler.json(wrong), None, lambda handler: handler.json(wrong)]
    )

    with pytest.raises(RefusedError, match="403 Forbidden"):
        client().start("team/nightly")
    assert 2 == len(double.asked("POST"))


@pytest.mark.parametrize(
    "fault",
    [
        faulty.page,
        lambda handler: handler.json([1]),
        lambda handler: handler.json({"crumb": 1}),
        lambda handler: handler.json({"crumb": "a\r\nX: b", "crumbRequestField": "Jenkins-Crumb"}),
        lambda handler: handler.send(200, b"\xff"),
    ],
)
def test_crumb_that_is_none_is_told(
    client: Client, double: JenkinsDouble, job: Job, fault: doubles.Fault
) -> None:
    double.faults.extend([None, fault])

    with pytest.raises(ServiceError):
        client().start("team/nightly")
    assert [] == double.asked("POST")

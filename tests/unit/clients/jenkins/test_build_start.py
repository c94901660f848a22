"""Builds that the client starts and waits for, on a double of Jenkins."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perftrend.clients.jenkins import Jenkins, QueuedBuild, RefusedError
from perftrend.errors import ServiceError, UsageError
from tests.doubles import faulty
from tests.doubles import jenkins as doubles
from tests.doubles.jenkins import JenkinsDouble, Job

Client = Callable[..., Jenkins]
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

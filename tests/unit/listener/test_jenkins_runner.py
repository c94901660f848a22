"""Jobs that Jenkins runs, on a double that does what the real server of the integration tests does not."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import tenacity
import yaml

from perftrend.clients.jenkins import Jenkins, UnavailableError
from perftrend.errors import ServiceError
from perftrend.listener.runner import (
    KEY,
    CancelResult,
    JenkinsRunner,
    RequestRejectedError,
    job_name,
    parameters,
)
from perftrend.store import Store
from perftrend.store.requests import Request, RequestState
from tests.doubles import faulty
from tests.doubles.jenkins import FIRST_STARTED_MS, JenkinsDouble, Job, running

JJB = Path(__file__).resolve().parents[3] / "jjb"
JOB = "perftrend-perftest-2n-clx"
DECIDED = datetime.fromtimestamp(FIRST_STARTED_MS / 1000, UTC)
REQUEST = Request(
    key="k" * 64, change=12, patch_set=3, project="router", branch="master", revision="a" * 40,
    ref="refs/changes/12/12/3", review="m", comment="c", path=None, account="1", asked=DECIDED, place=0,
    line="perftest-2n-clx mrr", job="perftest", testbed="2n-clx", state=RequestState.CLAIMED, decided=DECIDED,
)  # fmt: skip


def of_gerrit() -> set[str]:
    """Return the parameters that the jobs of ``jjb/`` have for what Gerrit says."""
    definitions = yaml.safe_load(re.sub("!include[^ ]*", "", (JJB / "parameters.yaml").read_text()))
    (chosen,) = [
        each["parameter"]["parameters"]
        for each in definitions
        if each["parameter"]["name"] == "perftrend-gerrit"
    ]
    return {parameter["string"]["name"] for parameter in chosen}


@pytest.fixture
def double() -> Iterator[JenkinsDouble]:
    with running() as double:
        double.jobs[JOB] = Job([], parameters=tuple(of_gerrit()))
        yield double


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as store:
        yield store


@pytest.fixture
def runner(double: JenkinsDouble, store: Store, monkeypatch: pytest.MonkeyPatch) -> JenkinsRunner:
    monkeypatch.setenv("NETRC", "/dev/null")
    jenkins = Jenkins(double.url, attempts=2, wait=tenacity.wait_none(), sleep=lambda _: None)
    return JenkinsRunner(jenkins, store.requests, look_every_s=0)


def test_build_is_told_what_gerrit_trigger_tells(double: JenkinsDouble, runner: JenkinsRunner) -> None:
    assert "" == runner.begin(REQUEST, is_new=True)

    (given,) = double.jobs[JOB].given.values()
    assert {
        "GERRIT_EVENT_COMMENT_TEXT": base64.b64encode(b"perftest-2n-clx mrr").decode(),
        "GERRIT_PROJECT": "router",
        "GERRIT_BRANCH": "master",
        "GERRIT_REFSPEC": "refs/changes/12/12/3",
        "GERRIT_CHANGE_NUMBER": "12",
        "GERRIT_PATCHSET_NUMBER": "3",
        "GERRIT_PATCHSET_REVISION": "a" * 40,
        "GERRIT_EVENT_HASH": "k" * 64,
    } == given


def test_every_parameter_is_one_that_the_jobs_have() -> None:
    assert of_gerrit() == set(parameters(REQUEST))


@pytest.mark.parametrize("file", ["analysis", "bisect", "perftest", "trending"])
def test_jobs_have_the_names_of_the_job_suite(file: str) -> None:
    text = (JJB / f"{file}.yaml").read_text()
    (template,) = re.findall(r"^    name: (perftrend-\S*\{testbed\})$", text, re.MULTILINE)
    asked = Request(**{name: getattr(REQUEST, name) for name in REQUEST.__slots__} | {"job": file})

    assert template.format(testbed="2n-clx", cadence="nightly") == job_name(asked)


def test_build_that_is_there_is_not_started_again(double: JenkinsDouble, runner: JenkinsRunner) -> None:
    runner.begin(REQUEST, is_new=True)

    again = runner.begin(REQUEST, is_new=False)

    assert (f"{double.url}/job/{JOB}/1/", [1]) == (again, double.jobs[JOB].numbers)
    assert again == runner.link(REQUEST)


def test_what_waits_in_the_queue_is_not_started_again(double: JenkinsDouble, runner: JenkinsRunner) -> None:
    double.queue_holds = True
    runner.begin(REQUEST, is_new=True)
    posts = len(double.asked("POST"))

    assert "" == runner.begin(REQUEST, is_new=False)
    assert (posts, "") == (len(double.asked("POST")), runner.link(REQUEST))


def test_what_is_not_there_is_started(double: JenkinsDouble, runner: JenkinsRunner) -> None:
    double.enqueue(JOB, {KEY: "another"})

    runner.begin(REQUEST, is_new=False)

    assert [2, 1] == double.jobs[JOB].numbers


def test_build_whose_answer_is_lost_is_found(double: JenkinsDouble, runner: JenkinsRunner) -> None:
    def lost(handler: faulty.Handler) -> None:
        double.enqueue(JOB, parameters(REQUEST))
        faulty.reset(handler)

    double.faults.extend([None, None, lost])
    with pytest.raises(ServiceError, match="it may have started anyway"):
        runner.begin(REQUEST, is_new=True)

    assert f"{double.url}/job/{JOB}/1/" == runner.begin(REQUEST, is_new=False)
    assert [1] == double.jobs[JOB].numbers


def test_job_that_is_disabled_or_missing_is_not_taken(double: JenkinsDouble, runner: JenkinsRunner) -> None:
    double.jobs[JOB].buildable = False
    with pytest.raises(RequestRejectedError, match="is disabled; enable it first"):
        runner.begin(REQUEST, is_new=True)

    del double.jobs[JOB]
    with pytest.raises(RequestRejectedError, match="404 Not Found"):
        runner.begin(REQUEST, is_new=True)


def test_jenkins_that_is_away_or_refuses_the_login_is_tried_again(
    double: JenkinsDouble, runner: JenkinsRunner
) -> None:
    for status, expected in ((503, UnavailableError), (401, ServiceError)):
        double.always = faulty.status(status)
        with pytest.raises(expected) as raised:
            runner.begin(REQUEST, is_new=True)
        assert not isinstance(raised.value, RequestRejectedError)


# ---- ending builds

CANCELLING = replace(REQUEST, state=RequestState.CANCELLING)


def test_build_in_the_queue_is_removed_from_it(double: JenkinsDouble, runner: JenkinsRunner) -> None:
    double.queue_holds = True
    runner.begin(REQUEST, is_new=True)

    assert CancelResult.PENDING == runner.cancel(CANCELLING)
    assert CancelResult.NEVER_BEGAN == runner.cancel(CANCELLING)
    assert ([], []) == (double.waiting(), double.jobs[JOB].numbers)


def test_running_build_is_aborted(double: JenkinsDouble, runner: JenkinsRunner, store: Store) -> None:
    store.requests.add([CANCELLING])
    runner.begin(REQUEST, is_new=True)
    double.jobs[JOB].building.add(1)

    assert CancelResult.ABORTED == runner.cancel(CANCELLING)
    assert {1} == double.jobs[JOB].aborted
    (found,) = store.requests.in_states(RequestState.CANCELLING)
    assert DECIDED + timedelta(hours=1) == found.began


def test_build_that_was_aborted_before_the_listener_was_killed_is_reported_as_aborted(
    double: JenkinsDouble, runner: JenkinsRunner
) -> None:
    runner.begin(REQUEST, is_new=True)
    double.jobs[JOB].building.add(1)
    runner.cancel(CANCELLING)

    assert CancelResult.ABORTED == runner.cancel(CANCELLING)
    assert 1 == sum(path.endswith("/stop") for path in double.asked("POST"))


def test_build_that_has_ended_by_itself_is_no_error(double: JenkinsDouble, runner: JenkinsRunner) -> None:
    runner.begin(REQUEST, is_new=True)

    assert CancelResult.HAD_ENDED == runner.cancel(CANCELLING)
    assert set() == double.jobs[JOB].aborted


def test_build_that_ends_while_it_is_aborted_is_no_error(
    double: JenkinsDouble, runner: JenkinsRunner
) -> None:
    def too_late(handler: faulty.Handler) -> None:
        double.jobs[JOB].building.discard(1)
        faulty.status(404)(handler)

    runner.begin(REQUEST, is_new=True)
    double.jobs[JOB].building.add(1)
    double.faults.extend([None, None, too_late])

    assert CancelResult.ABORTED == runner.cancel(CANCELLING)
    assert CancelResult.HAD_ENDED == runner.cancel(CANCELLING)


def test_item_that_begins_while_it_is_removed_is_aborted_as_a_build(
    double: JenkinsDouble, runner: JenkinsRunner
) -> None:
    def too_late(handler: faulty.Handler) -> None:
        double.let_go(1)
        double.jobs[JOB].building.add(1)
        faulty.status(404)(handler)

    double.queue_holds = True
    runner.begin(REQUEST, is_new=True)
    double.faults.extend([None, None, too_late])

    while CancelResult.PENDING == (result := runner.cancel(CANCELLING)):
        pass

    assert (CancelResult.ABORTED, {1}) == (result, double.jobs[JOB].aborted)


def test_build_of_another_request_continues(double: JenkinsDouble, runner: JenkinsRunner) -> None:
    double.enqueue(JOB, {KEY: "another"})
    double.jobs[JOB].building.add(1)

    assert CancelResult.NEVER_BEGAN == runner.cancel(CANCELLING)
    assert {1} == double.jobs[JOB].building


def test_build_that_was_just_requested_is_looked_for_again(runner: JenkinsRunner) -> None:
    recent = replace(CANCELLING, decided=datetime.now(UTC))

    assert CancelResult.PENDING == runner.cancel(recent)


def test_request_that_was_not_decided_needs_no_jenkins(double: JenkinsDouble, runner: JenkinsRunner) -> None:
    assert CancelResult.NEVER_BEGAN == runner.cancel(replace(CANCELLING, decided=None))
    assert [] == double.requests


def test_missing_permission_is_final_and_an_outage_is_not(
    double: JenkinsDouble, runner: JenkinsRunner
) -> None:
    for status, is_final in ((403, True), (503, False)):
        double.always = faulty.status(status)
        with pytest.raises(ServiceError) as raised:
            runner.cancel(CANCELLING)
        assert is_final == isinstance(raised.value, RequestRejectedError)


# ---- following builds

STARTED = replace(REQUEST, state=RequestState.STARTED, decided=datetime.now(UTC))


@pytest.fixture
def recent(double: JenkinsDouble) -> JenkinsDouble:
    double.jobs[JOB].first_started_ms = int(datetime.now(UTC).timestamp() * 1000) - 3_600_000
    return double


def test_begin_and_end_of_a_build_are_recorded(
    recent: JenkinsDouble, runner: JenkinsRunner, store: Store
) -> None:
    store.requests.add([STARTED])
    runner.begin(STARTED, is_new=True)
    recent.jobs[JOB].building.add(1)

    assert not runner.tend()
    (running,) = store.requests.in_states(RequestState.STARTED)
    recent.jobs[JOB].building.clear()
    runner.tend()
    (ended,) = store.requests.in_states(RequestState.ENDED)

    assert (f"{recent.url}/job/{JOB}/1/", None) == (running.link, running.duration_s)
    assert (running.began, 60.0) == (ended.began, ended.duration_s)


def test_build_in_the_queue_has_not_begun(recent: JenkinsDouble, runner: JenkinsRunner, store: Store) -> None:
    recent.queue_holds = True
    store.requests.add([STARTED])
    runner.begin(STARTED, is_new=True)

    runner.tend()

    (waiting,) = store.requests.in_states(RequestState.STARTED)
    assert waiting.began is None


@pytest.mark.parametrize("age", [timedelta(hours=2), timedelta(days=400)])
def test_build_that_jenkins_no_longer_has_counts_as_ended(
    recent: JenkinsDouble, runner: JenkinsRunner, store: Store, age: timedelta
) -> None:
    store.requests.add([replace(STARTED, decided=datetime.now(UTC) - age)])

    runner.tend()

    (ended,) = store.requests.in_states(RequestState.ENDED)
    assert (None, None) == (ended.began, ended.duration_s)


def test_outage_of_jenkins_is_reported_once(
    recent: JenkinsDouble, runner: JenkinsRunner, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.requests.add([STARTED])
    recent.always = faulty.status(503)

    runner.tend()
    runner.tend()

    (message,) = caplog.messages
    assert "the builds cannot be followed" in message

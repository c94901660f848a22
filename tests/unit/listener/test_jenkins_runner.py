"""Jobs that Jenkins runs, on a double that does what the real server of the integration tests does not."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import tenacity
import yaml

from perftrend.clients.jenkins import Jenkins, UnavailableError
from perftrend.errors import ServiceError
from perftrend.listener.runner import KEY, JenkinsRunner, RequestRejectedError, job_name, parameters
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
def runner(double: JenkinsDouble, monkeypatch: pytest.MonkeyPatch) -> JenkinsRunner:
    monkeypatch.setenv("NETRC", "/dev/null")
    return JenkinsRunner(Jenkins(double.url, attempts=2, wait=tenacity.wait_none(), sleep=lambda _: None))


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

"""Plugins, agents, lockable resources and the rights to start and end builds, on a double of Jenkins."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

import pytest

from perftrend.clients.jenkins import Jenkins, RefusedError
from perftrend.clients.jenkins.client import AgentLabel
from perftrend.errors import ServiceError, UsageError
from tests.doubles.jenkins import JenkinsDouble, Job

Client = Callable[..., Jenkins]


def put(double: JenkinsDouble, path: str, answer: object) -> None:
    double.files[f"/{path}/api/json"] = json.dumps(answer).encode()


def test_plugins_are_known_with_their_state(double: JenkinsDouble, client: Client) -> None:
    listed = [{"shortName": "git", "active": True}, {"shortName": "email-ext", "active": False}]
    put(double, "pluginManager", {"plugins": listed})

    assert {"git": True, "email-ext": False} == client().plugins()


@pytest.mark.parametrize("answer", [{}, {"plugins": None}, {"plugins": {"git": True}}])
def test_answer_without_plugins_is_an_error(double: JenkinsDouble, client: Client, answer: object) -> None:
    put(double, "pluginManager", answer)

    with pytest.raises(ServiceError, match=r"has no plugins; is jenkins\.url right"):
        client().plugins()


def test_agents_of_a_label_are_counted(double: JenkinsDouble, client: Client) -> None:
    put(double, "label/a%20b", {"nodes": [{"nodeName": "one"}, {"nodeName": ""}], "offline": False})

    assert AgentLabel(2, is_offline=False) == client().agents("a b")
    assert AgentLabel(0, is_offline=True) == client().agents("unknown")


def test_resources_of_a_label_are_counted(double: JenkinsDouble, client: Client) -> None:
    listed = [{"labels": "a b"}, {"labelsAsList": ["b"]}, {"labels": "bb"}, {"labels": None}, "b"]
    put(double, "lockable-resources", {"resources": listed})

    assert [1, 2, 0] == [client().resources(label) for label in ("a", "b", "c")]


@pytest.mark.parametrize(
    ("page", "may_start"),
    [
        (b'<a href="/job/x/build?delay=0sec">Build Now</a>', True),
        (b" " * 1_000_000 + b'<a href="/jenkins/job/x/build?delay=0sec">', True),
        (b'<a href="/job/x/buildTimeTrend">', False),
        (b" " * 6_000_000 + b"/build?delay=0sec", False),
        (b"", False),
    ],
)
def test_page_of_a_job_shows_whether_it_may_be_started(
    double: JenkinsDouble, client: Client, page: bytes, may_start: bool
) -> None:
    double.jobs["x"] = Job([1])
    double.files["/job/x/"] = page

    assert may_start is client().may_start("x")
    assert ["/job/x/"] == double.asked()


@pytest.mark.parametrize(
    ("page", "may_end"),
    [(b'<a href="stop" class="stop-button-link">', True), (b'<a href="/job/x/3/stopwatch">', False)],
)
def test_page_of_a_running_build_shows_whether_it_may_be_ended(
    double: JenkinsDouble, client: Client, page: bytes, *, may_end: bool
) -> None:
    double.jobs["x"] = Job([3, 2, 1], building={3})
    double.files["/job/x/3/"] = page

    assert may_end is client().may_end("x")
    assert [] == double.asked("POST")


@pytest.mark.parametrize("numbers", [[], [1]])
def test_without_a_running_build_the_right_to_end_one_is_unknown(
    double: JenkinsDouble, client: Client, numbers: list[int]
) -> None:
    double.jobs["x"] = Job(numbers)

    assert client().may_end("x") is None


def test_build_that_ends_while_it_is_looked_at_shows_nothing(double: JenkinsDouble, client: Client) -> None:
    job = double.jobs["x"] = Job([1], building={1})
    double.files["/job/x/1/"] = b"ended"
    double.changes.append(job.building.clear)

    assert client().may_end("x") is None


@pytest.mark.parametrize(
    "newest", [7, {}, {"number": 0, "building": True}, {"number": "x", "building": True}]
)
def test_newest_build_that_makes_no_sense_is_no_crash(
    double: JenkinsDouble, client: Client, newest: object
) -> None:
    put(double, "job/x", {"lastBuild": newest})

    with suppress(ServiceError):
        assert client().may_end("x") is None


def test_unknown_job_is_answered_with_the_nearest(double: JenkinsDouble, client: Client) -> None:
    double.jobs["nightly"] = Job([1])

    with pytest.raises(RefusedError, match="did you mean 'nightly'"):
        client().may_start("nightli")
    with pytest.raises(UsageError, match="cannot be the name of a job"):
        client().may_start("../x")

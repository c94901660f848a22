"""What a Jenkins says about plugins, agents, resources, jobs and rights; nothing is started."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from perftrend.doctor import servers as doctor
from perftrend.doctor.check_results import CheckResult, Severity
from perftrend.settings import Settings
from tests.doubles import jenkins
from tests.doubles.jenkins import JenkinsDouble, Job

JOBS = [
    f"perftrend-{kind}-2n-clx"
    for kind in ("trending-nightly", "trending-weekly", "analysis", "bisect", "perftest")
]
ALL = (*doctor.TREND_PLUGINS, *doctor.ON_CHANGE_PLUGINS)
CHECKOUT = Path(__file__).resolve().parents[3]
SECRET, WRONG = "sesame", "wrong-token"
GERRIT = {"url": "https://review.example.org"}
START = '<a href="/job/x/build?delay=0sec">Build with Parameters</a>'


@pytest.fixture
def double() -> Iterator[JenkinsDouble]:
    """Run a Jenkins that has everything."""
    with jenkins.running() as running:
        running.login = ("perf", SECRET)
        running.jobs = {name: Job([]) for name in JOBS}
        put(running, "pluginManager", {"plugins": [{"shortName": each, "active": True} for each in ALL]})
        put(running, "label/perftrend", {"nodes": [{"nodeName": "one"}], "offline": False})
        put(running, "lockable-resources", {"resources": [{"name": "a", "labels": "x perftrend-2n-clx"}]})
        for name in JOBS:
            running.files[f"/job/{name}/"] = START.encode()
        yield running


def put(double: JenkinsDouble, path: str, answer: object) -> None:
    double.files[f"/{path}/api/json"] = json.dumps(answer).encode()


def check(double: JenkinsDouble, token: str = SECRET, **others: object) -> dict[str, CheckResult]:
    own = {"url": double.url, "user": "perf", "token": token}
    settings = Settings.model_validate({"jenkins": own, "testbed": "2n-clx", **others})
    return {each.what: each for each in doctor.check_jenkins(settings)}


def test_jenkins_that_has_everything_is_ok(double: JenkinsDouble) -> None:
    run_build(double, '<a href="stop">Stop</a>')

    found = check(double, gerrit=GERRIT)

    assert {"plugins", "agents", "resources", "jobs", "rights", "cancelling"} <= set(found)
    assert {Severity.OK} == {each.severity for what, each in found.items() if what != "clock"}


def test_requests_only_read(double: JenkinsDouble) -> None:
    check(double)

    assert [] == double.asked("POST")
    assert [] == [path for path in double.asked() if "build" in path]


def test_wrong_token_is_a_fault_and_is_not_shown(double: JenkinsDouble) -> None:
    found = check(double, token=WRONG)

    assert {"login"} == set(found)
    assert Severity.FAULT is found["login"].severity
    assert WRONG not in found["login"].text + found["login"].fix


def test_missing_plugins_have_a_command() -> None:
    found = doctor.judge_plugins(dict.fromkeys(ALL[2:], True), "https://jenkins.example.org")

    assert Severity.FAULT is found.severity
    assert "install-plugin build-timeout description-setter -restart" in found.fix


def test_plugin_of_comments_alone_is_a_warning() -> None:
    found = doctor.judge_plugins(dict.fromkeys(doctor.TREND_PLUGINS, True), "https://jenkins.example.org")

    assert Severity.WARNING is found.severity


def test_plugin_that_is_not_active_is_a_fault() -> None:
    installed = {**dict.fromkeys(ALL, True), "git": False}

    found = doctor.judge_plugins(installed, "https://jenkins.example.org")

    assert (Severity.FAULT, True) == (found.severity, "enable-plugin git" in found.fix)


def test_plugins_that_may_not_be_listed_are_not_checked(double: JenkinsDouble) -> None:
    del double.files["/pluginManager/api/json"]

    assert Severity.NOT_CHECKED is check(double)["plugins"].severity


@pytest.mark.parametrize(
    ("answer", "severity"),
    [
        ({"nodes": [], "offline": True}, Severity.WARNING),
        ({"nodes": [{"nodeName": "one"}], "offline": True}, Severity.FAULT),
        ({"nodes": [{}, {}], "offline": False}, Severity.OK),
        ({}, Severity.WARNING),
    ],
)
def test_agents_are_counted(double: JenkinsDouble, answer: object, severity: Severity) -> None:
    put(double, "label/perftrend", answer)

    assert severity is check(double)["agents"].severity


def test_unknown_label_has_no_agent(double: JenkinsDouble) -> None:
    del double.files["/label/perftrend/api/json"]

    assert Severity.WARNING is check(double)["agents"].severity


@pytest.mark.parametrize(
    "resource", [{"labels": "perftrend-2n-clx"}, {"labelsAsList": ["a", "perftrend-2n-clx"], "labels": ""}]
)
def test_resource_has_one_of_several_labels(double: JenkinsDouble, resource: object) -> None:
    put(double, "lockable-resources", {"resources": [resource, {"labels": None}, 7]})

    assert Severity.OK is check(double)["resources"].severity


def test_missing_resource_is_a_fault_and_an_old_plugin_is_not_checked(double: JenkinsDouble) -> None:
    put(double, "lockable-resources", {"resources": [{"labels": "perftrend-2n-clx-old"}]})
    assert Severity.FAULT is check(double)["resources"].severity

    del double.files["/lockable-resources/api/json"]
    assert Severity.NOT_CHECKED is check(double)["resources"].severity


def test_missing_jobs_of_the_trend_are_a_fault(double: JenkinsDouble) -> None:
    del double.jobs["perftrend-analysis-2n-clx"]

    found = check(double)["jobs"]

    assert (Severity.FAULT, "the user sees no job perftrend-analysis-2n-clx") == (found.severity, found.text)


def test_jobs_of_comments_are_only_needed_with_gerrit(double: JenkinsDouble) -> None:
    del double.jobs["perftrend-perftest-2n-clx"]

    assert Severity.OK is check(double)["jobs"].severity
    assert Severity.WARNING is check(double, gerrit=GERRIT)["jobs"].severity


def test_jobs_may_be_in_a_folder(double: JenkinsDouble) -> None:
    double.jobs = {f"team/{name}": Job([]) for name in JOBS}
    for name in JOBS:
        double.files[f"/job/team/job/{name}/"] = START.encode()

    assert Severity.OK is check(double)["jobs"].severity
    assert Severity.OK is check(double)["rights"].severity


def test_page_without_a_start_is_a_missing_right(double: JenkinsDouble) -> None:
    double.files["/job/perftrend-bisect-2n-clx/"] = b"<a href='/job/x/lastBuild'>Last build</a>"

    found = check(double)["rights"]

    assert Severity.WARNING is found.severity
    assert "perftrend-bisect-2n-clx" in found.text


def run_build(double: JenkinsDouble, page: str) -> None:
    double.jobs[JOBS[-1]] = Job([1], building={1})
    double.files[f"/job/{JOBS[-1]}/1/"] = page.encode()


def test_page_of_a_running_build_shows_that_the_listener_can_cancel(double: JenkinsDouble) -> None:
    run_build(double, '<a href="stop">Stop</a>')

    found = check(double, gerrit=GERRIT)["cancelling"]

    assert (Severity.OK, "the user perf may end builds of the jobs") == (found.severity, found.text)
    assert [] == double.asked("POST")


def test_page_of_a_running_build_without_an_end_is_a_missing_right(double: JenkinsDouble) -> None:
    run_build(double, "<p>It is running</p>")

    found = check(double, gerrit=GERRIT)["cancelling"]

    assert Severity.WARNING is found.severity
    assert JOBS[-1] in found.text
    assert "give perf the permission Job/Cancel at " in found.fix


def test_right_to_cancel_is_not_checked_without_a_running_build(double: JenkinsDouble) -> None:
    found = check(double, gerrit=GERRIT)["cancelling"]

    assert Severity.NOT_CHECKED is found.severity
    assert "Job/Cancel" in found.text


@pytest.mark.parametrize("others", [{}, {"gerrit": GERRIT, "listener": {"runner": "local"}}])
def test_right_to_cancel_is_only_needed_if_the_listener_uses_jenkins(
    double: JenkinsDouble, others: dict[str, object]
) -> None:
    assert "cancelling" not in check(double, **others)


@pytest.mark.parametrize("answer", [[], 7, {"plugins": 7}, {"plugins": [7, {"shortName": 7}]}, {}])
def test_response_that_makes_no_sense_is_not_a_crash(double: JenkinsDouble, answer: object) -> None:
    put(double, "pluginManager", answer)

    assert check(double)["plugins"].severity in (Severity.NOT_CHECKED, Severity.FAULT)


def test_documentation_lists_the_plugins() -> None:
    page = (CHECKOUT / "docs" / "jenkins.rst").read_text(encoding="utf-8")
    _, trend, everything = re.split(r"#\. \*\*Plugins\.\*\*", page)

    of_trend = set(re.findall(r"``([a-z-]+)``", trend.partition("Jenkins ignores")[0]))
    assert set(doctor.TREND_PLUGINS) == of_trend
    assert set(ALL) | {"gerrit-trigger"} == set(
        re.findall(r"``([a-z-]+)``", everything.partition("You can omit")[0])
    )

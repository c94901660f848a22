"""A patch set is compared whose report only Jenkins has, from a build of the job that measured it there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http import HTTPStatus
from statistics import fmean
from typing import Any

import pytest
import requests
import yaml
from lxml import etree
from playwright.sync_api import Browser, expect

from perftrend.clients.jenkins import Jenkins, JenkinsBuild
from tests.integration.servers import checkout, hudson
from tests.integration.servers.dashboard import Dashboard, fill, opened, save_picture
from tests.products.histories import History
from tests.products.printed import SCRIPT, scattered
from tests.unit.jjb import rendering

TESTBED = "1n-veth"
JOB = f"perftrend-perftest-{TESTBED}"
PLENTY_S = 300


@pytest.fixture(scope="module")
def build(jenkins_server: hudson.Server, tmp_path_factory: pytest.TempPathFactory) -> JenkinsBuild:
    """Let the job of ``jjb/`` compare two commits of a product whose own command prints its numbers.

    The server has no git plugin, so its workspace is a clone that is made here. Without Gerrit the job is
    told which commit it compares, as a person tells it.
    """
    folder = tmp_path_factory.mktemp("job")
    product = History(folder / "product")
    product.commit("fast", {SCRIPT: scattered(100, seed="1", spread=0.001, count=5)})
    slower = product.commit("slow", {SCRIPT: scattered(80, seed="1", spread=0.001, count=5)})
    settings = {
        "project": {
            "profile": "command", "repository": str(product.folder),
            "parameters": {"measure": "sh measure.sh", "unit": "ops"},
        },
        "perftest": {"maximum_rounds": 6},
    }  # fmt: skip
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings))
    project = {
        "name": "test", "testbed": TESTBED, "jobs": ["perftrend-on-change"], "testbed-node": "master",
        "perftrend-git-url": str(checkout.make_repository(folder / "repository")),
        "store": str(folder / "perftrend.sqlite"), "settings": str(folder / "settings.yaml"),
    }  # fmt: skip
    (folder / "project.yaml").write_text(yaml.safe_dump([{"project": project}]))
    job = etree.fromstring(rendering.render([folder / "project.yaml"])[JOB].encode())
    [command] = job.iterfind("builders//command")
    command.text = f"{command.text} --new {slower}"
    jenkins_server.create_job(JOB, etree.tostring(job))
    checkout.check_out(project["perftrend-git-url"], jenkins_server.home / "jobs" / JOB / "workspace")
    jenkins = Jenkins(jenkins_server.url)
    built = jenkins.wait(jenkins.start(JOB), timeout_s=PLENTY_S, poll_s=0.5)
    assert "FAILURE" == built.result, "".join(jenkins.console(JOB, built.number))
    return built


@pytest.fixture(scope="module")
def report(build: JenkinsBuild, jenkins_server: hudson.Server) -> Any:
    """Give what the job wrote, as it lies on the disk of the server."""
    artifacts = jenkins_server.home / "jobs" / JOB / "builds" / str(build.number) / "archive"
    return json.loads((artifacts / "report" / "perftest.json").read_text())


@pytest.fixture(scope="module")
def dashboard(
    build: JenkinsBuild, jenkins_server: hudson.Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Dashboard]:
    """Run a dashboard that has the address of the Jenkins, and an empty archive."""
    folder = tmp_path_factory.mktemp("dashboard")
    fill(folder / "store.sqlite")
    more = {"archive": str(folder / "archives"), "jenkins": {"url": jenkins_server.url}}
    with Dashboard(folder, more=more) as running:
        yield running


def asked(dashboard: Dashboard, patch: str) -> requests.Response:
    return requests.get(
        f"{dashboard.url}/compare",
        params={"by": "patch", "patch": patch}, headers={"Accept": "application/json"}, timeout=60,
    )  # fmt: skip


def test_build_is_compared_by_its_name(
    browser: Browser, dashboard: Dashboard, build: JenkinsBuild, report: Any
) -> None:
    [test] = report["tests"]
    change = 100 * (1 - average(test["current"]) / average(test["parent"]))
    with opened(browser, dashboard, "/compare") as page:
        page.get_by_role("link", name="A patch set").click()
        page.get_by_label("Patch set").fill(f"{JOB}/{build.number}")
        page.get_by_role("button", name="Compare").click()

        row = page.locator(".ratios tbody tr")
        expect(row).to_have_count(1)
        expect(row).to_contain_text(test["test"])
        expect(row).to_contain_text(f"▼\N{MINUS SIGN}{change:.1f} %")
        expect(page.locator("main")).to_contain_text(report["patch"][:7])
        save_picture(page, "compare-patch-on-jenkins")


def average(side: Any) -> float:
    return fmean(sample for each in side["rounds"] for sample in each["samples"])


@pytest.mark.parametrize("tail", ["", "console", "artifact/report/index.html"])
def test_build_is_compared_by_any_address_of_it(
    dashboard: Dashboard, build: JenkinsBuild, report: Any, tail: str
) -> None:
    answer = asked(dashboard, f"{build.url}{tail}")

    assert ["", [each["test"] for each in report["tests"]]] == [
        answer.json()["problem"],
        [row["name"] for row in answer.json()["table"]["rows"]],
    ]


@pytest.mark.parametrize("missing", [f"{JOB}/99", "perftrend-perftest-elsewhere/1"])
def test_what_the_server_has_not_is_told(dashboard: Dashboard, missing: str) -> None:
    answer = asked(dashboard, missing)

    assert HTTPStatus.BAD_REQUEST == answer.status_code
    assert re.search(rf"GET \S+/{missing.partition('/')[0]}/\S+: .*404", answer.json()["problem"])

"""The jobs of ``jjb/`` on a real server: created, built, archived, with the right results.

The server has neither the git nor the parameterized-trigger plugin, and drops their elements. The test
does what they would do, from the very elements: it clones the URL of the job's ``scm`` into the
workspace, and starts the project of its ``BuildTrigger`` with the parameters that stand there.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from lxml import etree

from perftrend.clients.jenkins import Jenkins, JenkinsBuild
from perftrend.store import Store
from tests.integration.servers import checkout, hudson
from tests.integration.servers.environment import inherited
from tests.unit.jjb import rendering

ROOT = Path(__file__).parents[2]
TESTBED = "simulated"
TEST = "64b-1c-ethip4-ip4base-mrr"
TRENDING = f"perftrend-trending-nightly-{TESTBED}"
ANALYSIS = f"perftrend-analysis-{TESTBED}"
TAGS = "mrrAND64bAND1cANDethip4-ip4base"
SLOW = {"PERFTREND_DEVICE_OPTIONS": "acl_rules=60"}
PLENTY_S = 600


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a repository with this checkout as it is, what is not committed included."""
    return checkout.make_repository(tmp_path_factory.mktemp("repository"))


class Ci:
    """The jobs of a testbed on the server, and what plugins would do there."""

    def __init__(self, server: hudson.Server, made: Mapping[str, str], folder: Path) -> None:
        self.jenkins = Jenkins(server.url)
        self.folder = folder
        self.made = {name: etree.fromstring(xml.encode()) for name, xml in made.items()}
        for name, xml in made.items():
            server.create_job(name, xml)
        self.workspaces = {name: server.home / "jobs" / name / "workspace" for name in made}
        for name in (TRENDING, ANALYSIS):
            checkout.check_out(self.made[name].findtext("scm//url"), self.workspaces[name])

    def build(self, name: str, **parameters: str) -> JenkinsBuild:
        started = self.jenkins.start(name, parameters)
        return self.jenkins.wait(started, timeout_s=PLENTY_S, poll_s=0.5)

    def downstream(self, build: JenkinsBuild, **more: str) -> JenkinsBuild:
        """Start what the build's job says is to be started after it."""
        (start,) = self.made[build.job].iter("hudson.plugins.parameterizedtrigger.BuildTriggerConfig")
        assert "FAILED_OR_BETTER" == start.findtext("condition")
        variables = {"JOB_NAME": build.job, "BUILD_NUMBER": str(build.number), **build.parameters}
        passed = {
            key: re.sub(r"\$(\w+)", lambda found: variables[found[1]], value)
            for key, value in (line.split("=", 1) for line in start.findtext(".//properties").split())
        }
        return self.build(start.findtext("projects"), **passed, **more)

    def artifact(self, build: JenkinsBuild, path: str) -> bytes:
        (found,) = (artifact for artifact in build.artifacts if re.fullmatch(path, artifact.path))
        with self.jenkins.open(found.url) as chunks:
            return b"".join(chunks)

    def console(self, build: JenkinsBuild) -> list[str]:
        return "".join(self.jenkins.console(build.job, build.number)).splitlines()


@pytest.fixture(scope="module")
def ci(
    jenkins_server: hudson.Server,
    repository: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Ci:
    folder = tmp_path_factory.mktemp("ci")
    (folder / "settings.yaml").write_text("device_options: {jitter: 0}\n")
    project = {
        "name": "test",
        "testbed": TESTBED,
        "jobs": ["perftrend-trend", "perftrend-on-change", "perftrend-verify"],
        "perftrend-git-url": str(repository),
        "store": str(folder / "perftrend.sqlite"),
        "mail-record": str(folder / "mails"),
        "settings": str(folder / "settings.yaml"),
        "testbed-node": "master",
        "analysis-node": "master",
    }
    (folder / "project.yaml").write_text(yaml.safe_dump([{"project": project}]))
    return Ci(jenkins_server, rendering.render([folder / "project.yaml"]), folder)


def test_every_job_is_created_there_with_its_command_and_parameters(
    ci: Ci, jenkins_server: hudson.Server
) -> None:
    assert set(ci.made) <= set(ci.jenkins.jobs())
    for name, made in ci.made.items():
        kept = etree.parse(jenkins_server.home / "jobs" / name / "config.xml")
        for path in ("builders//command", ".//parameterDefinitions/*/name", ".//TimerTrigger/spec"):
            assert {each.text for each in made.findall(path)} == {each.text for each in kept.findall(path)}


def test_slow_down_fails_the_analysis_and_its_end_does_not(ci: Ci) -> None:
    """On simulated packets without noise. One slow run is a single bad one, as soon as the next is back.

    An experiment is judged by itself. What a comment selects is measured as what parameters do.
    """
    store = str(ci.folder / "story.sqlite")
    grow_trend(ci, store)
    comment = encoded(f"trendingtest-{TESTBED} {TAGS}")
    chapters = {
        "slowed": {"PERFTREND_TAGS": TAGS, **SLOW, "PERFTREND_OFFICIAL": "true"},
        "tried": {"PERFTREND_TAGS": TAGS, **SLOW},
        "back": {"GERRIT_EVENT_COMMENT_TEXT": comment},
    }

    story = {name: run_chapter(ci, PERFTREND_STORE=store, **given) for name, given in chapters.items()}

    assert {
        "slowed": ("SUCCESS", "FAILURE", "regression"),
        "tried": ("SUCCESS", "SUCCESS", "normal"),
        "back": ("SUCCESS", "SUCCESS", "normal"),
    } == story


def test_what_the_builds_archived_is_what_they_stored(ci: Ci, jenkins_server: hudson.Server) -> None:
    """A new store is filled from the artifacts on the server, by one command."""
    measured = [build for build in ci.jenkins.builds(TRENDING) if build.artifacts]
    if not measured:
        store = str(ci.folder / "first.sqlite")
        measured = [ci.build(TRENDING, PERFTREND_STORE=store, PERFTREND_TAGS=TAGS)]
    fetched = ci.folder / "fetched.sqlite"
    for _ in range(2):
        ended = subprocess.run(
            [sys.executable, "-m", "perftrend.cli.ingest", f"jenkins+{jenkins_server.url}", "--job", TRENDING,
             "--store", str(fetched), "--cache", str(ci.folder / "cache")],
            cwd=ROOT, env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'resources'}"},
            check=False, capture_output=True, text=True,
        )  # fmt: skip

        assert (0, "") == (ended.returncode, ended.stderr)
    with Store.open(fetched) as copy:
        runs = {run.build: run for run in copy.runs(TESTBED)}
        assert {build.number for build in measured} == set(runs)
        for build in measured:
            with Store.open(build.parameters["PERFTREND_STORE"]) as store:
                (stored,) = (
                    run for run in store.runs(TESTBED) if (run.job, run.build) == (TRENDING, build.number)
                )
                assert store.results(stored) == copy.results(runs[build.number])


def run_chapter(ci: Ci, **parameters: str) -> tuple[str | None, str | None, str]:
    """Measure and judge; return the results of the two builds, and what is reported of the test."""
    measured = ci.build(TRENDING, **parameters)
    judged = ci.downstream(measured)
    report = json.loads(ci.artifact(judged, "report/report.json"))
    (test,) = report["tests"]

    verdict = f"perftrend verdict: {TRENDING}/{measured.number}: "
    assert f"{verdict}1 of 1 results measured" in ci.console(measured)
    assert f"{verdict}1 {test['outcome']} of 1 test" in ci.console(judged)
    assert (TRENDING, measured.number) == (report["run"]["job"], report["run"]["build"])
    output = ci.artifact(measured, f"archives/{TRENDING}/{measured.number}/output.xml")
    assert TEST.encode() in output
    # What earlier builds left in the workspace is no artifact of this one.
    assert {str(measured.number)} == {artifact.path.split("/")[2] for artifact in measured.artifacts}
    return measured.result, judged.result, test["outcome"]


def grow_trend(ci: Ci, store: str) -> None:
    """Measure some runs without Jenkins, by the command that it would start."""
    given = {"JOB_NAME": "history", "PERFTREND_TESTBED": TESTBED, "PERFTREND_STORE": store}
    given |= {"PERFTREND_TAGS": TAGS}
    ended = subprocess.run(
        ["./run", "trending", "--no-analysis", "--repeat", "4", "--settings", ci.folder / "settings.yaml"],
        cwd=ci.workspaces[TRENDING], env=inherited() | given, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert 0 == ended.returncode, ended.stderr


def encoded(comment: str) -> str:
    return base64.b64encode(f"Patch Set 3:\n\n{comment}".encode()).decode()


@pytest.mark.parametrize(
    "parameters",
    [
        {"PERFTREND_TAGS": "$(touch pwned) `touch pwned`; touch pwned"},
        {"PERFTREND_DEVICE_OPTIONS": "acl_rules=1;touch${IFS}pwned"},
        {"GERRIT_EVENT_COMMENT_TEXT": encoded(f"trendingtest-{TESTBED} $(touch pwned)")},
        {"GERRIT_EVENT_COMMENT_TEXT": "$(touch pwned)"},
    ],
    ids=["tags", "options", "comment", "not encoded"],
)
def test_no_shell_expands_what_somebody_typed(ci: Ci, parameters: dict[str, str]) -> None:
    ended = ci.build(TRENDING, **parameters)

    assert "FAILURE" == ended.result
    assert 1 == sum(line.startswith("perftrend: ") for line in ci.console(ended))
    assert not (ci.workspaces[TRENDING] / "pwned").exists()


def test_analysis_of_a_run_that_was_never_stored_fails_by_name(ci: Ci) -> None:
    Store.open(ci.folder / "perftrend.sqlite").close()

    ended = ci.build(ANALYSIS, PERFTREND_ANALYSIS_JOB=TRENDING, PERFTREND_ANALYSIS_BUILD="4711")

    assert "FAILURE" == ended.result
    assert any(line.startswith("perftrend: the store has no run") for line in ci.console(ended))

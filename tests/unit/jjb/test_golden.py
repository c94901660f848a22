"""The XML of each job is that of its golden file."""

from __future__ import annotations

import difflib
import textwrap
from typing import Any

import pytest
import yaml
from lxml import etree

from tests.unit.jjb import rendering

KINDS = ["trending-nightly", "trending-weekly", "analysis", "bisect", "perftest"]
JOBS = [*(f"perftrend-{kind}-2n-clx" for kind in KINDS), "perftrend-verify"]


@pytest.mark.parametrize("name", JOBS)
def test_job_is_as_its_golden_file(name: str, golden: dict[str, str]) -> None:
    expected = (rendering.GOLDEN / f"{name}.xml").read_text(encoding="utf-8")

    difference = difflib.unified_diff(
        expected.splitlines(), golden[name].splitlines(), "golden", "made", lineterm="", n=1
    )

    assert [] == list(difference), "if that is meant: .venv/bin/python tests/unit/jjb/rendering.py"


def test_every_golden_project_makes_its_job(golden: dict[str, str]) -> None:
    assert sorted(JOBS) == sorted(golden)
    assert sorted(JOBS) == sorted(file.stem for file in rendering.GOLDEN.glob("*.yaml"))


def test_new_testbed_is_three_lines(golden: dict[str, str], tmp_path: Any) -> None:
    project = tmp_path / "team.yaml"
    lines = ["name: perftrend-2n-clx", "testbed: 2n-clx", "jobs: [perftrend-trend, perftrend-on-change]"]
    project.write_text("- project:\n" + "".join(f"    {line}\n" for line in lines))

    made = rendering.render([project])

    assert sorted(f"perftrend-{kind}-2n-clx" for kind in KINDS) == sorted(made)
    assert made["perftrend-bisect-2n-clx"] == golden["perftrend-bisect-2n-clx"]


def test_trending_alone_is_as_documented(tmp_path: Any) -> None:
    """In four steps; the lines to copy make the jobs of a trend, without a credential of Gerrit."""
    page = (rendering.CHECKOUT / "docs" / "jenkins.rst").read_text(encoding="utf-8")
    section = page.partition("Trending alone, one agent\n---")[2].partition("\nEverything\n---")[0]
    lines = section.partition("(``perftrend-git-url``)::\n")[2].partition("Then create")[0]
    (tmp_path / "team.yaml").write_text(textwrap.dedent(lines))

    made = rendering.render([tmp_path / "team.yaml"])

    assert 4 == section.count("\n#. ")
    kinds = ("analysis", "trending-nightly", "trending-weekly")
    assert [f"perftrend-{kind}-1n-veth" for kind in kinds] == sorted(made)
    assert not any("credentialsbinding" in xml for xml in made.values())


def test_project_says_otherwise_than_the_defaults(tmp_path: Any) -> None:
    project = tmp_path / "team.yaml"
    project.write_text(
        "- project:\n    name: one\n    testbed: 1n-loopback\n    jobs: [perftrend-analysis]\n"
        "    perftrend-git-url: file:///srv/perftrend\n    store: postgresql://db.example.org/perftrend\n"
        "    recipients: team@example.org\n    analysis-node: elsewhere\n"
    )

    job = etree.fromstring(rendering.render([project])["perftrend-analysis-1n-loopback"].encode())

    assert "file:///srv/perftrend" == job.findtext("scm//url")
    assert "elsewhere" == job.findtext("assignedNode")
    assert {"team@example.org"} == {element.text for element in job.iter("recipientList")}
    (store,) = (entry for entry in job.iter() if entry.findtext("name") == "PERFTREND_STORE")
    assert "postgresql://db.example.org/perftrend" == store.findtext("defaultValue")


def test_testbeds_of_the_checkout_have_all_their_jobs() -> None:
    projects = [entry["project"] for entry in yaml.safe_load(rendering.PROJECTS.read_text())]
    testbeds = [project["testbed"] for project in projects if "testbed" in project]

    made = rendering.render([rendering.PROJECTS])

    expected = {f"perftrend-{kind}-{testbed}" for kind in KINDS for testbed in testbeds}
    assert {*expected, "perftrend-verify"} == set(made)

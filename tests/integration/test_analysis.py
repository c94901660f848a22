"""The analysis job in a process of its own, on what the suites measured with simulated devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.servers.environment import inherited

ROOT = Path(__file__).parents[2]
BASE, ACL20, ACL60, BRIDGE = (
    f"64b-1c-{name}-mrr"
    for name in ("ethip4-ip4base", "ethip4-ip4base-acl20", "ethip4-ip4base-acl60", "eth-l2bdbasemaclrn")
)


def job(folder: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = inherited()
    return subprocess.run(
        [sys.executable, "-P", "-m", f"jobs.{name}", "--testbed", "simulated", *arguments],
        cwd=folder,
        env=kept | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "resources")))},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def slowed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with eight like runs of the suites, and one behind 60 rules."""
    folder = tmp_path_factory.mktemp("slowed")
    measured = (
        "--tags",
        "mrrAND64bAND1cAND*base*NOTdot1q*NOT*xc*",
        "--trial-multiplicity",
        "2",
        "--no-analysis",
        "--official",
    )
    job(folder, "trending", *measured, "--repeat", "8")
    job(folder, "trending", *measured, "--device-option", "acl_rules=60")
    return folder


def analysed(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    ended = job(folder, "analysis", "--json", "-", *arguments)
    assert "" == ended.stderr
    return ended.returncode, json.loads(ended.stdout)


def outcomes(document: dict[str, Any]) -> dict[str, str]:
    return {test["parameters"]["test"]: test["outcome"] for test in document["tests"]}


def test_tags_of_the_suites_choose_what_is_watched_and_how(slowed: Path) -> None:
    (slowed / "watched.yaml").write_text(
        "tests:\n"
        "  - {tags: mrrAND64bAND1cANDethip4-ip4base, minimum_change: 0.9, owners: ip4}\n"
        "  - {tags: [ethip4-ip4base-acl20, ethip4-ip4base-acl60], mail: acl@example.org}\n"
    )

    code, document = analysed(slowed, "--specification", "watched.yaml")

    assert 1 == code
    assert {BASE: "normal", ACL20: "regression", ACL60: "normal"} == outcomes(document)
    watched = {test["parameters"]["test"]: (test["owners"], test["mail"]) for test in document["tests"]}
    assert {
        BASE: (["ip4"], []),
        ACL20: ([], ["acl@example.org"]),
        ACL60: ([], ["acl@example.org"]),
    } == watched


def test_the_day_before_the_slow_down_nothing_was_known_of_it(slowed: Path) -> None:
    code, newest = analysed(slowed)
    before = newest["runs"][-2]["finished"]

    code_before, earlier = analysed(slowed, "--as-of", before)

    assert (1, 0) == (code, code_before)
    assert (9, 8) == (newest["run"]["build"], earlier["run"]["build"])
    assert dict.fromkeys((BASE, ACL20, ACL60, BRIDGE), "normal") == outcomes(earlier)


@pytest.mark.parametrize("options", [(), ("--outliers",), ("--formula", "jumpavg-0.1")])
def test_change_carries_where_it_lies_and_how_sure_it_is(slowed: Path, options: tuple[str, ...]) -> None:
    _, document = analysed(slowed, *options)

    (test,) = [test for test in document["tests"] if test["parameters"]["test"] == BASE]
    (change,) = test["changes"]
    assert (8, "regression", 7, 8) == tuple(
        change[name] for name in ("position", "direction", "last_before", "first_after")
    )
    assert change["confidence"] > 0.99


def test_wrong_specification_is_one_line_and_exit_code_2(slowed: Path) -> None:
    (slowed / "wrong.yaml").write_text("tests: [{thresholds: 1}]\n")

    ended = job(slowed, "analysis", "--specification", "wrong.yaml")

    assert (2, "") == (ended.returncode, ended.stdout)
    assert ended.stderr.startswith(
        "perftrend: specification wrong.yaml: no key is named 'tests.1.thresholds'"
    )
    assert 1 == ended.stderr.count("\n")

"""The perftest job reports its verdict on a change in a real Gerrit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perftrend.clients.gerrit import Comment
from perftrend.measure import specification
from perftrend.measure.testbed import Testbed
from tests.integration.servers.environment import inherited
from tests.integration.servers.gerrit import Pushed, Server, User, git
from tests.integration.servers.review import Project
from tests.products import router
from tests.products.printed import SCRIPT, scattered

ROOT = Path(__file__).parents[2]
JOB, COMMAND_JOB = "perftrend-perftest-1n-veth", "perftrend-perftest-command"
FAST, SLOW = (scattered(level, seed="1", spread=0.001, count=5) for level in (100, 90))
BUILD = "import sys\nprint('router.c:4: error: no member next_hop')\nsys.exit({code})\n"
FORWARDING = "64b-1c-ethip4-ip4base-mrr"
SHORT = {
    "PERFTREND_TRIAL_DURATION_S": "0.1",
    "PERFTREND_TRIAL_MULTIPLICITY": "4",
    "PERFTREND_TRIAL_STARTS": "2",
}


@dataclass(frozen=True)
class Measured(Project):
    """A project of Gerrit's, and the job beside it."""

    robot: User
    folder: Path
    """Where the job works."""
    settings: str

    def run(self, change: Pushed, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the job as a person does, and tell it what its environment has to."""
        (self.folder / "settings.yaml").write_text(self.settings)
        kept = inherited()
        gerrit = {
            "PERFTREND_GERRIT_URL": self.server.url,
            "PERFTREND_GERRIT_USER": self.robot.name,
            "PERFTREND_GERRIT_TOKEN": self.robot.password,
        }
        command = [sys.executable, "-P", "-m", "perftrend.cli.perftest", "--settings", "settings.yaml"]
        return subprocess.run(
            [*command, "--change", str(change.number), *arguments],
            cwd=self.folder, env=kept | SHORT | gerrit | {"PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def verdicts(self, change: Pushed) -> list[Comment]:
        """Return what the job said under the change, the oldest first."""
        return self.said(change, COMMAND_JOB if "profile: command" in self.settings else JOB)

    def report(self) -> Any:
        return json.loads((self.folder / "report" / "perftest.json").read_text())


@pytest.fixture(scope="module")
def robot(gerrit_server: Server) -> User:
    return gerrit_server.create_user("perftest-robot", ["Service Users"])


@pytest.fixture
def project(gerrit_server: Server, robot: User, tmp_path: Path) -> Callable[[str, str], Measured]:
    """Give a function that makes a project by its name and the settings of its product."""

    def make(name: str, settings: str) -> Measured:
        folder = tmp_path / "work"
        folder.mkdir()
        return Measured.create(
            gerrit_server, f"{name}-{tmp_path.name}", tmp_path / "clone", robot,
            robot=robot, folder=folder, settings=settings,
        )  # fmt: skip

    return make


# ---- a product with a command: what Gerrit is told


@pytest.fixture
def parser(project: Callable[[str, str], Measured]) -> Measured:
    made = project(
        "team/parser",
        "project:\n  profile: command\n  parameters:\n    build: '{python} build.py'\n"
        "    measure: sh measure.sh\n    unit: ops\n"
        "perftest: {maximum_rounds: 10}\n",
    )
    made.start({SCRIPT: FAST, "build.py": BUILD.format(code=0)})
    return made


def test_patch_sets_get_their_verdicts_one_after_the_other(parser: Measured) -> None:
    slower = parser.push({SCRIPT: SLOW})
    first = parser.run(slower)

    assert (1, -1) == (first.returncode, parser.vote(slower)), first.stderr
    assert "Performance-1\n\nThe only test is slower by " in parser.verdicts(slower)[-1].text

    repaired = parser.push({SCRIPT: FAST + "# repaired\n"}, slower)
    second = parser.run(repaired)

    assert (0, 1) == (second.returncode, parser.vote(repaired)), second.stderr
    assert "The only test shows no difference of 1 % or more." in parser.verdicts(repaired)[-1].text
    assert [1, 2] == [each.patch_set for each in parser.verdicts(repaired)]

    broken = parser.push({"build.py": BUILD.format(code=2)}, repaired)
    third = parser.run(broken)

    assert (2, -1) == (third.returncode, parser.vote(broken)), third.stderr
    text = parser.verdicts(broken)[-1].text
    assert "The patch does not build: " in text
    assert "\n    router.c:4: error: no member next_hop\n" in text


def test_same_build_started_again_adds_no_message(parser: Measured) -> None:
    change = parser.push({SCRIPT: SLOW})

    ended = [parser.run(change).returncode, parser.run(change, "--resume").returncode]

    assert [1, 1] == ended
    assert 1 == len(parser.verdicts(change))


def test_patch_that_changes_only_words_is_as_fast(parser: Measured) -> None:
    change = parser.push({"README": "words\n"})

    assert 0 == parser.run(change).returncode
    assert 1 == parser.vote(change)
    assert git("-C", str(parser.clone), "rev-parse", "HEAD^").strip() == parser.report()["parent"]


# ---- the embedded router, by packets


@pytest.mark.measure
@pytest.mark.slow
def test_change_that_slows_the_router_is_told_and_its_repair_too(
    project: Callable[[str, str], Measured], require: Callable[[object, str], None]
) -> None:
    """A threshold of 15 %: what is shown is a change of half, and not how quiet this machine is."""
    reason = Testbed(specification.load("1n-veth")).unusable()
    require(not reason, reason)
    product = project(
        "router",
        "project: {profile: embedded-router}\ntestbed: 1n-veth\n"
        "tags: [mrrAND64bAND1cANDethip4-ip4base]\nperftest: {threshold: 0.15}\n",
    )
    product.start({router._FILE: router._MAIN.format(rules=0)})

    slower = product.push({router._FILE: router._MAIN.format(rules=40)})
    first = product.run(slower)

    assert (1, -1) == (first.returncode, product.vote(slower)), first.stdout + first.stderr
    said = product.verdicts(slower)[-1].text
    assert "The only test is slower by " in said
    [row] = [line.split() for line in said.splitlines() if line.startswith(f"    {FORWARDING}")]
    assert "slower" == row[-1]
    assert float(row[1]) > 1.2 * float(row[2])
    assert "Test result classification: regression" in first.stdout

    repaired = product.push({"NOTES": "repaired\n"}, slower)
    second = product.run(repaired)

    assert (0, 1) == (second.returncode, product.vote(repaired)), second.stdout + second.stderr
    assert "The only test shows no difference of 15 % or more." in product.verdicts(repaired)[-1].text

"""The perftest job that Jenkins's Gerrit Trigger starts, on a real Gerrit: who may, and how much."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from perftrend.store import Store
from perftrend.store.requests import Request, RequestState
from tests.integration.servers import postgresql
from tests.integration.servers.environment import inherited
from tests.integration.servers.gerrit import Pushed, Server, User
from tests.integration.servers.review import Project
from tests.products.printed import SCRIPT, scattered

ROOT = Path(__file__).parents[2]
LINE = "perftest-simulated"
GROUP = "Those who may measure"
ONLY_MEMBERS = f'"{LINE}" starts nothing: only members of {GROUP} may start jobs here.'
NOT_APPROVED = f"a member of {GROUP} has to comment 'ok to test' on patch set {{}} first"


@dataclass(frozen=True)
class GerritTrigger(Project):
    """A project of Gerrit's, and the job that Jenkins's plugin starts for its comments."""

    robot: User
    folder: Path

    def comment(self, change: Pushed, user: User, text: str) -> None:
        self.server.comment(change, user, text)

    def start_job(self, change: Pushed, text: str = LINE, **variables: str) -> str:
        """Start the job as the plugin does for a comment; return why it starts nothing, or an empty text."""
        told = {
            "GERRIT_EVENT_COMMENT_TEXT": base64.b64encode(f"Patch Set 1:\n\n{text}".encode()).decode(),
            "GERRIT_CHANGE_NUMBER": str(change.number),
            "GERRIT_PATCHSET_NUMBER": str(change.patch_set),
            "GERRIT_PATCHSET_REVISION": change.revision,
            "GERRIT_EVENT_HASH": "-1234567",
            "GERRIT_EVENT_ACCOUNT_EMAIL": "admission-member@example.org",
            "GERRIT_EVENT_ACCOUNT_NAME": "Admission-Member Example",
            "PERFTREND_GERRIT_TOKEN": self.robot.password,
        }
        package = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'resources'}"}
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "perftrend.cli.perftest", "--settings", "settings.yaml"],
            cwd=self.folder, env=inherited() | told | variables | package,
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert "Traceback" not in ended.stderr
        if "starts nothing" in ended.stderr:
            assert (2, False) == (ended.returncode, "building" in ended.stderr)
            return ended.stderr.strip().splitlines()[-1].removeprefix("perftrend: ")
        assert 0 == ended.returncode, ended.stderr
        return ""

    def settings(self) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load((self.folder / "settings.yaml").read_text())
        return found

    def configure(self, *, store: str | None = None, **gerrit: object) -> None:
        settings = self.settings()
        settings["gerrit"] |= gerrit
        settings["store"] = store or settings["store"]
        (self.folder / "settings.yaml").write_text(yaml.safe_dump(settings))

    def requests(self) -> list[Request]:
        with Store.open(self.settings()["store"]) as store:
            return store.requests.in_states(*RequestState)


@pytest.fixture(scope="module")
def member(gerrit_server: Server) -> User:
    user = gerrit_server.create_user("admission-member")
    gerrit_server.create_group(GROUP, [user.name])
    return user


@pytest.fixture(scope="module")
def owner(gerrit_server: Server) -> User:
    return gerrit_server.create_user("admission-owner")


@pytest.fixture(scope="module")
def stranger(gerrit_server: Server) -> User:
    return gerrit_server.create_user("admission-stranger")


@pytest.fixture(scope="module")
def robot(gerrit_server: Server) -> User:
    return gerrit_server.create_user("admission-robot", ["Service Users"])


@pytest.fixture
def jenkins(gerrit_server: Server, robot: User, tmp_path: Path) -> GerritTrigger:
    folder = tmp_path / "work"
    folder.mkdir()
    store = str(tmp_path / "store.sqlite")
    Store.open(store).close()
    made = GerritTrigger.create(
        gerrit_server, f"admitted-{tmp_path.name}", tmp_path / "clone", robot, robot=robot, folder=folder
    )
    made.start({SCRIPT: scattered(100, seed="1", spread=0.001, count=5), "build.py": "print()\n"})
    settings = {
        "testbed": "simulated",
        "store": store,
        "gerrit": {"url": gerrit_server.url, "user": robot.name, "groups": [GROUP], "notify": "none"},
        "project": {
            "profile": "command",
            "parameters": {"build": "{python} build.py", "measure": "sh measure.sh", "unit": "ops"},
        },
        "perftest": {"maximum_rounds": 6},
    }
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings))
    return made


@pytest.fixture
def change(jenkins: GerritTrigger, gerrit_server: Server, owner: User, tmp_path: Path) -> Pushed:
    clone = gerrit_server.clone(jenkins.name, tmp_path / "owner's clone", owner)
    return gerrit_server.push(clone, {"NOTES": "faster\n"}, "Make it faster")


def test_member_starts_a_job_that_is_entered(jenkins: GerritTrigger, change: Pushed, member: User) -> None:
    jenkins.comment(change, member, LINE)

    assert "" == jenkins.start_job(change)

    [entered] = jenkins.requests()
    assert (RequestState.ENDED, change.number, LINE) == (entered.state, entered.change, entered.line)
    assert [1] == [each.patch_set for each in jenkins.said(change, "perftrend-perftest-simulated")]


def test_variables_of_the_build_do_not_make_a_stranger_a_member(
    jenkins: GerritTrigger, change: Pushed, stranger: User
) -> None:
    jenkins.comment(change, stranger, LINE)

    assert ONLY_MEMBERS == jenkins.start_job(change)

    [posted] = jenkins.said(change, "perftrend-perftest-simulated")
    assert ONLY_MEMBERS in posted.text
    assert ["refused"] == [each.state for each in jenkins.requests()]
    assert not (jenkins.folder / "archives").exists()


def test_owner_needs_an_ok_to_test_of_a_member_on_each_patch_set(  # noqa: PLR0917 - fixtures
    jenkins: GerritTrigger, gerrit_server: Server, change: Pushed, owner: User, member: User, stranger: User
) -> None:  # fmt: skip
    jenkins.comment(change, stranger, "ok to test")
    jenkins.comment(change, owner, "ok to test")
    jenkins.comment(change, owner, LINE)
    assert NOT_APPROVED.format(1) in jenkins.start_job(change)

    jenkins.comment(change, member, "ok to test")
    jenkins.comment(change, owner, LINE)
    assert "" == jenkins.start_job(change)

    second = gerrit_server.push(change.folder, {"NOTES": "slower\n"}, "Make it faster", again=change)
    jenkins.comment(second, owner, LINE)
    assert (2, True) == (second.patch_set, NOT_APPROVED.format(2) in jenkins.start_job(second))


def test_copy_of_a_members_comment_starts_nothing_more(
    jenkins: GerritTrigger, change: Pushed, member: User, stranger: User
) -> None:
    jenkins.comment(change, member, LINE)
    jenkins.comment(change, stranger, LINE)

    assert "" == jenkins.start_job(change)
    assert ONLY_MEMBERS == jenkins.start_job(change)


def test_jobs_that_start_at_once_on_two_changes_do_not_both_get_what_is_left(
    jenkins: GerritTrigger,
    gerrit_server: Server,
    postgresql_server: postgresql.Server,
    change: Pushed,
    member: User,
) -> None:
    jenkins.configure(store=postgresql_server.database(), jobs_per_day=1)
    other = gerrit_server.push(change.folder, {"OTHER": "x\n"}, "Another one")
    for each in (change, other):
        jenkins.comment(each, member, LINE)

    def start(on: Pushed) -> str:
        # A name of its own gives the job a folder of its own in the archive.
        return jenkins.start_job(on, JOB_NAME=f"job-{on.number}")

    with ThreadPoolExecutor(2) as pool:
        outcomes = sorted(pool.map(start, (change, other)))

    assert ("", True) == (outcomes[0], "1 job of yours started in the last 24 hours" in outcomes[1])
    assert ["ended", "refused"] == sorted(each.state for each in jenkins.requests())


def test_job_that_settings_without_groups_start_is_refused(
    jenkins: GerritTrigger, change: Pushed, member: User
) -> None:
    jenkins.configure(groups=[])
    jenkins.comment(change, member, LINE)

    with pytest.raises(AssertionError, match=r"gerrit\.groups is not set, so no comment may start a job"):
        jenkins.start_job(change)

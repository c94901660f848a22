"""What Gerrit's answers say about the rights of the user, and hostile answers."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import pytest

from perftrend.clients.gerrit import LabelRights
from perftrend.doctor import servers as doctor
from perftrend.doctor.check_results import CheckResult, Severity, as_lines
from perftrend.settings import GerritSettings, Settings
from tests.doubles import gerrit
from tests.doubles.gerrit import GerritDouble

SECRET = "sesame"  # noqa: S105 - of nothing
OWN = GerritSettings(url="https://review.example.org", user="robot", token=SECRET)


@pytest.fixture
def double() -> Iterator[GerritDouble]:
    with gerrit.running() as running:
        yield running


def check(**settings: object) -> dict[str, CheckResult]:
    found = doctor.check_gerrit(Settings.model_validate({"gerrit": settings}))
    return {each.what: each for each in found}


def test_gerrit_without_an_address_is_not_checked() -> None:
    assert [Severity.NOT_CHECKED] == [each.severity for each in check().values()]


def test_both_votes_are_needed() -> None:
    rights = LabelRights("vpp", 7, ("Code-Review", "Performance"), (-1, 0, 1))

    assert Severity.OK is doctor.judge_label(rights, OWN).severity
    for votes in ((), (0,), (0, 1), (-1, 0)):
        found = doctor.judge_label(LabelRights("vpp", 7, ("Performance",), votes), OWN)
        assert Severity.WARNING is found.severity
        assert "/a/projects/vpp/access" in found.fix


def test_missing_label_has_a_command_that_creates_it() -> None:
    found = doctor.judge_label(LabelRights("team/vpp", 7, ("Code-Review",), ()), OWN)

    words = shlex.split(found.fix)
    assert "https://review.example.org/a/projects/team%2Fvpp/labels/Performance" == words[-1]
    assert "NoBlock" == json.loads(words[words.index("--data") + 1])["function"]


def test_name_of_a_hostile_project_runs_no_command_and_controls_no_terminal() -> None:
    rights = LabelRights("x'; rm -rf ~; '\x1b[2J", 7, (), ())

    found = doctor.judge_label(rights, OWN)

    assert "\x1b" not in "".join(as_lines([found], 100))
    assert "rm" not in shlex.split(found.fix)
    assert shlex.split(found.fix)[-1].startswith("https://review.example.org/a/projects/")


def test_user_without_a_token_is_a_fault() -> None:
    found = check(url="http://127.0.0.1:9", user="robot")["login"]

    assert (Severity.FAULT, True) == (found.severity, "PERFTREND_GERRIT_TOKEN_FILE" in found.fix)


def test_server_that_is_not_there_is_a_fault_and_nothing_else_is_tried() -> None:
    found = check(url="http://127.0.0.1:9", user="robot", token=SECRET)

    assert {"login"} == set(found)
    assert Severity.FAULT is found["login"].severity
    assert SECRET not in found["login"].text + found["login"].fix


def test_requests_only_read(double: GerritDouble) -> None:
    check(url=double.url)

    assert [] == double.posted

"""Results are listed worst last, and their texts cannot control a terminal."""

from __future__ import annotations

import pytest

from perftrend.doctor.check_results import Area, CheckResult, Severity, as_lines, as_table, exit_code, summary

OK = Area.MACHINE.ok("load", "quiet")
NOT_CHECKED = Area.GERRIT.not_checked("connection", "no address")
WARNING = Area.FILES.warning("disk", "little space", "rm x")
FAULT = Area.STORE.fault("version", "too new", "git pull")


def test_worst_findings_are_the_last() -> None:
    assert [
        "ok           machine load       quiet",
        "not checked  gerrit connection  no address",
        "warning      files disk         little space",
        "                                fix: rm x",
        "fault        store version      too new",
        "                                fix: git pull",
    ] == as_lines([FAULT, OK, WARNING, NOT_CHECKED], 100)


def test_long_text_continues_in_its_column_and_a_fix_is_not_broken() -> None:
    result = Area.STORE.fault("rights", "word " * 12, "command " * 12)

    assert [
        "fault  store rights  word word word word word word word word",
        "                     word word word word",
        f"                     fix: {('command ' * 12).strip()}",
    ] == as_lines([result], 60)


def test_no_findings_are_no_lines() -> None:
    assert [] == as_lines([], 80)
    assert 0 == exit_code([])


@pytest.mark.parametrize(
    ("area", "code"),
    [
        (Area.MACHINE, 4), (Area.TESTBED, 4), (Area.FILES, 2), (Area.STORE, 3), (Area.GERRIT, 3),
        (Area.JENKINS, 3),
    ],
)  # fmt: skip
def test_fault_has_the_exit_code_of_its_area(area: Area, code: int) -> None:
    assert code == exit_code([OK, area.fault("x", "", "")])


def test_highest_exit_code_counts_and_a_warning_does_not() -> None:
    assert 0 == exit_code([OK, WARNING, NOT_CHECKED, Area.TESTBED.warning("x", "", "")])
    assert 3 == exit_code([Area.FILES.fault("x", "", ""), FAULT])


def test_summary_counts_each_severity() -> None:
    assert "2 faults, 1 warning, 1 ok, 1 not checked" == summary([FAULT, FAULT, WARNING, OK, NOT_CHECKED])
    assert "no fault, 1 ok" == summary([OK])


def test_text_of_a_server_cannot_control_the_terminal() -> None:
    hostile = "a\x1b[2Jb\r\nc\u202ed\x9b31m" + "x" * 5000

    result = Area.JENKINS.fault("jobs", hostile, hostile)

    assert result.text.isprintable()
    assert result.fix.isprintable()
    assert [400, 4000] == [len(result.text), len(result.fix)]
    assert "\x1b" not in "".join(as_lines([result], 100))


def test_finding_is_a_table_of_texts() -> None:
    expected = {"area": "files", "what": "disk", "severity": "warning", "text": "little space", "fix": "rm x"}

    assert expected == as_table(WARNING)
    assert "not checked" == Severity.NOT_CHECKED.label
    assert CheckResult(Area.FILES, "disk", Severity.WARNING, "little space", "rm x") == WARNING

"""The job that runs the checks, with stages that stand for the real ones."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs import tests
from jobs.tests import Stage

Stages = Callable[..., None]


@pytest.fixture
def stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stages:
    """Give a function that replaces the commands of stages by shell scripts; the others do nothing."""
    monkeypatch.setattr(tests, "LOGS", tmp_path / "logs")
    monkeypatch.delenv("CI", raising=False)
    programs = tmp_path / "bin"
    programs.mkdir()
    environment = tests.clean_environment
    monkeypatch.setattr(
        tests, "clean_environment", lambda given: {**environment(given), "PATH": f"{programs}:/usr/bin:/bin"}
    )

    def replace(**scripts: str) -> None:
        for name, stage in tests.STAGES.items():
            program = "pytest" if stage.uses_pytest else "check"
            script = scripts.get(name, "true")
            monkeypatch.setitem(tests.STAGES, name, Stage(name, stage.what, shlex.join([program, script])))
        for program in ("pytest", "check"):
            (programs / program).write_text('#!/bin/sh\nscript=$1; shift; eval "$script"\n')
            (programs / program).chmod(0o755)

    replace()
    return replace


def test_all_stages_but_measure_run_and_pass(stages: Stages, capsys: pytest.CaptureFixture[str]) -> None:
    stages(measure="false")

    assert 0 == tests.main([])

    out = capsys.readouterr().out
    assert ["docs", "packets", "servers", "static", "unit"] == sorted(
        line.split()[1].rstrip(":") for line in out.splitlines() if ": started (" in line
    )
    assert "perftrend: all checks passed after 0 s" == out.splitlines()[-1]


def test_stage_that_fails_is_shown_whole_and_stops_no_other(
    stages: Stages, capsys: pytest.CaptureFixture[str]
) -> None:
    stages(docs="echo a broken link; false", packets="echo '= 3 passed in 1s ='")

    assert 1 == tests.main([])

    out = capsys.readouterr().out
    assert "perftrend: docs: FAILED after 0 s\na broken link\n" in out
    assert "= 3 passed in 1s =" in out
    assert out.splitlines()[-1].startswith("perftrend: failed: docs after ")


def test_passed_stage_shows_its_summary_alone(stages: Stages, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["....", "=== short test summary ===", "SKIPPED: needs a moon", "=== 4 passed, 1 skipped ==="]
    stages(unit="; ".join(f"echo '{line}'" for line in lines))

    assert 0 == tests.main([])

    assert "\n".join(lines[1:]) in capsys.readouterr().out
    assert "\n".join(lines) in (tests.LOGS / "unit.log").read_text()


def test_tests_that_were_not_run_are_counted(stages: Stages, capsys: pytest.CaptureFixture[str]) -> None:
    stages(packets="echo '== 4 passed, 2 not run in 1s =='", servers="echo '== 4 passed, 1 not run in 1s =='")

    assert 0 == tests.main([])

    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith("; 3 tests were not run because the cores were not quiet")


def test_progress_is_printed_while_a_stage_runs(
    stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stage ends as soon as its progress has been read."""
    monkeypatch.setattr(tests, "PROGRESS_S", 0.01)
    read, lines = tmp_path / "read", list[str]()
    stages(unit=f"echo '... [ 45%]'; until test -e {read}; do sleep 0.01; done")

    def report(text: str) -> None:
        lines.append(text)
        if "unit: running for 0 s, 45 %" in text:
            read.touch()

    monkeypatch.setattr(tests, "report", report)

    assert 0 == tests.main([])
    assert any(line.startswith("unit: running for ") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--quick"], [["static", "unit"]]),
        (["--measure"], [["measure"]]),
        (["packets", "docs", "static"], [["static", "docs"], ["packets"]]),
        (["measure", "unit"], [["unit"], ["measure"]]),
        ([], [["static", "docs", "unit"], ["servers"], ["packets"]]),
    ],
)
def test_stages_are_chosen_by_name_or_option(arguments: list[str], names: list[list[str]]) -> None:
    chosen = tests.choose_groups(tests.parser().parse_args(arguments))

    assert names == [list(group) for group in chosen]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["unti"], "perftrend: no stage is named 'unti'; did you mean 'unit'?"),
        (["--quick", "--measure"], "choose one of --quick, --measure and names of stages"),
        (["--quick", "docs"], "choose one of --quick, --measure and names of stages"),
        (
            ["static", "--", "-k", "x"],
            "arguments after -- go to pytest: name stages that run it, such as unit",
        ),
        (["--odd"], "unrecognized arguments: --odd"),
    ],
)
def test_bad_use_is_refused(
    stages: Stages, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        tests.main(arguments)

    assert 2 == ended.value.code
    assert message in capsys.readouterr().err


def test_single_stage_runs_in_the_terminal_with_arguments_for_pytest(
    stages: Stages, capfd: pytest.CaptureFixture[str]
) -> None:
    stages(unit='echo "$@"; exit 5')

    assert 1 == tests.main(["--thorough", "unit", "--", "-k", "two words"])
    assert "-k two words --thorough\n" == capfd.readouterr().out


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_missing_program_is_skipped_for_a_person_and_fails_in_ci(
    stages: Stages, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], ci: str, code: int
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setitem(tests.STAGES, "static", Stage("static", "", "shelcheck run", "check true"))

    assert code == tests.main(["static"])
    assert "shelcheck is not installed: skipped\n" == capfd.readouterr().err


def test_settings_of_jobs_do_not_reach_the_tests() -> None:
    given = {"PATH": "/bin", "HOME": "/root", "CI": "true"}
    foreign = ("PERFTREND_STORE", "JOB_NAME", "BUILD_NUMBER", "GERRIT_HOST", "PYTHONDONTWRITEBYTECODE")

    found = tests.clean_environment(given | dict.fromkeys(foreign, "1"))

    # A variable that began as settings do would end every job that a test starts.
    assert {"PATH", "HOME", "CI"} == found.keys()
    assert found["PATH"].endswith(":/bin")

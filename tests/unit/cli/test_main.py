"""The program ``perftrend``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perftrend import __version__, command_to_install
from perftrend.cli import __main__ as program
from perftrend.errors import EXIT_PASS, EXIT_USAGE

CHECKOUT = Path(__file__).resolve().parents[3]


def test_it_has_the_jobs_of_a_checkout_but_its_tests() -> None:
    stubs = {file.stem.replace("_", "-") for file in (CHECKOUT / "jobs").glob("[a-z]*.py")}

    assert stubs - {"tests"} == set(program.JOBS)


def test_usage_lists_the_jobs_as_the_script_of_a_checkout_does(capsys: pytest.CaptureFixture[str]) -> None:
    script = subprocess.run([CHECKOUT / "run", "help"], capture_output=True, text=True, check=True).stdout

    assert program.main([]) == EXIT_PASS

    listed = [line for line in script.partition("Jobs:\n")[2].splitlines() if line.split()[0] != "tests"]
    assert capsys.readouterr().out.partition("Jobs:\n")[2].splitlines() == listed


@pytest.mark.parametrize("words", [["help", "rebuild-tiles"], ["rebuild-tiles", "--help"]])
def test_help_of_a_job_is_shown(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        program.main(words)

    assert capsys.readouterr().out.startswith("usage: ./run rebuild-tiles")


@pytest.mark.parametrize(("former", "job"), [("bisection", "bisect"), ("tiles", "rebuild-tiles")])
def test_former_name_of_a_job_is_accepted(former: str, job: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        program.main([former, "--help"])

    shown = capsys.readouterr().out
    script = subprocess.run(
        [CHECKOUT / "run", former, "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert shown.split() == script.split()
    assert shown.startswith(f"usage: ./run {job} ")


def test_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--version"]) == EXIT_PASS
    assert capsys.readouterr().out == f"perftrend {__version__}\n"


def test_unknown_job_is_rejected_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["trendin"]) == EXIT_USAGE
    assert "no job is named 'trendin'; did you mean 'trending'?" in capsys.readouterr().err


def test_optional_part_is_never_installed_by_a_name_that_is_not_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert command_to_install("s3", "s3fs") == "./run --with s3"

    monkeypatch.setattr("perftrend.COMMAND", "perftrend")

    assert command_to_install("s3", "s3fs") == f"{sys.executable} -m pip install 's3fs'"

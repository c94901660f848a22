"""./run doctor prints what it found, and its exit code is that of the worst fault."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from perftrend.cli import doctor


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("PERFTREND_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, testbed: Sequence[str] = ("--testbed", "simulated")) -> int:
    return doctor.main([*testbed, *arguments])


def test_new_machine_without_servers_has_no_fault(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == run()

    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("not checked  gerrit connection") for line in lines)
    assert any(line.startswith("not checked  jenkins connection") for line in lines)
    assert lines[-1].startswith("perftrend verdict: no fault")
    assert [] == list(folder.iterdir())


def test_fault_has_its_exit_code_and_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert 3 == run("--gerrit", "http://127.0.0.1:9", "--jenkins", "http://127.0.0.1:9")

    out = capsys.readouterr().out
    assert "fix: curl -sSI http://127.0.0.1:9/config/server/version" in out
    assert out.splitlines()[-1].startswith("perftrend verdict: 2 faults")


def test_fault_of_the_testbed_is_the_worst(capsys: pytest.CaptureFixture[str]) -> None:
    assert 4 == run("--jenkins", "http://127.0.0.1:9", testbed=["--testbed", "nothing"])
    assert "testbed 'nothing' is unknown" in " ".join(capsys.readouterr().out.split())


def test_findings_are_json_on_request(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == run("--json", "-")
    shown = json.loads(capsys.readouterr().out)
    assert 0 == run("--json", "checks.json")

    assert shown["exit_code"] == 0
    assert {"area", "what", "severity", "text", "fix"} == set(shown["checks"][0])
    assert len(shown["checks"]) == len(json.loads((folder / "checks.json").read_text())["checks"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--jenkins", "ftp://x"], "jenkins.url is 'ftp://x'; it should be a URL"),
        (["--gerrit", "http://me:sesame@x"], "gerrit.url is 'http://…@x'"),
        (["--settings", "none.yaml"], "settings file none.yaml: No such file"),
        (["--json", "no/such/folder/x.json"], "no/such/folder"),
    ],
)
def test_wrong_option_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) in (2, 3)

    err = capsys.readouterr().err
    assert message in err
    assert 1 == len(err.splitlines())

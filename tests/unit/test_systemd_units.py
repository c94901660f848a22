"""The systemd units in ``deploy``."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from perftrend.settings import Settings

CHECKOUT = Path(__file__).resolve().parents[2]
UNITS = sorted((CHECKOUT / "deploy").glob("*.service"))
PROGRAM = "/opt/perftrend/bin/perftrend"
MAXIMUM_EXPOSURE = 20
"""The largest exposure that ``systemd-analyze security`` may report, in tenths; a bare unit has 96."""


def directives(unit: Path) -> list[tuple[str, str]]:
    lines = unit.read_text().splitlines()
    return [(name, value) for name, found, value in (line.partition("=") for line in lines) if found]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_unit_starts_a_job_with_settings_and_credentials_that_exist(unit: Path) -> None:
    given = directives(unit)
    [command] = [value for name, value in given if name == "ExecStart"]
    credentials = [value.partition(":")[0] for name, value in given if name == "LoadCredential"]
    environment = [
        word.split("=") for name, value in given if name == "Environment" for word in value.split()
    ]

    assert (
        f"{PROGRAM} {unit.stem.removeprefix('perftrend-')} --settings /etc/perftrend/settings.yaml" == command
    )
    assert sorted(f"%d/{name}" for name in credentials) == sorted(value for _, value in environment)
    for variable, _ in environment:
        Settings.load(environment={variable: str(CHECKOUT / "LICENSE")}, overrides={})


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_unit_is_valid_and_confined(
    unit: Path, tmp_path: Path, require: Callable[[object, str], None]
) -> None:
    require(shutil.which("systemd-analyze"), "needs systemd-analyze")
    copy = tmp_path / unit.name
    # The program has to exist.
    copy.write_text(unit.read_text().replace(PROGRAM, "/bin/true"))

    for words in (["verify"], ["security", "--offline=true", f"--threshold={MAXIMUM_EXPOSURE}"]):
        done = subprocess.run(["systemd-analyze", *words, copy], capture_output=True, text=True, check=False)
        faults = [line for line in done.stderr.splitlines() if unit.stem in line]
        assert (0, []) == (done.returncode, faults), done.stdout + done.stderr

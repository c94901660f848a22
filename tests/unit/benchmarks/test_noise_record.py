from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import noise_record
from perftrend.bisect.simulator.noise import Recording


def test_recording_has_every_process_and_can_be_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "machine.csv"
    programs = ["bench=printf '2\\n2.5\\n2\\n'", "other=echo 7"]

    assert 0 == noise_record.main([str(file), *programs, "--processes", "3"])

    rows = [line.split(",") for line in file.read_text().splitlines()]
    assert ["bench", "bench-raw", "other", "other-raw"] * 3 == [row[1] for row in rows]
    assert sorted(rows, key=lambda row: float(row[0])) == rows
    with file.open(newline="") as lines:
        assert (3, 3) == Recording.read("machine", lines, "bench-raw").speeds.shape
    assert "other-raw" in capsys.readouterr().out


def test_json_is_recorded_if_no_program_is_named(tmp_path: Path) -> None:
    file = tmp_path / "machine.csv"

    assert 0 == noise_record.main([str(file), "--processes", "1"])

    rows = [line.split(",") for line in file.read_text().splitlines()]
    assert [("python-json", 9), ("python-json-raw", 9)] == [(row[1], len(row) - 2) for row in rows]
    assert all(0 < float(time) for row in rows for time in row[2:])


def test_recording_ends_after_its_minutes(tmp_path: Path) -> None:
    file = tmp_path / "machine.csv"

    assert 0 == noise_record.main([str(file), "other=echo 7", "--minutes", "0.0001"])

    assert {"other", "other-raw"} == {line.split(",")[1] for line in file.read_text().splitlines()}


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("x=false", "returned non-zero exit status 1; give a command that prints a time on each line"),
        ("x=echo fast", "could not convert string to float: 'fast'; give a command"),
        ("x=/no/such/program", "No such file or directory: '/no/such/program'; give a command"),
        ("x=true", "it printed no times above 0"),
        ("x=echo 0", "it printed no times above 0"),
        ("x=echo nan", "it printed no times above 0"),
        ("echo 7", "is not a program; write NAME=COMMAND"),
        ("x,y=echo 7", "is not a program; write NAME=COMMAND"),
        ("x=echo '7", "No closing quotation; close the quotation marks"),
    ],
)
def test_program_that_cannot_be_recorded_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], program: str, why: str
) -> None:
    assert 2 == noise_record.main([str(tmp_path / "machine.csv"), program, "--processes", "1"])

    assert why in capsys.readouterr().err


def test_other_number_of_repetitions_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    growing = f"sh -c 'echo 1 >> {tmp_path}/all; cat {tmp_path}/all'"

    assert 2 == noise_record.main([str(tmp_path / "machine.csv"), f"x={growing}", "--processes", "2"])

    assert "x printed 3 times after 1; let it print the same number each time" in capsys.readouterr().err


def test_recording_that_is_there_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "machine.csv"
    file.write_text("mine")

    assert 2 == noise_record.main([str(file), "x=echo 7", "--processes", "1"])

    assert "machine.csv already exists; name a new file" in capsys.readouterr().err
    assert "mine" == file.read_text()

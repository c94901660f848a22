"""The benchmark of reading: all readers find the same tests in what it writes."""

from __future__ import annotations

from pathlib import Path

from benchmarks import reading
from perftrend.archive import Output


def test_what_is_written_is_understood(tmp_path: Path) -> None:
    reading.write_output(tmp_path / "output.xml", tests=3)
    output = Output(tmp_path / "output.xml")

    assert [True] * 3 == [result.usable for result in output]
    assert "24.02-rc0~123-gabcdef012~b45" == output.versions["vpp"]
    assert {} == output.unknown


def test_table_shows_every_reader_with_its_ratio() -> None:
    readers = {
        "ours": {"tests": 3, "elapsed_s": 2.0, "cpu_s": 1.0, "peak_mb": 50.0},
        "theirs": {"tests": 3, "elapsed_s": 30.0, "cpu_s": 25.0, "peak_mb": 100.0},
    }

    *_, ours, theirs = reading.table({"title": "a", "size_mb": 60.0, "readers": readers}).splitlines()

    assert ["ours", "2.00", "1.0", "1.00", "1.0", "50.00", "1.0", "30", "3"] == ours.split()
    assert ["theirs", "30.00", "15.0", "25.00", "25.0", "100.00", "2.0", "2", "3"] == theirs.split()

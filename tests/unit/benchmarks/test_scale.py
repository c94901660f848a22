from __future__ import annotations

import json
import math

import pytest

from benchmarks import scale


def test_everything_is_measured_for_each_number_of_traces(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == scale.main(["--traces", "3", "2", "--runs", "31", "--json"])

    report = json.loads(capsys.readouterr().out)
    assert [2, 3] == [row["traces"] for row in report["evaluation"]]
    assert [60, 90] == [row["results"] for row in report["files"]]
    assert all(value > 0 for row in report["evaluation"] + report["files"] for value in row.values())


def test_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == scale.main(["--traces", "2", "--runs", "31"])

    printed = capsys.readouterr().out
    assert "exponent of the growth with the number of traces: nan" in printed
    assert "bytes of a result, store" in printed


def test_exponent_is_that_of_the_time_of_one_process() -> None:
    small, large = {"traces": 10.0, "one_process_s": 1.0}, {"traces": 40.0, "one_process_s": 8.0}

    assert 1.5 == scale.exponent_of(small, large)
    assert math.isnan(scale.exponent_of(small, small))

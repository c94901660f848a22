from __future__ import annotations

import json

import numba
import numpy as np
import pytest

from benchmarks import changes


@pytest.mark.parametrize("kind", changes.KINDS)
def test_series_is_the_same_every_time_and_as_long_as_asked(kind: str) -> None:
    first, second = changes.series(kind, 700), changes.series(kind, 700)

    assert (700,) == first.shape
    np.testing.assert_array_equal(first, second)
    assert np.all(first > 0)


def test_every_detector_has_a_time_and_a_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "SPEND_S", 0.0)
    cell = changes.cell("steps", 60, {"asleep": lambda samples: samples.sum()})

    names = {"default", "compiled", "numpy", "outliers", "jumpavg", "asleep"}

    assert names == set(cell["ms"]) == set(cell["ratio"])
    assert 1.0 == cell["ratio"]["default"]
    assert cell["excess_bits"] >= -1e-9


def test_every_cell_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in {"SPEND_S": 0.0, "BATCH": 5, "detectors": dict}.items():
        monkeypatch.setattr(changes, name, value)
    arguments = ["--sizes", "20", "30", "--kinds", "noise", "real"]

    assert 0 == changes.main(arguments)

    lines = capsys.readouterr().out.splitlines()

    assert 2 == sum(
        (line.startswith("noise") and "  20 " in line) or (line.startswith("real") and "  30 " in line)
        for line in lines
    )
    assert any(line.startswith("5 series of 180 runs") for line in lines)

    assert 0 == changes.main([*arguments, "--json"])
    assert 4 == len(json.loads(capsys.readouterr().out)["cells"])


def test_report_names_the_search_that_was_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"SPEND_S": 0.0, "BATCH": 1, "detectors": dict}.items():
        monkeypatch.setattr(changes, name, value)
    arguments = ["--sizes", "20", "--kinds", "noise"]

    assert 0 == changes.main(arguments)
    assert f"search: compiled by numba {numba.__version__}" in capsys.readouterr().out

    monkeypatch.setattr(changes, "is_compiled", lambda: False)

    assert 0 == changes.main([*arguments, "--json"])

    report = json.loads(capsys.readouterr().out)

    assert "numpy (numba cannot be imported)" == report["kernel"]
    assert "compiled" not in report["cells"][0]["ms"]

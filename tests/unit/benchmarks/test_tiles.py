from __future__ import annotations

import json

import pytest

from benchmarks import tiles


def test_traces_are_as_many_as_asked_and_all_different() -> None:
    assert 1000 == len(set(tiles.keys(1000)))


def test_small_size_is_measured_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == tiles.main(["--sizes", "1000x100", "--json"])

    [report] = json.loads(capsys.readouterr().out)
    assert (1000, 128, "sqlite") == (report["traces"], report["commits"], report["database"])
    assert all(cell["seconds"] > 0 for cell in report["cells"])
    assert "all traces, last 128 commits" in tiles.table(report)

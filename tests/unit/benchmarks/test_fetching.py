from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from benchmarks import fetching
from perftrend.archive import read_output


def test_generated_builds_can_be_read_and_differ(tmp_path: Path) -> None:
    one = fetching.output(3)
    for build in (1, 2):
        assert fetching.write(tmp_path, build, one) < len(one)
    files = sorted(tmp_path.rglob("output.xml.gz"))
    found = [[(result.key["testbed"], result.value) for result in read_output(file)] for file in files]

    assert [[("2n-clx", 17823452.25)] * 3, [("2n-clx", 17823453.25)] * 3] == found
    assert len(one) == len(gzip.decompress(files[0].read_bytes()))


def test_every_way_is_measured_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == fetching.main(["--builds", "2", "--tests", "1", "--json"])

    report = json.loads(capsys.readouterr().out)
    lines = fetching.table(report).splitlines()
    assert lines[0].startswith("2 builds of 1 tests: ")
    ways = ["fetch, read, store", "read, store", "nothing is new"]
    assert ways == list(report["ways"]) == [line[:20].strip() for line in lines[2:]]
    assert all(row["elapsed_s"] > 0 and row["peak_mb"] > 10 for row in report["ways"].values())

"""Benchmarks that start processes of their own, at their smallest size."""

from __future__ import annotations

import json

import pytest

from benchmarks import fetching, reading


def test_fetching_measures_every_way_and_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == fetching.main(["--builds", "2", "--tests", "1", "--json"])

    report = json.loads(capsys.readouterr().out)
    lines = fetching.table(report).splitlines()
    assert lines[0].startswith("2 builds of 1 tests: ")
    ways = ["fetch, read, store", "read, store", "nothing is new"]
    assert ways == list(report["ways"]) == [line[:20].strip() for line in lines[2:]]
    assert all(row["elapsed_s"] > 0 and row["peak_mb"] > 10 for row in report["ways"].values())


@pytest.mark.usefixtures("shared_memory")
def test_readers_all_find_the_same_tests(capsys: pytest.CaptureFixture[str]) -> None:
    reading.main(["--size-mb", "1", "--builds", "5", "--tests", "2", "--repeat", "1", "--json"])

    large, as_json, builds = json.loads(capsys.readouterr().out)
    assert {reader["tests"] for reader in builds["readers"].values()} == {10}
    for report in (large, as_json):
        [tests] = {reader["tests"] for reader in report["readers"].values()}
        assert tests >= 1

from __future__ import annotations

import json

import pytest

from benchmarks import listing


def test_both_ways_see_every_build(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == listing.main(["--builds", "300", "--details", "5", "--repeat", "1", "--json"])

    report = json.loads(capsys.readouterr().out)
    assert {300} == {way["builds"] for way in report["ways"].values()}
    assert 303 > report["ways"]["python-jenkins, all of each build"]["requests"] > 300
    assert report["ways"]["perftrend, all of each build"]["requests"] < 5


def test_what_was_not_measured_for_all_is_marked() -> None:
    row = {"requests": 3, "elapsed_s": 0.5, "peak_mb": 1.0, "builds": 100}
    ways = listing.combine_steps({"ours": row, "numbers": row, "some": row}, builds=100, details=10)

    table = listing.table({"builds": 100, "details": 10, "ways": ways})

    assert 5.5 == ways["python-jenkins, all of each build"]["elapsed_s"]
    assert ["~5.50", "11.00"] == table.splitlines()[3].split()[-4:-2]

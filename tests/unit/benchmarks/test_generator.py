"""The benchmark of generators: its figures by hand."""

from __future__ import annotations

import math

import pytest

from benchmarks.generator import LimitRow, RateRow, print_tables, relative

LIMITS = [
    LimitRow("embedded", "64B", lossless_pps=400e3, flood_pps=500e3, ns_per_frame=2000.0),
    LimitRow("xdp", "64B", lossless_pps=1e6, flood_pps=2e6, ns_per_frame=500.0),
    LimitRow("embedded", "IMIX", lossless_pps=0.0, flood_pps=500e3, ns_per_frame=2000.0),
    LimitRow("xdp", "IMIX", lossless_pps=1e6, flood_pps=1e6, ns_per_frame=1000.0),
]


def test_limits_are_relative_to_those_of_the_same_frame() -> None:
    small, mixed = relative(LIMITS)

    assert ("64B", 2.5, 4.0, 0.25) == small
    assert ("IMIX", 2.0, 0.5) == (mixed[0], *mixed[2:])
    assert math.isnan(mixed[1])


def test_tables_show_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    rate = RateRow("xdp", "1518B", 123_000, 1e-5, 2e-5, 3, 0.04, 0.97, 0.41, 1, 5)

    print_tables([rate, *LIMITS])

    printed = capsys.readouterr().out
    for text in ["1518B", "123,000", "0.0010%", "0.0020%", "4.00%", "97%", "41%", "2,000,000", "2.50"]:
        assert text in printed
    assert "1 of 5" in printed

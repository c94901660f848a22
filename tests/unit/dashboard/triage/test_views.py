"""The sparkline of an item."""

from __future__ import annotations

import math
import re
import sys

import numpy as np
import pytest

from perftrend.dashboard.triage.views import HEIGHT, WIDTH, sparkline

LARGEST = sys.float_info.max


def test_runs_without_a_value_interrupt_the_line() -> None:
    drawn = sparkline(np.array([3.0, 1.0, math.nan, 2.0]), changed=1)

    assert drawn is not None
    assert ("M2 2h0L45 24M130 13h0", 23) == (drawn.course, drawn.mark)


def test_nothing_is_drawn_without_values() -> None:
    assert sparkline(np.array([math.nan, math.nan])) is None


@pytest.mark.parametrize("changed", [None, 0, 3])
def test_only_a_change_within_the_columns_is_marked(changed: int | None) -> None:
    drawn = sparkline(np.array([3.0, 1.0, 2.0]), changed)

    assert drawn is not None
    assert drawn.mark is None


@pytest.mark.parametrize("values", [[5.0, 5.0], [7.0], [-LARGEST, LARGEST], [0.0, 5e-324]])
def test_any_values_are_drawn_inside(values: list[float]) -> None:
    drawn = sparkline(np.array(values))

    assert drawn is not None
    points = re.findall(r"[ML](\S+) (\d+)", drawn.course)
    assert len(values) == len(points)
    assert all(0 <= int(x) <= WIDTH and 0 <= int(y) <= HEIGHT for x, y in points)

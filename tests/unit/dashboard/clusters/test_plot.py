"""The picture of a centroid."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from perftrend.dashboard.clusters.views import HEIGHT, WIDTH, draw_centroid


def test_step_down_is_drawn_as_two_levels() -> None:
    drawn = draw_centroid([1.0, 1.0, -1.0, -1.0], 2)

    assert "M8 8L216 8L424 112L632 112" == drawn.course
    assert "M8 8H320M320 112H632" == drawn.levels
    assert 320 == drawn.step


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40), st.data())
def test_everything_lies_inside(centroid: list[float], data: st.DataObject) -> None:
    drawn = draw_centroid(centroid, data.draw(st.integers(1, len(centroid) - 1)))

    points = re.findall(r"(-?\d+) (-?\d+)", drawn.course)
    assert len(centroid) == len(points)
    assert all(0 <= int(x) <= WIDTH and 0 <= int(y) <= HEIGHT for x, y in points)
    assert 0 < drawn.step < WIDTH

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from perftrend.model import Better, Change, Direction, Group, Outcome, Series, TraceKey, Verdict
from perftrend.report.sparkline import HEIGHT, MARGIN, WIDTH, sparkline

MakeVerdict = Callable[..., Verdict]
EXTREME = (math.nan, math.inf, 5e-324, 2.2e-308, sys.float_info.max, -sys.float_info.max)


def points(path: str) -> list[tuple[int, int]]:
    """Follow the dots: an absolute first one, then steps."""
    steps = [(int(x), int(y)) for x, y in re.findall(r"[Mm](-?\d+) (-?\d+)h0", path)]
    return list(accumulate(steps, lambda at, step: (at[0] + step[0], at[1] + step[1])))


def test_values_fill_the_picture_from_left_to_right(make_verdict: MakeVerdict) -> None:
    dots = points(sparkline(make_verdict()).values)

    assert 6 == len(dots)
    assert (MARGIN, MARGIN) == dots[0]
    assert (WIDTH - MARGIN, HEIGHT - MARGIN) == dots[-1]


def test_regression_is_marked_where_its_group_begins(make_verdict: MakeVerdict) -> None:
    picture = sparkline(make_verdict())

    assert [points(picture.values)[3]] == points(picture.regressions)
    assert "" == picture.progressions


def test_progression_is_marked_apart(make_verdict: MakeVerdict) -> None:
    picture = sparkline(make_verdict(changes=(Change(2, 8e6, 9e6, Direction.PROGRESSION),)))

    assert [points(picture.values)[2]] == points(picture.progressions)
    assert "" == picture.regressions


def test_marker_stands_at_the_trend_where_the_run_has_no_value(make_verdict: MakeVerdict) -> None:
    picture = sparkline(make_verdict(samples=[10e6, 10e6, 10e6, math.nan, 8e6, 8e6]))

    assert [HEIGHT - MARGIN] == [y for _, y in points(picture.regressions)]


def test_curve_is_cut_where_it_has_no_value(make_verdict: MakeVerdict) -> None:
    median = np.array([10e6, 10e6, math.nan, 8e6, math.nan, 8e6])

    assert 3 == sparkline(make_verdict(moving_median=median)).median.count("M")


def test_untrusted_value_is_shown_and_does_not_stretch_the_picture(make_verdict: MakeVerdict) -> None:
    verdict = make_verdict(samples=[10e6] * 5 + [0.0], invalid={5: (0.0, "no link")}, groups=(), changes=())

    picture = sparkline(verdict)

    assert [(WIDTH - MARGIN, HEIGHT - MARGIN)] == points(picture.not_valid)
    assert picture.low == pytest.approx(9.8e6)


def test_small_noise_looks_small(make_verdict: MakeVerdict) -> None:
    picture = sparkline(make_verdict(samples=[10.001e6, 9.999e6] * 3, groups=(), changes=()))

    heights = [y for _, y in points(picture.values)]
    assert max(heights) - min(heights) <= 2


def test_test_that_never_ran_has_an_empty_picture(missing: Verdict) -> None:
    picture = sparkline(missing)

    assert ("", "", "", "") == (picture.values, picture.median, picture.groups, picture.band)
    assert math.isnan(picture.low)


@given(
    arrays.arrays(
        np.float64, st.integers(1, 12), elements=st.floats(0, 1e9) | st.floats() | st.sampled_from(EXTREME)
    )
)
def test_nothing_leaves_the_picture(values: np.ndarray) -> None:
    groups = tuple(Group(i, i + 1, float(v), 0.0, 1.0) for i, v in enumerate(values) if math.isfinite(v))
    samples = np.where(np.isfinite(values), values, math.nan)
    verdict = Verdict(
        series=Series(TraceKey.of(test="t"), "pps", Better.HIGHER, (), samples),
        outcome=Outcome.NORMAL,
        reason="",
        groups=groups,
        moving_median=values,
        trimmed_average=values,
        trimmed_deviation=values,
    )

    picture = sparkline(verdict)

    dots = points(picture.values)
    assert np.isfinite(samples).sum() == len(dots)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in dots)
    assert "nan" not in picture.median + picture.band + picture.groups

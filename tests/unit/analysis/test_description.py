from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jumpavg import BitCountingStats

from perftrend.analysis.description import FORMULAS, formula_named
from perftrend.errors import SettingsError

DATA = Path(__file__).parents[2] / "data"
NEWER = formula_named("jumpavg-0.4")
OLDER = formula_named("jumpavg-0.1")

rates = st.floats(min_value=0.0, max_value=1e9, allow_nan=False)


@given(st.lists(rates, min_size=1, max_size=40), rates, st.floats(min_value=1e-3, max_value=1e6))
def test_newer_formula_counts_the_bits_of_jumpavg(group: list[float], before: float, unit: float) -> None:
    maximum = max(*group, before, 1.0)
    first = BitCountingStats.for_runs_and_params(group, maximum, unit)
    later = BitCountingStats.for_runs_and_params(group, maximum, unit, prev_avg=before)

    size, stdev = np.array([len(group)]), np.array([first.stdev / unit])
    mean, previous = np.array([first.avg / unit]), np.array([before / unit])
    alone = NEWER.alone_bits(size, stdev, maximum / unit)[0]

    assert first.bits == pytest.approx(alone + NEWER.first_bits(maximum / unit), rel=1e-9)
    assert later.bits == pytest.approx(
        alone + NEWER.later_bits(mean, previous, maximum / unit)[0], rel=1e-9, abs=1e-9
    )


def test_older_formula_counts_the_bits_of_the_older_jumpavg() -> None:
    """The file holds what version 0.1.2 answers; it cannot be installed beside 0.4."""
    for case in json.loads((DATA / "jumpavg_0_1.json").read_text())["groups"]:
        group, maximum = np.array(case["samples"]), case["maximum"]
        bits = OLDER.alone_bits(np.array([group.size]), np.array([group.std()]), maximum)[0]
        if case["previous"] is None:
            bits += OLDER.first_bits(maximum)
        else:
            bits += OLDER.later_bits(np.array([group.mean()]), np.array([case["previous"]]), maximum)[0]

        assert case["bits"] == pytest.approx(bits, rel=1e-9)


def test_older_formula_counts_two_samples_as_worked_by_hand() -> None:
    """Samples 4 and 6 in units, so s = 1, largest sample 7: a table that a reader can check.

    ===================================  ==================  ====
    size 2                               log2(2 * 3)         2.585
    deviation, evenly from 0 to 7        log2(7 + 1)         3
    sphere: two points, at any radius    log2(2 π½ / Γ(½))   1
    ===================================  ==================  ====
    """
    bits = OLDER.alone_bits(np.array([2]), np.array([1.0]), 7.0)

    assert math.log2(6) + 3 + 1 == pytest.approx(bits[0], rel=1e-12)


def test_older_formula_counts_the_average_of_a_later_group_as_worked_by_hand() -> None:
    """Largest sample 7, averages 5 and 2: log2(7 * 8 / (3 + 1)) = log2(14)."""
    bits = OLDER.later_bits(np.array([5.0]), np.array([2.0]), 7.0)

    assert math.log2(14) == pytest.approx(bits[0], rel=1e-12)
    assert OLDER.first_bits(7.0) == pytest.approx(3.0, rel=1e-12)


def test_three_samples_lie_on_a_circle() -> None:
    """The sphere of three samples is a circle of circumference 2 π s √3, here with s + 1 = 4."""
    bits = OLDER.alone_bits(np.array([3]), np.array([3.0]), 15.0)

    assert math.log2(12) + 4 + math.log2(2 * math.pi * 4 * math.sqrt(3)) == pytest.approx(bits[0], rel=1e-12)


@pytest.mark.parametrize("name", FORMULAS)
def test_averages_close_together_are_dear(name: str) -> None:
    means = np.array([5000.0, 4999.0, 4900.0, 4000.0, 100.0])
    bits = FORMULAS[name].later_bits(means, np.array([5000.0]), 8191.0)

    assert np.all(np.diff(bits) < 0)


def test_unknown_formula_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(SettingsError, match=r"'jumpavg-0\.3'; did you mean 'jumpavg-0\.[14]'\?"):
        formula_named("jumpavg-0.3")

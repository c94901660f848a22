from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.mdl import simd_kernel


@simd_kernel.jit
def logarithms(values: np.ndarray, found: np.ndarray) -> None:
    for i in range(values.size):
        found[i] = simd_kernel.log2(values[i])


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_logarithm_is_as_good_as_the_library_s(value: float) -> None:
    found = np.empty(1)
    logarithms(np.array([value]), found)

    assert math.log2(value) == pytest.approx(found[0], rel=1e-15, abs=4e-16)

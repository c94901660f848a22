"""Conversion of numbers for JSON."""

from __future__ import annotations

import math
from typing import Any


def finite(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Replace numbers that are not valid in JSON."""
    if isinstance(value, dict):
        return {key: finite(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [finite(of) for of in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""Numbers as JSON holds them."""

from __future__ import annotations

import math
from typing import Any


def finite(value: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """Replace what JSON has no number for."""
    if isinstance(value, dict):
        return {key: finite(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [finite(of) for of in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

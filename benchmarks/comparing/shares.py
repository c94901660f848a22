"""Formats of fractions."""

from __future__ import annotations


def per_1000(share: float) -> str:
    """Return a fraction as a number of a thousand."""
    return f"{1000 * share:.1f} in 1,000"


def share(share: float) -> str:
    """Return a fraction as a percentage."""
    return f"{share:.1%}"

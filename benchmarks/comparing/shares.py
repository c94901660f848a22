"""How shares are printed."""

from __future__ import annotations


def per_1000(share: float) -> str:
    """Say how many of a thousand a share is."""
    return f"{1000 * share:.1f} in 1,000"


def share(share: float) -> str:
    """Say how many per cent a share is."""
    return f"{share:.1%}"

"""The adaptive strategy of a bisection: belief, choice, stop."""

from perftrend.bisect.adaptive.strategy import Adaptive

__all__ = ["Adaptive"]

"""The adaptive strategy of a bisection: posterior, choice of measurements, stopping rule."""

from perftrend.bisect.adaptive.strategy import Adaptive

__all__ = ["Adaptive"]

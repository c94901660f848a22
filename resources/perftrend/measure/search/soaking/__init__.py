"""Long measurements: the critical load of a device, and the loss at one rate that is held."""

from perftrend.measure.search.soaking.hold import HoldResult, hold
from perftrend.measure.search.soaking.soak import SoakResult, soak

__all__ = ["HoldResult", "SoakResult", "hold", "soak"]

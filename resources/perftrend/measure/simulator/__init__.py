"""A simulated device: it computes trials by a formula, so that a search can be compared with the true rate.

No packet is sent and no time passes: an hour of trials takes milliseconds. The same seed and the same trials
give the same results.
"""

from perftrend.measure.simulator.device import DeviceModel
from perftrend.measure.simulator.loss import KINDS, KNEES

__all__ = ["KINDS", "KNEES", "DeviceModel"]

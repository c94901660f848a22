"""A simulated device: it answers trials from a formula, so a search can be judged by the truth.

No packet is sent and no time passes: an hour of trials takes milliseconds. With the same seed
and the same trials the answers are the same.
"""

from perftrend.measure.simulator.device import DeviceModel
from perftrend.measure.simulator.knees import KINDS, KNEES

__all__ = ["KINDS", "KNEES", "DeviceModel"]

"""The unavoidable time of any search on a device whose true rates are known.

NDR is n, PDR is p, the final duration is F, the relative width is w. Each lower bound needs a
trial of F, at n and p at best. Each upper bound needs a failing trial; if trials can end
early it costs the time until its failure is certain, which is least at the highest rate that
the width allows: n/(1 - w) and p/(1 - w). A trial can be two bounds at once:

* if a rate is in [p (1 - w), n], one lower and one upper bound serve NDR and PDR;
* if a rate in [p (1 - w), p] loses frames and is at most n/(1 - w), the lower bound of PDR is
  the upper bound of NDR;
* if a rate above p is at most n/(1 - w), the upper bound of PDR is that of NDR.

No search can aim at a rate exactly, so only ranges of at least a hundredth of the width count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.search.methods import LOSS_RATIOS
from perftrend.measure.simulator import DeviceModel

CALM: Mapping[str, Any] = {
    "jitter": 0.0,
    "drift_per_s": 0.0,
    "slow_share": 0.0,
    "hiccup_share": 0.0,
    "restart_spread": 0.0,
    "pause_every_s": 0.0,
    "burst_frames": 0.0,
    "poisson": False,
}
"""Arguments of a device on which nothing changes and nothing is random."""

_AIM = 0.01


@dataclass(frozen=True, slots=True)
class Unavoidable:
    """The least time of all trials, in seconds."""

    elapsed_s: float
    without_ndr_upper_s: float
    """The same if the upper bound of NDR costs nothing: if its first lost frame is detected at once."""


@dataclass(frozen=True, slots=True)
class CalmDevice:
    """A device without its noise, and its true rates."""

    kind: str
    """A name of ``perftrend.measure.simulated_loss.KINDS``."""
    critical_pps: float
    final_s: float
    ndr_pps: float
    pdr_pps: float

    @classmethod
    def of(cls, kind: str, critical_pps: float, final_s: float) -> CalmDevice:
        """Return a device with its true rates, for trials of a final duration."""
        device = DeviceModel.of_kind(kind, critical_pps, **CALM)
        ndr, pdr = (device.true_pps(ratio, final_s) for ratio in LOSS_RATIOS)
        return cls(kind, critical_pps, final_s, ndr, pdr)

    def proof_s(self, rate_pps: float, loss_ratio: float, *, early: bool) -> float:
        """Return the time of a trial until it is certain that it exceeds a loss ratio."""
        device = DeviceModel.of_kind(self.kind, self.critical_pps, **CALM, ends_early=early)
        return device(rate_pps, self.final_s, loss_ratio).elapsed_s

    def unavoidable(self, width: float, *, early: bool) -> Unavoidable:
        """Return the least cost of a search on the device.

        :param width: the relative width of the intervals.
        :param early: whether trials end early.
        """
        ndr, pdr, lower_ratio = self.ndr_pps, self.pdr_pps, 1.0 - width
        least = _AIM * width * ndr
        apart_s = 2.0 * self.final_s + self.proof_s(pdr / lower_ratio, LOSS_RATIOS[1], early=early)
        lower_serves = min(pdr, ndr / lower_ratio) - max(ndr, pdr * lower_ratio) >= least
        upper_serves = ndr / lower_ratio - pdr >= least
        ndr_upper_s = 0.0
        if not lower_serves and not upper_serves:
            ndr_upper_s = self.proof_s(ndr / lower_ratio, LOSS_RATIOS[0], early=early)
        if ndr - pdr * lower_ratio < least:
            return Unavoidable(apart_s + ndr_upper_s, apart_s)
        together_s = self.final_s + self.proof_s(ndr / lower_ratio, LOSS_RATIOS[1], early=early)
        return Unavoidable(min(together_s, apart_s + ndr_upper_s), min(together_s, apart_s))

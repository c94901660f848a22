"""What the two ways to seek a loss ratio have in common: the limits, and what is known so far.

Rates are logarithmic here, so that a width is the same distance everywhere.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from perftrend.measure.search.parameters import Parameters
from perftrend.measure.search.predictive.evidence import Bounds, Evidence
from perftrend.measure.search.predictive.prediction import Point, loss_curve
from perftrend.model import Trial

_RESOLUTION = 0.3
"""Trials as near as this, in widths, count as made at one rate: their difference is noise."""

IN_A_ROW = 2
"""So many proofs that end alike are no chance: what was foretold is wrong."""


class Sought(ABC):
    """A loss ratio that is sought, in two steps that may follow each other several times.

    Short trials *look* where it may be met; trials of the final duration *prove* the bounds.
    """

    def __init__(self, evidence: Evidence, parameters: Parameters, loss_ratio: float) -> None:
        self.loss_ratio = loss_ratio
        self._evidence = evidence
        self._parameters = parameters
        self._width = parameters.log_width
        self._bottom = math.log(parameters.minimum_pps)
        self._top = math.log(parameters.maximum_pps)
        self._believes_short = parameters.has_short_trials
        self._run = 0
        """How many proofs in a row ended like the latest one."""
        self._failed = False

    @property
    def hopeless(self) -> str:
        """Why it is of no use to go on; empty while it is."""
        return ""

    @abstractmethod
    def rate_to_look_at(self) -> float | None:
        """Return where a short trial would tell most; None when a proof would tell more."""

    @abstractmethod
    def looked(self, trial: Trial) -> None:
        """Take note of a short trial, which the evidence has already."""

    @abstractmethod
    def rate_to_prove(self) -> float:
        """Return where trials of the final duration would tell most."""

    def proved(self, trial: Trial, *, passed: bool) -> None:
        """Take note of a decision, which the evidence has already, and of its last trial."""
        del trial
        self._run = self._run + 1 if self._run and passed is not self._failed else 1
        self._failed = not passed

    def _proven(self) -> Bounds:
        return _logarithmic(self._evidence.proven(self.loss_ratio))

    def _suggested(self) -> Bounds:
        return _logarithmic(self._evidence.suggested(self.loss_ratio, short=self._believes_short))

    def _trials(self) -> list[Trial]:
        return self._evidence.believed(self.loss_ratio, short=self._believes_short)

    def _curve(self) -> list[Point]:
        return loss_curve(self._trials(), _RESOLUTION * self._width)


def _logarithmic(bounds: Bounds) -> Bounds:
    return Bounds(*(None if rate is None else math.log(rate) for rate in bounds))

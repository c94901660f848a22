"""Common base of the two ways to search for a loss ratio: the limits, and the results so far.

Rates are logarithmic here, so that a width is the same distance everywhere.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from perftrend.measure.search.parameters import Parameters
from perftrend.measure.search.predictive.evidence import RateBounds, TrialEvidence
from perftrend.measure.search.predictive.prediction import LossPoint, loss_curve
from perftrend.measurement import Trial

_RESOLUTION = 0.3
"""Trials this close together, in widths, count as made at one rate: their difference is noise."""

IN_A_ROW = 2
"""This many consecutive proofs with the same outcome are not chance: the prediction is wrong."""


class SearchTarget(ABC):
    """A target loss ratio, searched for in two steps that may alternate several times.

    Short trials *locate* its rate; trials of the final duration *prove* the bounds.
    """

    def __init__(self, evidence: TrialEvidence, parameters: Parameters, loss_ratio: float) -> None:
        self.loss_ratio = loss_ratio
        self._evidence = evidence
        self._parameters = parameters
        self._width = parameters.log_width
        self._bottom = math.log(parameters.minimum_pps)
        self._top = math.log(parameters.maximum_pps)
        self._believes_short = parameters.has_short_trials
        self._run = 0
        """Number of consecutive proofs with the same outcome as the latest one."""
        self._failed = False

    @property
    def hopeless(self) -> str:
        """Why the search cannot succeed; empty while it can."""
        return ""

    @abstractmethod
    def rate_to_look_at(self) -> float | None:
        """Return the most informative rate for a short trial; None if a proof is more informative."""

    @abstractmethod
    def process_short_trial(self, trial: Trial) -> None:
        """Process a short trial that is already part of the evidence."""

    @abstractmethod
    def rate_to_prove(self) -> float:
        """Return the most informative rate for trials of the final duration."""

    def process_proof(self, trial: Trial, *, passed: bool) -> None:
        """Process a decision that is already part of the evidence, and its last trial."""
        del trial
        self._run = self._run + 1 if self._run and passed is not self._failed else 1
        self._failed = not passed

    def _proven(self) -> RateBounds:
        return _logarithmic(self._evidence.proven(self.loss_ratio))

    def _suggest_bounds(self) -> RateBounds:
        return _logarithmic(self._evidence.suggest_bounds(self.loss_ratio, short=self._believes_short))

    def _trials(self) -> list[Trial]:
        return self._evidence.consistent_trials(self.loss_ratio, short=self._believes_short)

    def _curve(self) -> list[LossPoint]:
        return loss_curve(self._trials(), _RESOLUTION * self._width)


def _logarithmic(bounds: RateBounds) -> RateBounds:
    return RateBounds(*(None if rate is None else math.log(rate) for rate in bounds))

"""What a test is asked to measure: one plan for each kind of measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MrrPlan:
    """How MRR is measured."""

    duration_s: float
    multiplicity: int
    starts: int


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """How NDR and PDR are searched."""

    initial_duration_s: float
    final_duration_s: float
    relative_width: float
    loss_ratios: Mapping[str, float]
    """What each rate allows to be lost, by its name, in ascending order: ``{"ndr": 0.0, "pdr": 0.005}``."""
    minimum_pps: float
    intermediate_phases: int
    timeout_s: float | None
    strategy: str
    """``predictive`` or ``mdr``, of an MDR search, or ``binary``."""
    trials_per_bound: int = 1
    exceed_ratio: float = 0.0
    """Share of the trials of a bound that may fail while it still passes."""


@dataclass(frozen=True, slots=True)
class SoakPlan:
    """How the critical load is estimated."""

    total_duration_s: float
    trial_duration_s: float
    """Of the first trial; each further one is a little longer."""
    target_loss_ratio: float
    credibility: float
    minimum_pps: float


@dataclass(frozen=True, slots=True)
class HoldPlan:
    """Which rate is held, and for how long."""

    rate_pps: float
    duration_s: float
    """Of all slices together."""
    slices: int

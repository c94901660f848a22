"""Measurement plans: one class for each kind of measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MrrPlan:
    """Plan of an MRR measurement."""

    duration_s: float
    multiplicity: int
    starts: int


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """Plan of a search for NDR and PDR."""

    initial_duration_s: float
    final_duration_s: float
    relative_width: float
    loss_ratios: Mapping[str, float]
    """Loss ratio that each rate allows, by its name, in ascending order: ``{"ndr": 0.0, "pdr": 0.005}``."""
    minimum_pps: float
    intermediate_phases: int
    timeout_s: float | None
    strategy: str
    """``predictive`` or ``mdr`` for an MDR search, or ``binary``."""
    trials_per_bound: int = 1
    exceed_ratio: float = 0.0
    """Fraction of the trials of a bound that may fail while the bound still passes."""


@dataclass(frozen=True, slots=True)
class SoakPlan:
    """Plan of a soak test, which estimates the critical load."""

    total_duration_s: float
    trial_duration_s: float
    """Duration of the first trial; each further trial is slightly longer."""
    target_loss_ratio: float
    credibility: float
    minimum_pps: float


@dataclass(frozen=True, slots=True)
class HoldPlan:
    """Plan of a test that holds one rate."""

    rate_pps: float
    duration_s: float
    """Duration of all slices together."""
    slices: int

"""Plans of measurements: their parameters, most of them settings, or else values of the testbed file.

This is apart from the procedures that carry the plans out, because jobs that only estimate a duration need
nothing else of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from perftrend.measure.specification import MrrFile, SearchFile
from perftrend.settings.sections import SearchSettings, SoakSettings, TrialSettings


class MrrPlan(TrialSettings):
    """The settings of trials, complete for an MRR measurement."""

    duration_s: float
    multiplicity: int
    starts: int

    @classmethod
    def complete(cls, settings: TrialSettings, usual: MrrFile) -> Self:
        """Return a plan by the settings, and by the testbed file for those that are not given."""
        return cls(**usual.model_dump() | settings.model_dump(exclude_none=True))


class SearchPlan(SearchSettings):
    """The settings of searches, complete for a search for NDR and PDR."""

    initial_duration_s: float
    final_duration_s: float
    minimum_pps: float

    @classmethod
    def complete(cls, settings: SearchSettings, usual: SearchFile) -> Self:
        """Return a plan by the settings, and by the testbed file for those that are not given."""
        return cls(**usual.model_dump() | settings.model_dump(exclude_none=True))

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of the MDR search that are settings of the same name."""
        return self.model_dump(exclude={"loss_ratio", "loss_ratios"})


class SoakPlan(SoakSettings):
    """The settings of soak tests, and the lowest rate of a search."""

    minimum_pps: float


@dataclass(frozen=True, slots=True)
class HoldPlan:
    """Plan of a test that holds one rate."""

    rate_pps: float
    duration_s: float
    """Duration of all slices together."""
    slices: int

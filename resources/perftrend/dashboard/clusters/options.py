"""Options of a clustering."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from perftrend.analysis.cluster import CORRECTED_CUTOFF, CUTOFF, MINIMUM_SIDE
from perftrend.dashboard.formats import plain

WINDOW = 128
LARGEST_WINDOW = 1024
LEAST_WINDOW = 2 * MINIMUM_SIDE
LARGEST_K = 200
_LARGEST_CUTOFF = 1e9


def _blank_is_none(value: object) -> object:
    return None if value == "" else value


Blank = BeforeValidator(_blank_is_none)
"""Converts an empty field of a form to None."""


class ClusterOptions(BaseModel):
    """Options of the clustering of a testbed."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    k: Annotated[Annotated[int, Field(ge=1, le=LARGEST_K)] | None, Blank] = None
    """Initial number of clusters; none: ⌊40/30000 · traces + 10⌋, at most 200."""
    window: Annotated[int, Field(ge=LEAST_WINDOW, le=LARGEST_WINDOW)] = WINDOW
    """Number of newest commits to cluster."""
    query: Annotated[str, Field(max_length=4000), AfterValidator(plain)] = ""
    """Query for the traces; empty: all."""
    statistic: Literal["documented", "corrected"] = "documented"
    """Statistic that the cutoff applies to: Regression, or Student's t."""
    cutoff: Annotated[Annotated[float, Field(gt=0, le=_LARGEST_CUTOFF)] | None, Blank] = None
    """A cluster is interesting if the statistic is larger; none: 150, and 8 for the corrected one."""

    @property
    def limit(self) -> float:
        """The effective cutoff."""
        if self.cutoff is not None:
            return self.cutoff
        return CUTOFF if self.statistic == "documented" else CORRECTED_CUTOFF

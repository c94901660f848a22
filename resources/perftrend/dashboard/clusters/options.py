"""What a person may choose of a clustering."""

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
"""A field of a form that was left empty."""


class Options(BaseModel):
    """How a testbed is clustered."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    k: Annotated[Annotated[int, Field(ge=1, le=LARGEST_K)] | None, Blank] = None
    """Clusters to begin with; none: ⌊40/30000 · traces + 10⌋, at most 200."""
    window: Annotated[int, Field(ge=LEAST_WINDOW, le=LARGEST_WINDOW)] = WINDOW
    """How many of the newest commits are looked at."""
    query: Annotated[str, Field(max_length=4000), AfterValidator(plain)] = ""
    """Which traces; empty: all."""
    statistic: Literal["documented", "corrected"] = "documented"
    """What the cutoff is of: Regression, or Student's t."""
    cutoff: Annotated[Annotated[float, Field(gt=0, le=_LARGEST_CUTOFF)] | None, Blank] = None
    """A cluster is interesting when the statistic is larger; none: 150, and 8 for the corrected one."""

    @property
    def limit(self) -> float:
        """The cutoff that holds."""
        if self.cutoff is not None:
            return self.cutoff
        return CUTOFF if self.statistic == "documented" else CORRECTED_CUTOFF

"""The strategies by name: ``adaptive``, ``documented-5``, ``threshold-5``, ``bayesect-99``.

Options follow: ``adaptive,confidence=0.995,inside=true``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.bisection.peers import Bayesect, Threshold
from perftrend.bisect import Adaptive, BisectOutcome, BisectState, CsitHalving, MeasureStep, Strategy

EQUAL = "documented"
"""The CSIT strategy with enough measurements of each build to be as reliable as the first one."""
DEFAULT = ("adaptive", "documented-1", "documented-5", "threshold-5", "bayesect-99", EQUAL)


@dataclass(frozen=True, slots=True)
class Unhurried:
    """A strategy that measures each build ``repeats`` times, and is not called in between."""

    strategy: Strategy
    repeats: int

    @property
    def name(self) -> str:
        """The name of the strategy."""
        return self.strategy.name

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of the strategy."""
        return self.strategy.options

    def next(self, state: BisectState) -> MeasureStep | BisectOutcome:
        """Return the step of the strategy, or the last one until its build was measured often enough."""
        if state.steps:
            last = state.steps[-1]
            if last.commit not in state.broken and state.times_measured(last.commit) < self.repeats:
                return last
        return self.strategy.next(state)


def strategy_named(name: str) -> Strategy:
    """Return the strategy with a name.

    :raises ValueError: if no strategy has that name, or an option is not valid JSON.
    :raises TypeError: if it has no such option.
    """
    kind, *given = name.split(",")
    options: dict[str, Any] = {}
    for each in given:
        key, _, value = each.partition("=")
        options[key] = json.loads(value)
    base, _, number = kind.partition("-")
    if kind == "adaptive":
        return Adaptive(**options)
    if base == "documented":
        return Unhurried(CsitHalving(repeats=int(number), **options), int(number))
    if base == "threshold":
        return Unhurried(Threshold(int(number), **options), int(number))
    if base == "bayesect":
        return Bayesect(int(number) / 100, **options)
    raise ValueError(name)

"""What a person does by hand: ``git bisect run`` with a threshold, simulated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perftrend.bisect import Culprit, Kind, Measure, Outcome, State


@dataclass(frozen=True, slots=True)
class Threshold:
    """``git bisect run`` with a threshold halfway between old and new, by the first test.

    :param repeats: runs of every build, whose average is compared.
    """

    repeats: int = 1

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"git bisect run, {self.repeats} runs"

    @property
    def options(self) -> Mapping[str, Any]:
        """What it was made with."""
        return {"repeats": self.repeats}

    def next(self, state: State) -> Measure | Outcome:
        """Follow git through all that was measured, up to what is lacking."""
        old, new = state.range.old, state.history.new
        for end in (old, new):
            if state.times_measured(end) < self.repeats:
                return Measure(end, "tells the threshold")
        levels = _average(state, old), _average(state, new)
        threshold = sum(levels) / 2
        good, bad = [old], new
        while True:
            halving = state.history.next_commit(good=good, bad=bad, skipped=state.broken)
            if halving.commit is None:
                return Outcome(Kind.FOUND, "git says so", (Culprit(halving.suspects),))
            if state.times_measured(halving.commit) < self.repeats:
                return Measure(halving.commit, "git chose it")
            if (_average(state, halving.commit) > threshold) == (levels[0] > levels[1]):
                good.append(halving.commit)
            else:
                bad = halving.commit


def _average(state: State, commit: str) -> float:
    samples = next(iter(state.samples(commit).values()))
    return math.fsum(samples) / len(samples)

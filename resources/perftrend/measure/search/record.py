"""Record of a search: its trials by phase, and its limits of time and number of trials."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from perftrend.errors import SearchTimeoutError
from perftrend.measure.search.estimate import seconds_left
from perftrend.measure.search.parameters import Parameters, PhasePlan
from perftrend.measure.search.result import Phase, Step, TrialProgress
from perftrend.measure.search.trials import Measure, perform, within
from perftrend.measurement import Trial

OnStep: TypeAlias = Callable[[TrialProgress], None]
"""A callback that receives the progress of a search after each trial."""


class TrialRecorder:
    """A recorder of the trials of a search, which ends a search that takes too long.

    :param on_step: called after each trial with the progress of the search.
    :param halves: whether the search halves its intervals, for the estimate of the time left.
    """

    def __init__(
        self, measure: Measure, parameters: Parameters, on_step: OnStep | None = None, *, halves: bool = True
    ) -> None:
        self._halves = halves
        self._measure = within(measure, parameters.timeout_s)
        self._on_step = on_step
        self._parameters = parameters
        self._phases: list[Phase] = []
        self._elapsed_s = 0.0
        self._trials = 0

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases so far; the last one may be unfinished."""
        return tuple(self._phases)

    def match_measured_rate(self, rate_pps: float) -> float:
        """Return the rate, or a rate measured before that is within a rounding error of it.

        Computations of the same rate may differ by a rounding error, and must not make two rates of it.
        """
        measured = (trial.rate_pps for phase in self._phases for trial in phase.trials)
        return next((known for known in measured if math.isclose(known, rate_pps)), rate_pps)

    def begin(self, plan: PhasePlan) -> None:
        """Begin a phase: the trials that follow have its duration."""
        self._phases.append(Phase(plan.name, plan.duration_s, plan.relative_width, ()))

    def measure(self, rate_pps: float, fail_above: float | None) -> Trial:
        """Measure at a rate, for the duration of the phase.

        :raises SearchTimeoutError: if previous trials have used up the time or the number of trials.
        """
        if self._trials >= self._parameters.most_trials:
            raise SearchTimeoutError(
                f"search not finished after {self._trials} trials: the device contradicts itself; "
                "check its trials, or allow a larger relative_width"
            )
        return perform(self._measure, rate_pps, self._phases[-1].duration_s, fail_above)

    def add_step(self, step: Step) -> None:
        """Record a trial as the next step of the phase, and call ``on_step``."""
        phase = self._phases[-1]
        self._phases[-1] = replace(phase, steps=(*phase.steps, step))
        self._elapsed_s += step.trial.elapsed_s
        self._trials += 1
        if self._on_step is not None:
            self._on_step(self._progress(step))

    def _progress(self, step: Step) -> TrialProgress:
        return TrialProgress(
            phase=self._phases[-1].name,
            loss_ratios=self._parameters.loss_ratios,
            intervals=step.intervals,
            elapsed_s=self._elapsed_s,
            seconds_left=seconds_left(self._parameters, self._phases, halves=self._halves),
        )

"""Soak: the critical load, the rate whose average loss ratio over a long time is a target.

A search determines which rate passes one trial; for a device that is not quite deterministic the result
differs each time. A soak test determines the average instead: it runs trials for half an hour or more, all
near the critical load, and estimates the critical load from all of them together.

The duration of the trials grows by a fixed step. The first trial is at the maximum rate, the second at the
rate received. From then on the rate alternates between the one that best separates the trials that meet the
target from the others, and the estimate itself. The former shows where loss begins, the latter whether loss
is as rare there as estimated. Each consecutive trial that meets the target halves the distance to the lowest
higher rate that does not, because trials without loss provide little information.

Source: "Probabilistic Loss Ratio Search for Packet Throughput" (IETF,
draft-vpolak-bmwg-plrsearch), for the growing durations and for raising the load after trials
without loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from perftrend.measure.search.parameters import require, require_positive
from perftrend.measure.search.soaking.posterior import Posterior
from perftrend.measure.search.trials import Measure, first_doubt, passes, perform
from perftrend.measurement import Trial

_LOWEST_TARGET = 1e-12
_FIRST_TRIALS = 2
_HICCUP_PROBABILITY = 0.5
_LARGEST_HICCUP_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class SoakResult:
    """The estimate of the critical load, and every trial that it is based on."""

    target_loss_ratio: float
    critical_pps: float
    """The median of the posterior, within the rates that may be offered."""
    lower: float
    """In pps; the critical load is in [lower, upper] with the probability ``credibility``."""
    upper: float
    credibility: float
    trials: tuple[Trial, ...]
    """In the order of time."""
    hiccups: int = 0
    """Number of trials with lost frames that their rate does not explain; the estimate excludes them."""
    invalid: str = ""
    """Why the estimate is not valid; empty if it is valid."""

    @property
    def elapsed_s(self) -> float:
        """The time that the trials took."""
        return sum(trial.elapsed_s for trial in self.trials)


def soak(
    measure: Measure,
    *,
    minimum_pps: float,
    maximum_pps: float,
    target_loss_ratio: float = 1e-7,
    trial_duration_s: float = 5.0,
    duration_step_s: float = 0.1,
    total_duration_s: float = 1800.0,
    credibility: float = 0.95,
) -> SoakResult:
    """Estimate the critical load: the rate with the target loss ratio on average over a long time.

    :param measure: as in ``mdr_search``; no trial ends early.
    :param minimum_pps: lowest rate, above 0; a critical load below it makes the result invalid.
    :param maximum_pps: highest rate; it is the result if the critical load is above it.
    :param target_loss_ratio: from 1e-12 to below 1.
    :param trial_duration_s: duration of the first trial.
    :param duration_step_s: increase of the duration from trial to trial, 0 or more.
    :param total_duration_s: total duration; a trial that would not end within it does not start.
    :param credibility: probability that the critical load is between ``lower`` and ``upper``.
    :returns: the estimate, its interval and the trials.
    :raises SettingsError: naming the invalid parameter.
    """
    for name, value in (
        ("minimum_pps", minimum_pps),
        ("maximum_pps", maximum_pps),
        ("trial_duration_s", trial_duration_s),
        ("total_duration_s", total_duration_s),
    ):
        require_positive(name, value)
    require(maximum_pps > minimum_pps, "maximum_pps", maximum_pps, f"more than minimum_pps, {minimum_pps!r}")
    target = f"a ratio from {_LOWEST_TARGET:g} to below 1, such as 1e-7"
    require(_LOWEST_TARGET <= target_loss_ratio < 1.0, "target_loss_ratio", target_loss_ratio, target)
    require(
        0.0 <= duration_step_s < math.inf, "duration_step_s", duration_step_s, "a finite number, 0 or more"
    )
    longer = f"at least trial_duration_s, {trial_duration_s!r}"
    require(total_duration_s >= trial_duration_s, "total_duration_s", total_duration_s, longer)
    require(0.0 < credibility < 1.0, "credibility", credibility, "a probability between 0 and 1")
    search = _Soak(minimum_pps, maximum_pps, target_loss_ratio)
    spent_s, duration_s = 0.0, trial_duration_s
    while spent_s + duration_s <= total_duration_s:
        trial = perform(measure, search.next_rate(), duration_s, None)
        search.add(trial)
        spent_s += max(duration_s, trial.elapsed_s)
        duration_s += duration_step_s
    return search.result(credibility)


class _Soak:
    def __init__(self, minimum_pps: float, maximum_pps: float, target: float) -> None:
        self._minimum = minimum_pps
        self._maximum = maximum_pps
        self._target = target
        self._trials: list[Trial] = []
        self._passed_in_a_row = 0
        self._posterior = Posterior(
            minimum_pps=minimum_pps, maximum_pps=maximum_pps, target_loss_ratio=target
        )

    def add(self, trial: Trial) -> None:
        self._trials.append(trial)
        self._posterior.add(trial)
        self._passed_in_a_row = self._passed_in_a_row + 1 if passes(trial, self._target) else 0

    def next_rate(self) -> float:
        if not self._trials:
            return self._maximum
        if len(self._trials) < _FIRST_TRIALS:
            return self._clamp(self._trials[0].receive_rate_pps)
        sought = self._posterior.onset() if len(self._trials) % 2 else self._posterior.quantile(0.5)
        rate = self._clamp(sought)
        return self._clamp(rate + (self._lossy_above(rate) - rate) * (1.0 - 0.5**self._passed_in_a_row))

    def result(self, credibility: float) -> SoakResult:
        self._posterior.centre()
        tail = (1.0 - credibility) / 2.0
        lower, critical, upper = (
            self._clamp(self._posterior.quantile(share)) for share in (tail, 0.5, 1.0 - tail)
        )
        hiccups = self._hiccups(upper)
        return SoakResult(
            self._target,
            critical,
            lower,
            upper,
            credibility,
            tuple(self._trials),
            hiccups,
            self._invalid(critical, hiccups),
        )

    def _clamp(self, rate_pps: float) -> float:
        return max(self._minimum, min(self._maximum, rate_pps))

    def _lossy_above(self, rate_pps: float) -> float:
        lossy = (trial.rate_pps for trial in self._trials if not passes(trial, self._target))
        return min((lossy_pps for lossy_pps in lossy if lossy_pps > rate_pps), default=self._maximum)

    def _hiccups(self, upper_pps: float) -> int:
        suspects = [
            trial
            for trial in self._trials
            if trial.rate_pps <= upper_pps and trial.sent > 0 and not passes(trial, self._target)
        ]
        return sum(self._posterior.outlier_probability(trial) > _HICCUP_PROBABILITY for trial in suspects)

    def _invalid(self, critical_pps: float, hiccups: int) -> str:
        if doubt := first_doubt(self._trials):
            return doubt
        if critical_pps <= self._minimum:
            return (
                f"the average loss at the lowest rate, {self._minimum:.6g} pps, exceeds "
                f"{self._target:g}: the critical load is below it"
            )
        if hiccups > _LARGEST_HICCUP_SHARE * len(self._trials):
            return (
                f"{hiccups} of {len(self._trials)} trials lost frames that their rate does not explain: "
                f"no rate has an average loss of {self._target:g}"
            )
        return ""

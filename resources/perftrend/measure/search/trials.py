"""Evaluation of a trial: whether it passes a loss ratio, and whether it is plausible."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

from perftrend.errors import SearchTimeoutError
from perftrend.measurement import Trial

Measure: TypeAlias = Callable[[float, float, float | None], Trial]
"""``measure(rate_pps, duration_s, fail_above)``: send, count, and return the trial.

``fail_above`` is None or a loss ratio: the trial may end as soon as the loss ratio of the whole trial is
certain to exceed it. It then still has the intended duration, but its counters are those of the part that was
sent. It therefore fails every loss ratio up to ``fail_above``, and decides nothing for a larger one.
"""

_ROUNDING = 1e-15

_EARLY = 0.95
"""A trial that took less than this fraction of its duration was ended early."""


def perform(measure: Measure, rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
    """Measure, and return the trial with the requested rate and duration.

    Otherwise a generator that rounds its rate would shift a bound, and the same rate measured twice would
    count as two rates.
    """
    trial = measure(rate_pps, duration_s, fail_above)
    return replace(trial, rate_pps=rate_pps, duration_s=duration_s)


def within(measure: Measure, timeout_s: float | None) -> Measure:
    """Return a measure function that limits the total time of its trials.

    Once the time is used up, it raises :class:`~perftrend.errors.SearchTimeoutError` instead of starting a
    trial. The time between trials does not count.
    """
    elapsed_s = 0.0

    def limited(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        nonlocal elapsed_s
        if timeout_s is not None and elapsed_s >= timeout_s:
            raise SearchTimeoutError(
                f"search not finished after {elapsed_s:.4g} s of trials (timeout_s is {timeout_s:g}); "
                "allow more time or a larger relative_width"
            )
        trial = measure(rate_pps, duration_s, fail_above)
        elapsed_s += trial.elapsed_s
        return trial

    return limited


def passes(trial: Trial, loss_ratio: float) -> bool:
    """Return whether the loss ratio of a trial is at most ``loss_ratio``.

    The comparison is in frames: in floating point 1 - 995/1000 is more than 0.005, although 5 frames of 1000
    are not more than 0.5 %.
    """
    return lost(trial) <= loss_ratio * trial.sent * (1.0 + _ROUNDING)


def lost(trial: Trial) -> int:
    """Return the number of frames lost; below 0 if more were received than sent."""
    return trial.sent - trial.received


def has_ended_early(trial: Trial) -> bool:
    """Return whether a trial was ended before its duration was over."""
    return trial.elapsed_s < _EARLY * trial.duration_s


def explain_missing_lower_bound(
    loss_ratio: float, lost_share: float, rate_pps: float, *, limit: str = "minimum"
) -> str:
    """Return the reason for a missing lower bound: even the lowest rate lost too much."""
    return (
        f"{lost_share:.3g} was lost at the {limit} rate, {rate_pps:.6g} pps: "
        f"the rate of loss ratio {loss_ratio:g} is below it"
    )


def doubt(trial: Trial) -> str:
    """Return why a trial is not valid; empty if it is valid."""
    if trial.invalid:
        return trial.invalid
    where = f"the trial at {trial.rate_pps:.6g} pps for {trial.duration_s:.3g} s"
    if trial.sent <= 0:
        return f"{where} sent nothing"
    if trial.received > trial.sent:
        return f"{where} received {trial.received} frames and sent only {trial.sent}"
    return ""


def first_doubt(trials: Iterable[Trial]) -> str:
    """Return why the first invalid trial is not valid; empty if all trials are valid."""
    return next(filter(None, map(doubt, trials)), "")

"""The changes of a test as text: kind, confidence, and the runs between which each one is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perftrend.model import Change, Run, Verdict
from perftrend.wording import NOTHING, percent, plain

MOST_CONFIDENCE = 0.9999
"""Confidences are not shown above this: the noise is not exactly normal."""


@dataclass(frozen=True, slots=True)
class ChangeCourse:
    """One change as text."""

    run: Run
    """The first run after the change."""
    step: str
    kind: str
    """``regression`` or ``progression``, and whether it is a slow drift."""
    pattern: str
    confidence: str
    effect: str
    """The step in standard deviations."""
    place: str
    """Builds between which the change is at 95 %."""


def courses(verdict: Verdict) -> list[ChangeCourse]:
    """Return the changes of a test as text, newest first, including suspected and vanished ones."""
    changes = [(change, change.pattern) for change in (*verdict.changes, *verdict.vanished)]
    if verdict.suspected:
        changes.append((verdict.suspected, "suspected"))
    runs = verdict.series.runs
    newest_first = sorted(changes, key=lambda each: -each[0].position)
    return [_course(change, pattern, runs) for change, pattern in newest_first if change.position < len(runs)]


def _course(change: Change, pattern: str, runs: Sequence[Run]) -> ChangeCourse:
    return ChangeCourse(
        run=runs[change.position],
        step=percent(change.relative),
        kind=f"{change.direction}, slow drift" if change.drift else str(change.direction),
        pattern=plain(pattern) or NOTHING,
        confidence=_confidence(change.confidence),
        effect=f"{change.effect_size:+.1f} \N{GREEK SMALL LETTER SIGMA}"
        if math.isfinite(change.effect_size)
        else NOTHING,
        place=_place(change, runs),
    )


def _confidence(confidence: float) -> str:
    if math.isnan(confidence):
        return NOTHING
    if confidence > MOST_CONFIDENCE:
        return f"> {100 * MOST_CONFIDENCE:.2f} %"
    return f"{100 * confidence:.2f} %"


def _place(change: Change, runs: Sequence[Run]) -> str:
    if change.last_before is None or change.first_after is None:
        return NOTHING
    return f"{runs[change.last_before].build} and {runs[change.first_after].build}"

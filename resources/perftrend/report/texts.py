"""Verdicts as text: the sorted rows of a report, its summary, and the changes of each test.

A row contains only text, so that the page and the terminal cannot disagree. Names and messages
come from tests and may contain anything; control characters are replaced here, and each output
escapes the rest in its own way.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from perftrend.analysis.families import SharedChange
from perftrend.model import Change, EnvironmentChange, Outcome, Run, Verdict
from perftrend.text import (
    NOTHING,
    UNCHANGED,
    decimals_of_rates,
    format_count,
    line,
    natural_key,
    percent,
    plain,
    relative_change,
)

WORST_FIRST = (
    Outcome.REGRESSION,
    Outcome.TESTBED,
    Outcome.FAILED,
    Outcome.MISSING,
    Outcome.NOT_VALID,
    Outcome.PROGRESSION,
    Outcome.NORMAL,
)
"""The order of the rows."""

SYMBOLS: Mapping[Outcome, str] = {
    Outcome.REGRESSION: "▼",
    Outcome.TESTBED: "▽",
    Outcome.FAILED: "✕",
    Outcome.MISSING: "?",
    Outcome.NOT_VALID: "○",
    Outcome.PROGRESSION: "▲",
    Outcome.NORMAL: "·",
}
"""The symbol before the word, so that it can be recognised without its colour."""

PASSING = frozenset({Outcome.NORMAL, Outcome.PROGRESSION})

_SENTENCE_ORDER = (
    Outcome.REGRESSION,
    Outcome.PROGRESSION,
    Outcome.NORMAL,
    Outcome.TESTBED,
    Outcome.NOT_VALID,
    Outcome.FAILED,
    Outcome.MISSING,
)
_COUNTABLE = frozenset({Outcome.REGRESSION, Outcome.PROGRESSION})
_MEGA = 1e6
MOST_CONFIDENCE = 0.9999
_MOST_PARTS, _LONGEST_PART = 4, 60
"""Confidences are not shown above this: the noise is not exactly normal."""


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """One verdict as text."""

    verdict: Verdict
    test: str
    suite: str
    frame: str
    metric: str
    trend: str
    """In Mpps; with its unit if that is not pps."""
    runs: str
    change: str
    reason: str

    @property
    def outcome(self) -> Outcome:
        """The outcome of the test."""
        return self.verdict.outcome

    @property
    def symbol(self) -> str:
        """The outcome as one character."""
        return SYMBOLS[self.verdict.outcome]


def rows(verdicts: Iterable[Verdict]) -> list[VerdictRow]:
    """Sort and format the verdicts, with as many decimals as the smallest trend needs."""
    ordered = sorted(verdicts, key=_rank)
    decimals = decimals_of_rates(verdict.trend for verdict in ordered if verdict.series.unit == "pps")
    return [_row(verdict, decimals) for verdict in ordered]


def sentence(verdicts: Sequence[Verdict]) -> str:
    """Return the verdict of the job: ``1 regression, 21 normal, 1 failed of 23 tests``.

    Both tests and results are counted if a test has several metrics.
    """
    if not verdicts:
        return "No test was analysed"
    counts = Counter(verdict.outcome for verdict in verdicts)
    tests = len({_identity(verdict) for verdict in verdicts})
    whole = format_count(tests, "test")
    if tests != len(verdicts):
        whole = f"{len(verdicts)} results in {whole}"
    return f"{describe_outcomes(counts)} of {whole}"


def describe_outcomes(counts: Mapping[Outcome, int]) -> str:
    """Return the number of results by outcome as text: ``1 regression, 21 normal, 1 failed``."""
    numbers = ((counts.get(outcome, 0), outcome) for outcome in _SENTENCE_ORDER)
    return ", ".join(_format_outcomes(count, outcome) for count, outcome in numbers if count)


def describe_shared_change(change: SharedChange) -> str:
    """Return a change that many traces share as text.

    ``27 traces with path=ip4 are 0.5 % worse than before (0.3 to 0.7 %), compared with all others``
    """
    ends = sorted(abs(each) for each in (change.low, change.high))
    size, low, high = (f"{100 * each:.2g}" for each in (abs(change.change), *ends))
    amount = f"{size} % {'better' if change.change > 0 else 'worse'} than before ({low} to {high} %)"
    if not change.parameters and change.reference is None:
        return f"all traces are {amount}: the machine, or a change that all tests share"
    if not change.parameters:
        return f"all traces are {amount}; {change.reference}"
    common = ", ".join(f"{name}={value}" for name, value in change.parameters)
    return plain(f"{len(change.traces)} traces with {common} are {amount}, compared with all others")


def describe_environment(changes: Sequence[EnvironmentChange]) -> str:
    """Return what else differs between two runs as text; empty if nothing does.

    ``also different: dut: kernel 6.1.0-18 → 6.1.0-20, and 3 more parts of the environment``
    """
    if not changes:
        return ""
    named = "; ".join(
        f"{line(each.name)} {_cut(line(each.before))} → {_cut(line(each.after))}"
        for each in changes[:_MOST_PARTS]
    )
    more = len(changes) - _MOST_PARTS
    others = f", and {format_count(more, 'more part')} of the environment" if more > 0 else ""
    return f"also different: {named}{others}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_PART else f"{text[: _LONGEST_PART - 1]}…"


def passes(verdicts: Iterable[Verdict]) -> bool:
    """Return whether every test gave a result that is not a regression."""
    return all(verdict.outcome in PASSING for verdict in verdicts)


def _row(verdict: Verdict, decimals: int) -> VerdictRow:
    parameters = verdict.series.key.as_dict()
    return VerdictRow(
        verdict=verdict,
        # A name with a line break would look like a row of its own.
        test=line(parameters.get("test", str(verdict.series.key))),
        suite=line(parameters.get("suite", "")),
        frame=line(parameters.get("frame", NOTHING)),
        metric=line(parameters.get("metric", NOTHING)).upper(),
        trend=_trend(verdict, decimals),
        runs=str(verdict.runs) if verdict.runs else NOTHING,
        change=relative_change(verdict.long_term_change),
        reason=plain(verdict.reason).strip(),
    )


def _trend(verdict: Verdict, decimals: int) -> str:
    if not math.isfinite(verdict.trend):
        return NOTHING
    if verdict.series.unit == "pps":
        return f"{verdict.trend / _MEGA:.{decimals}f}"
    return f"{verdict.trend:.4g} {plain(verdict.series.unit)}"


def _rank(verdict: Verdict) -> tuple[int, float, list[tuple[int, str]]]:
    change = abs(verdict.long_term_change)
    size = -change if math.isfinite(change) else math.inf
    _, test = _identity(verdict)
    return WORST_FIRST.index(verdict.outcome), size, natural_key(f"{test} {verdict.series.key}")


def _identity(verdict: Verdict) -> tuple[str, str]:
    parameters = verdict.series.key.as_dict()
    return parameters.get("suite", ""), parameters.get("test", str(verdict.series.key))


def _format_outcomes(count: int, outcome: Outcome) -> str:
    if outcome is Outcome.TESTBED:
        return format_count(count, "testbed change")
    return format_count(count, outcome) if outcome in _COUNTABLE else f"{count} {outcome}"


@dataclass(frozen=True, slots=True)
class ChangeCourse:
    """One change as text."""

    change: Change
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

    @property
    def has_place(self) -> bool:
        """Whether these builds are known."""
        return self.place != NOTHING


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
        change=change,
        run=runs[change.position],
        step=format_step(change.relative),
        kind=f"{change.direction}, slow drift" if change.drift else str(change.direction),
        pattern=plain(pattern) or NOTHING,
        confidence=_confidence(change.confidence),
        effect=f"{change.effect_size:+.1f} \N{GREEK SMALL LETTER SIGMA}"
        if math.isfinite(change.effect_size)
        else NOTHING,
        place=_place(change, runs),
    )


def format_step(relative: float) -> str:
    """Return the size of a change; one that would round to zero has two significant digits."""
    if relative_change(relative) == UNCHANGED and relative:
        return f"{100 * relative:+.2g} %"
    return percent(relative)


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

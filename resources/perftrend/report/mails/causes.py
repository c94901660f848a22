"""Causes of missing valid results: one group for each cause, instead of one line for each test.

Two messages have the same cause if they differ only in parts that vary from test to test: numbers,
addresses, paths, times, and the test's own name. A group shows the message of its first test.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from perftrend.model import Outcome, Run, Verdict
from perftrend.report.mails.mail_text import line, name_of
from perftrend.text import natural_key

WITHOUT_RESULT = (Outcome.FAILED, Outcome.NOT_VALID, Outcome.MISSING)
"""The outcomes that the mail covers, in the order of equally large groups."""

NAMES_SHOWN = 3

_DISTINCT_NAME = 8
"""Minimum length of a name that is hardly in a message by accident, in characters."""

_LOOKED_AT = 1000
"""Characters of a message that are compared: a longer one contains a log."""

# The order matters: an address may look like a time, a time like an address, and all have numbers.
_VARIABLE = tuple(
    (re.compile(pattern, re.ASCII), name)
    for pattern, name in (
        (r"\b[a-z][a-z0-9+.-]{1,9}://[^\s'\"<>,;]+", "<url>"),
        (
            r"\b(?:\d{4}-\d\d-\d\d|\d{8})[t ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:z\b|[+-]\d\d:?\d\d\b)?",
            "<time>",
        ),
        (r"\b(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}\b", "<address>"),
        (r"\b(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b", "<address>"),
        (r"(?<![\w:])\d{1,2}:\d\d:\d\d(?:[.,]\d+)?(?![\w:])", "<time>"),
        (r"(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:])(?:/\d+)?", "<address>"),
        (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+|/\d+)?\b", "<address>"),
        (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<n>"),
        (r"\b0x[0-9a-f]+\b", "<n>"),
        # A commit, and not a word: it has both digits and letters.
        (r"\b(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,64}\b", "<n>"),
        (r"(?<![\w/<])~?(?:/[\w.@+-]+)+/?", "<path>"),
        (r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?", "<n>"),
        (r"<n>(?:[,;]? ?<n>)+", "<n>"),
    )
)


@dataclass(frozen=True, slots=True)
class Cause:
    """Tests without a valid result for the same reason."""

    outcome: Outcome
    message: str
    """The reason of the first test, with its line breaks."""
    count: int
    """Number of tests, regardless of the number of metrics of each."""
    new: int
    """Those of them that had a valid result before the newest runs."""
    names: tuple[str, ...]
    """The first of the tests, at most NAMES_SHOWN."""

    @property
    def others(self) -> int:
        """The number of tests that are not named."""
        return self.count - len(self.names)


def causes(verdicts: Iterable[Verdict], *, run: Run, new_runs: int = 1) -> list[Cause]:
    """Group the tests without a valid result, the largest group first.

    :param verdicts: of one run, in any order; those with a valid result are ignored.
    :param run: the run that was analysed.
    :param new_runs: the number of newest runs that no mail has reported.
    """
    found: dict[tuple[Outcome, str], list[Verdict]] = {}
    for verdict in verdicts:
        if lacks_result(verdict):
            found.setdefault((verdict.outcome, normalise_reason(verdict)), []).append(verdict)
    made = {key: _cause(group, run, new_runs) for key, group in found.items()}
    ordered = sorted(made, key=lambda key: (-made[key].count, WITHOUT_RESULT.index(key[0]), key[1]))
    return [made[key] for key in ordered]


def lacks_result(verdict: Verdict) -> bool:
    """Return whether a test has no valid result; results that a user marked as invalid do not count."""
    results = verdict.series.results
    return verdict.outcome in WITHOUT_RESULT and not (results and results[-1].marked)


def is_new(verdict: Verdict, run: Run, new_runs: int) -> bool:
    """Return whether a test without a valid result had one before the newest ``new_runs`` runs."""
    series = verdict.series
    usable = [index for index, result in enumerate(series.results) if result.usable]
    if not usable:
        # It never had one: that is new while all of its runs are.
        return len(series.runs) <= new_runs
    last = series.runs[usable[-1]]
    since = len(series.runs) - 1 - usable[-1]
    if verdict.outcome is Outcome.MISSING and last.job == run.job:
        # A run without the test is not a run of its trace, but it has a build number.
        since = max(since, run.build - last.build)
    return since <= new_runs


def normalise_reason(verdict: Verdict) -> str:
    """Return a reason with placeholders for the parts that vary from test to test."""
    # Cut first: a message may be megabytes of a log.
    text = line(verdict.reason[:_LOOKED_AT]).lower()
    parameters = verdict.series.key.as_dict()
    for name in ("test", "suite"):
        own = line(parameters.get(name, "")).lower()
        if len(own) >= _DISTINCT_NAME:
            text = text.replace(own, "<test>")
    for pattern, replacement in _VARIABLE:
        text = pattern.sub(replacement, text)
    return text


def _cause(group: list[Verdict], run: Run, new_runs: int) -> Cause:
    # Sorted by key and reason, so that the order of the verdicts does not matter.
    ordered = sorted(group, key=lambda each: (natural_key(name_of(each)), str(each.series.key), each.reason))
    tests: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in ordered:
        tests.setdefault((verdict.series.key.as_dict().get("suite", ""), name_of(verdict)), []).append(
            verdict
        )
    return Cause(
        outcome=ordered[0].outcome,
        message=ordered[0].reason,
        count=len(tests),
        new=sum(all(is_new(each, run, new_runs) for each in metrics) for metrics in tests.values()),
        names=tuple(dict.fromkeys(name for _, name in tests))[:NAMES_SHOWN],
    )

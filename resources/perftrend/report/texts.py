"""Verdicts as text: the sorted rows of a report, its summary, and its table on a terminal or in a log.

A row contains only text, so that the page and the terminal cannot disagree. Names and messages
come from tests and may contain anything; control characters are replaced here, and each output
escapes the rest in its own way.

On a terminal the table fits its width and long cells wrap; on a narrow one the reasons are below the
table. Elsewhere, in a file or in a Jenkins console, a row is one line of any length, so that ``grep``
finds a test together with its verdict.

One test of two builds is printed in the output format of CSIT.

Source: "Bisecting", section Console output, for that format.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from perftrend.analysis.comparison import CsitComparison
from perftrend.analysis.families import SharedChange
from perftrend.model import Change, EnvironmentChange, Outcome, Run, Verdict
from perftrend.text import (
    NOTHING,
    UNCHANGED,
    decimals_of_rates,
    fit_rows,
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

_STYLES = {
    Outcome.REGRESSION: "bold red",
    Outcome.TESTBED: "yellow",
    Outcome.FAILED: "red",
    Outcome.MISSING: "yellow",
    Outcome.NOT_VALID: "yellow",
    Outcome.PROGRESSION: "bold green",
    Outcome.NORMAL: "",
}
_UNLIMITED = 100_000
_WIDE = 120
"""Columns that a terminal needs to show reasons in the table."""
_NARROW = 80
"""Columns below which rows wrap."""
_LONGEST_REASON = 240


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


def values(name: str, samples: Sequence[float]) -> Iterator[str]:
    """Yield the values of a build in chronological order, and sorted by value."""
    yield f"Values of {name} in the order of time: {_format_list(samples)}"
    yield f"Values of {name} by value: {_format_list(sorted(samples))}"


def groups(found: CsitComparison) -> Iterator[str]:
    """Yield the difference, the groups with their bits, which description is shorter, and the verdict."""
    if not (found.parent.samples and found.current.samples):
        yield "Difference of averages: none, because a build has no values"
        yield f"Test result classification: {found.classification}"
        return
    yield f"Difference of averages: {found.difference_percent:+.3f} % of the parent average"
    for name, group in (("parent", found.parent), ("current", found.current), ("combined", found.combined)):
        yield (
            f"jumpavg representation of {name}: size={len(group.samples)} avg={group.average:.8g} "
            f"stdev={group.deviation:.6g} bits={group.bits:.3f}"
        )
    shorter = "two groups" if found.are_two else "one group"
    yield f"The description as {shorter} is the shorter one by {abs(found.shorter_by_bits):.3f} bits."
    yield f"Test result classification: {found.classification}"


def _format_list(samples: Sequence[float]) -> str:
    return f"[{', '.join(f'{sample:.8g}' for sample in samples)}]"


def terminal_table(verdicts: Sequence[Verdict], *, stream: TextIO) -> None:
    """Write the table, followed by the verdict of the job in one sentence.

    :param verdicts: one for each trace, in any order.
    :param stream: the output; characters that its encoding cannot represent become question marks.
    """
    terminal = stream.isatty()
    text = StringIO()
    console = Console(
        file=text, force_terminal=terminal, width=None if terminal else _UNLIMITED, highlight=False
    )
    if verdicts:
        content = rows(verdicts)
        wide = console.width >= _WIDE
        if console.width < _NARROW:
            _print_narrow(content, console)
        else:
            console.print(_table(content, with_reasons=wide, longest=None if terminal else _LONGEST_REASON))
        console.print()
        if not wide:
            _print_reasons(content, console)
    style = "bold green" if verdicts and passes(verdicts) else "bold red"
    console.print(Text(sentence(verdicts), style=style))
    encoding = stream.encoding or "utf-8"
    lines = "".join(f"{line.rstrip()}\n" for line in text.getvalue().split("\n")[:-1])
    stream.write(lines.encode(encoding, "replace").decode(encoding))


def _table(content: Sequence[VerdictRow], *, with_reasons: bool, longest: int | None) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    table.add_column("Test", overflow="fold", min_width=16)
    table.add_column("Frame", no_wrap=True)
    table.add_column("Metric", no_wrap=True)
    space = " " if with_reasons else "\n"
    table.add_column(f"Trend{space}[Mpps]", justify="right", no_wrap=True)
    table.add_column("Runs", justify="right", no_wrap=True)
    table.add_column(f"Long-term{space}change", justify="right", no_wrap=True)
    table.add_column("Verdict", no_wrap=True, min_width=len(Outcome.PROGRESSION))
    if with_reasons:
        table.add_column("Reason", overflow="fold", min_width=24)
    for row in content:
        cells = [row.test, row.frame, row.metric, row.trend, row.runs, row.change]
        reason = [Text(_reason(row, longest))] if with_reasons else []
        table.add_row(*(Text("-" if cell == NOTHING else cell) for cell in cells), _outcome(row), *reason)
    return table


def _print_narrow(content: Sequence[VerdictRow], console: Console) -> None:
    headings = ("Test", "Frame", "Metric", "Trend [Mpps]", "Runs", "Long-term change", "Verdict")
    cells = [
        (
            "-" if cell == NOTHING else cell
            for cell in (row.test, row.frame, row.metric, row.trend, row.runs, row.change)
        )
        for row in content
    ]
    rows = [headings, *((*row, str(each.outcome)) for row, each in zip(cells, content, strict=True))]
    first, *others = fit_rows(rows, console.width)
    for heading in first:
        console.print(Text(heading, style="bold"))
    for wrapped, row in zip(others, content, strict=True):
        for each in wrapped:
            text = Text(each)
            text.highlight_words([str(row.outcome)], _STYLES[row.outcome])
            console.print(text)


def _print_reasons(content: Sequence[VerdictRow], console: Console) -> None:
    reported = [row for row in content if row.outcome is not Outcome.NORMAL and row.reason]
    for row in reported:
        console.print(Text.assemble(_outcome(row), f" {row.test}: {_reason(row)}"))
    if reported:
        console.print()


def _outcome(row: VerdictRow) -> Text:
    return Text(str(row.outcome), style=_STYLES[row.outcome])


def _reason(row: VerdictRow, longest: int | None = None) -> str:
    """Return the reason on one line."""
    reason = " ".join(row.reason.split())
    return textwrap.shorten(reason, longest, placeholder=" ...") if longest else reason

"""The report as a table on a terminal, and as aligned text elsewhere.

On a terminal the table fits its width and long cells wrap; on a narrow one the reasons are below the
table. Elsewhere, in a file or in a Jenkins console, a row is one line of any length, so that ``grep``
finds a test together with its verdict.

One test of two builds is printed in the output format of CSIT.

Source: "Bisecting", section Console output, for that format.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from perftrend.analysis.comparison import CsitComparison
from perftrend.model import Outcome, Verdict
from perftrend.report.texts import VerdictRow, passes, rows, sentence
from perftrend.text import NOTHING, fit_rows

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
    rows = [headings, *((*row, str(line.outcome)) for row, line in zip(cells, content, strict=True))]
    first, *others = fit_rows(rows, console.width)
    for line in first:
        console.print(Text(line, style="bold"))
    for lines, row in zip(others, content, strict=True):
        for line in lines:
            text = Text(line)
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

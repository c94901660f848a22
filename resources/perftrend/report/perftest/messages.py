"""A per-patch test as plain text: the message in Gerrit, and the text of the console.

The message has one sentence to act on, a table, notes, and a link. The console shows each test in the format
of CSIT, followed by the result of perftrend.

Tables and output of programs in the message are indented by four spaces. Old and new pages of Gerrit, and
mails, show such lines unchanged in a fixed-width font, and none of them is interpreted as a comment that
requests a job.

Source: "Bisecting", section Console output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perftrend.perftest import PatchFinding, PatchTestVerdict
from perftrend.report.perftest import texts
from perftrend.report.perftest.texts import PatchTestRow, PerftestReport
from perftrend.report.texts import groups, values
from perftrend.text import excerpt, fit_table, format_count, format_probability, line

ROOM = 10_000
"""Maximum number of characters of the table; the rest of Gerrit's limit of 16 Ki is for the other parts."""
_FAILED_TESTS = 3
"""Maximum number of tests failing with the patch whose last lines are shown."""
_LAST_LINES = 20
_REASONS = 10
_INDENT = "    "
_HEADINGS = ("test", "parent", "patch", "difference", "interval", "verdict")


def message(report: PerftestReport) -> str:
    """Return the text for Gerrit."""
    return "\n\n".join(paragraph for paragraph in _paragraphs(report) if paragraph) + "\n"


def _paragraphs(report: PerftestReport) -> Iterator[str]:
    verdict = report.verdict
    yield texts.sentence(report)
    if verdict.broken:
        yield _block(excerpt(verdict.broken.last_lines)[-_LAST_LINES:])
    if verdict.tests:
        yield _table(verdict.tests, texts.rows(verdict.tests))
        yield texts.legend(report)
    for test in [each for each in verdict.tests if each.finding is PatchFinding.FAILS][:_FAILED_TESTS]:
        reason = list(test.current.failed.values())[-1]
        yield f"{line(test.test)} {texts.outcome(test)}:"
        yield _block(excerpt(reason.splitlines())[-_LAST_LINES:])
    yield texts.subject(report)
    yield "\n".join(f"- {note}" for note in [*_reasons(verdict.tests), *map(line, texts.notes(report))])
    yield "\n\n".join(_links(report))


def _links(report: PerftestReport) -> Iterator[str]:
    if report.link:
        yield f"Whole report: {report.link}"
    # A local path on the machine that measured is useless to readers elsewhere.
    if "://" in report.archive:
        yield f"Files of all rounds: {report.archive}"


def _reasons(tests: Sequence[PatchTestVerdict]) -> Iterator[str]:
    """Yield why tests have no numbers, or not from all rounds, for at most ``_REASONS`` tests."""
    rows = [row for row in texts.rows(tests) if row.reason and row.judged.finding is not PatchFinding.FAILS]
    for row in rows[:_REASONS]:
        yield f"{row.test}: {row.verdict}: {row.reason}"
    if len(rows) > _REASONS:
        yield f"{format_count(len(rows) - _REASONS, 'more test')} could not be measured as intended."


def _table(tests: Sequence[PatchTestVerdict], rows: Sequence[texts.PatchTestRow]) -> str:
    """Return the worst tests as a table, as many as fit, and the number of others."""
    lines = [f"{_INDENT}{line}".rstrip() for line in _align_rows(rows)]
    fitting = length = 0
    for text in lines:
        length += len(text) + 1
        if length > ROOM:
            break
        fitting += 1
    shown = max(fitting - 1, 0)
    left = tests[shown:]
    if left:
        findings = [texts.outcome(test) for test in left]
        counts = ", ".join(f"{findings.count(each)} {each}" for each in dict.fromkeys(findings))
        return "\n".join(
            [*lines[: shown + 1], f"{_INDENT}… and {format_count(len(left), 'more test')}: {counts}"]
        )
    return "\n".join(lines)


def _block(lines: Sequence[str]) -> str:
    return "\n".join(f"{_INDENT}{line}" for line in lines)


def console(report: PerftestReport, *, width: int | None = None) -> str:
    """Return the details of all tests, in the order of their names, followed by the table.

    :param width: the columns of a terminal, which the table fits; None: rows are not wrapped.
    """
    tests = sorted(report.verdict.tests, key=lambda test: test.test)
    lines = [line for index, test in enumerate(tests) for line in (*_test(index, test), "")]
    if report.verdict.broken:
        lines += [*excerpt(report.verdict.broken.last_lines), ""]
    if tests:
        lines += [*_align_rows(texts.rows(report.verdict.tests), width), ""]
    if legend := texts.legend(report):
        lines.append(legend)
    lines += [texts.subject(report), *texts.notes(report), "", texts.sentence(report)]
    return "\n".join(lines) + "\n"


def _test(index: int, test: PatchTestVerdict) -> Iterator[str]:
    yield f"Test {index}: {line(test.test)}"
    for name, build in (("parent", test.parent), ("current", test.current)):
        yield from (f"  {text}" for text in values(name, build.samples))
        for number, reason in build.failed.items():
            yield f"  Failed with {name} in round {number}: {line(reason)}"
        for number, reason in build.untrusted.items():
            yield f"  Not valid with {name} in round {number}: {line(reason)}"
    if test.documented:
        yield from (f"  {text}" for text in groups(test.documented))
    [row] = texts.rows([test])
    if test.comparison:
        yield (
            f"  perftrend: {_format_verdict(row)}, {row.difference} against the parent, "
            f"in the interval {row.interval}; "
            f"worse with a probability of {format_probability(test.comparison.probability_worse)}, "
            f"p-value {test.comparison.evidence.p_value:.2g}"
        )
    else:
        yield f"  perftrend: {_format_verdict(row)}"


def _format_verdict(row: texts.PatchTestRow) -> str:
    return f"{row.verdict} ({row.reason})" if row.reason else row.verdict


def _align_rows(rows: Sequence[PatchTestRow], width: int | None = None) -> list[str]:
    """Return a line of headings and one for each row, in columns; more lines only to fit a width."""
    cells = [(row.test, row.parent, row.patch, row.difference, row.interval, row.verdict) for row in rows]
    return fit_table([_HEADINGS, *cells], width)

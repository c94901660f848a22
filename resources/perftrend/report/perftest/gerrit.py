"""The message in Gerrit: one sentence to act on, a table, notes, and a link.

Tables and output of programs are indented by four spaces. Old and new pages of Gerrit, and mails, show such
lines unchanged in a fixed-width font, and none of them is interpreted as a comment that requests a job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perftrend.perftest import PatchFinding, PatchTestVerdict
from perftrend.report.perftest import texts
from perftrend.report.perftest.contents import PerftestReport
from perftrend.report.perftest.text_table import align
from perftrend.report.prose import excerpt, format_count, line

ROOM = 10_000
"""Maximum number of characters of the table; the rest of Gerrit's limit of 16 Ki is for the other parts."""
_FAILED_TESTS = 3
"""Maximum number of tests failing with the patch whose last lines are shown."""
_LAST_LINES = 20
_REASONS = 10
_INDENT = "    "


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
    lines = [f"{_INDENT}{line}".rstrip() for line in align(rows)]
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

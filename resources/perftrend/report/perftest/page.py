"""The folder of a per-patch test's report: a page, the same as JSON, the message and the console's text.

The page is plain HTML with a separate style sheet, so that it displays under Jenkins's policy for artifacts.
The JSON has everything that the message and the page show, and all samples. ``docs/formats/perftest.rst``
documents its keys, and a schema next to it checks them. JSON has no NaN, so a value that does not exist is
null.

The message in Gerrit has one sentence to act on, a table, notes, and a link. The console shows each test in
the format of CSIT, followed by the result of perftrend. Tables and output of programs in the message are
indented by four spaces. Old and new pages of Gerrit, and mails, show such lines unchanged in a fixed-width
font, and none of them is interpreted as a comment that requests a job.

Source: "Bisecting", section Console output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from perftrend.model import finite
from perftrend.perftest import PatchFinding, PatchTestResults, PatchTestVerdict
from perftrend.report import flame_graph
from perftrend.report.folder import (
    CONSOLE,
    INDEX,
    MESSAGE,
    STYLE,
    format_json,
    instructions,
    iso_time,
    render,
    style,
    write_files,
)
from perftrend.report.perftest import texts
from perftrend.report.perftest.texts import PatchTestRow, PerftestReport
from perftrend.report.references import References
from perftrend.report.texts import groups, values
from perftrend.text import excerpt, fit_table, format_count, format_probability, line, plain

DOCUMENT = "perftest.json"
FORMAT = "perftrend-perftest-1"
"""The first key of the document; the number is increased if a key changes its meaning."""

ROOM = 10_000
"""Maximum number of characters of the table; the rest of Gerrit's limit of 16 Ki is for the other parts."""
_FAILED_TESTS = 3
"""Maximum number of tests failing with the patch whose last lines are shown."""
_LAST_LINES = 20
_REASONS = 10
_INDENT = "    "
_HEADINGS = ("test", "parent", "patch", "difference", "interval", "verdict")


def write(directory: Path, report: PerftestReport) -> Path:
    """Write the report into a directory: see :func:`perftrend.report.folder.write_files`."""
    return write_files(directory, files(report))


def files(report: PerftestReport) -> dict[str, str]:
    """Return all files of a report by name."""
    return {
        INDEX: _page(report),
        STYLE: style("perftest.css", "flame-graph.css"),
        DOCUMENT: format_json(document(report)),
        MESSAGE: message(report),
        CONSOLE: console(report),
    }


def _page(report: PerftestReport) -> str:
    verdict = report.verdict
    return render(
        "perftest.html",
        title="Per-patch test",
        run=f"{plain(report.job)}/{report.build}",
        started=report.started,
        finished=report.finished,
        subject=report.subject,
        report=report,
        sentence=texts.sentence(report),
        state="pass" if verdict.vote > 0 else "fail" if verdict.vote < 0 else "open",
        outcome=f"{verdict.vote:+d}" if verdict.vote else "0",
        verdict=verdict,
        references=References(report.settings),
        notes=texts.notes(report),
        legend=texts.legend(report),
        rows=texts.rows(verdict.tests),
        flames=report.instructions and flame_graph.draw(report.instructions),
        last_lines=excerpt(verdict.broken.last_lines) if verdict.broken else [],
    )


def document(report: PerftestReport) -> dict[str, Any]:
    """Return the complete report, ready for JSON."""
    subject, verdict = report.subject, report.verdict
    broken = verdict.broken
    return {
        "format": FORMAT,
        "sentence": texts.sentence(report),
        "ended": report.ended,
        "vote": verdict.vote if report.ended else 0,
        "job": plain(report.job),
        "build": report.build,
        "testbed": plain(subject.testbed) or None,
        "simulated": subject.simulated,
        "parent": subject.parent,
        "patch": subject.patch,
        "change": subject.change,
        "patch_set": subject.patch_set,
        "page": subject.page or None,
        "merge": subject.is_merge,
        "started": iso_time(report.started),
        "finished": iso_time(report.finished),
        "rounds": verdict.rounds,
        "maximum_rounds": report.maximum_rounds,
        "settled": verdict.is_settled,
        "threshold": report.threshold,
        "confidence": report.confidence,
        "formula": report.formula,
        "broken": broken
        and {
            "build": str(broken.side),
            "reason": plain(broken.reason),
            "last_lines": excerpt(broken.last_lines),
        },
        "tests": [_test(test) for test in verdict.tests],
        "instructions": report.instructions and instructions(report.instructions),
        "notes": texts.notes(report),
        "archive": plain(report.archive) or None,
    }


def _test(test: PatchTestVerdict) -> dict[str, Any]:
    return {
        "test": plain(test.test),
        "unit": plain(test.unit),
        "better": str(test.better),
        "finding": str(test.finding),
        "settled": test.is_settled,
        "parent": _build_results(test.parent),
        "current": _build_results(test.current),
        "comparison": _comparison(test),
        "documented": _csit_comparison(test),
    }


def _build_results(build: PatchTestResults) -> dict[str, Any]:
    return {
        "rounds": [
            {"round": number, "samples": [finite(sample) for sample in sampled.samples]}
            for number, sampled in build.values.items()
        ],
        "failed": [{"round": number, "reason": plain(reason)} for number, reason in build.failed.items()],
        "not_valid": [
            {"round": number, "reason": plain(reason)} for number, reason in build.untrusted.items()
        ],
    }


def _comparison(test: PatchTestVerdict) -> dict[str, Any] | None:
    found = test.comparison
    if found is None:
        return None
    return {
        "relative": finite(found.relative),
        "low": finite(found.low),
        "high": finite(found.high),
        "probability_worse": finite(found.probability_worse),
        "probability_better": finite(found.probability_better),
        "p_value": found.evidence.p_value,
        "p_limit": found.evidence.limit,
        "smallest": finite(found.smallest),
        "outliers": len(found.outliers),
        "parent": finite(found.parent),
        "patch": finite(found.patch),
    }


def _csit_comparison(test: PatchTestVerdict) -> dict[str, Any] | None:
    found = test.documented
    if found is None:
        return None
    return {
        "difference_percent": finite(found.difference_percent),
        "bits": {
            "parent": finite(found.parent.bits),
            "current": finite(found.current.bits),
            "combined": finite(found.combined.bits),
        },
        "groups": 2 if found.are_two else 1,
        "shorter_by_bits": finite(abs(found.shorter_by_bits)),
        "classification": str(found.classification),
    }


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
    lines = [line for index, test in enumerate(tests) for line in (*_console_lines(index, test), "")]
    if report.verdict.broken:
        lines += [*excerpt(report.verdict.broken.last_lines), ""]
    if tests:
        lines += [*_align_rows(texts.rows(report.verdict.tests), width), ""]
    if legend := texts.legend(report):
        lines.append(legend)
    lines += [texts.subject(report), *texts.notes(report), "", texts.sentence(report)]
    return "\n".join(lines) + "\n"


def _console_lines(index: int, test: PatchTestVerdict) -> Iterator[str]:
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

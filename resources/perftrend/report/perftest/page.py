"""The folder of a per-patch test's report: a page, the same as JSON, the message and the console's text.

The page is plain HTML with a separate style sheet, so that it displays under Jenkins's policy for artifacts.
The JSON has everything that the message and the page show, and all samples. ``docs/formats/perftest.rst``
documents its keys, and a schema next to it checks them. JSON has no NaN, so a value that does not exist is
null.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perftrend.model import finite
from perftrend.perftest import PatchTestResults, PatchTestVerdict
from perftrend.report.folder import (
    CONSOLE,
    INDEX,
    MESSAGE,
    STYLE,
    format_json,
    iso_time,
    render,
    style,
    write_files,
)
from perftrend.report.perftest import texts
from perftrend.report.perftest.messages import console, message
from perftrend.report.perftest.texts import PerftestReport
from perftrend.report.references import References
from perftrend.text import excerpt, plain

DOCUMENT = "perftest.json"
FORMAT = "perftrend-perftest-1"
"""The first key of the document; the number is increased if a key changes its meaning."""


def write(directory: Path, report: PerftestReport) -> Path:
    """Write the report into a directory: see :func:`perftrend.report.folder.write_files`."""
    return write_files(directory, files(report))


def files(report: PerftestReport) -> dict[str, str]:
    """Return all files of a report by name."""
    return {
        INDEX: _page(report),
        STYLE: style("perftest.css"),
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
        "testbed": plain(subject.testbed),
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

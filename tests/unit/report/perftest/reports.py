"""Reports of made-up verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from perftrend.model import BuildMeasurement
from perftrend.perftest import PatchVerdict, Round, judge
from perftrend.report.perftest import PerftestReport, PerftestSubject
from tests.unit.perftest.made import BEGIN, CRITERIA, measured, noisy

SUBJECT = PerftestSubject(
    "1n-veth", "a" * 40, "b" * 40, change=1234, patch_set=3, page="https://review.example/c/router/+/1234"
)


def rounds_of(
    levels: Mapping[str, tuple[float, float]],
    failed: Mapping[str, Sequence[str]] | None = None,
    *,
    number: int = 8,
) -> list[Round]:
    """Return rounds of tests by their levels with the parent and the patch.

    :param failed: why a test fails with the parent and with the patch; empty: it does not.
    """
    series = {
        test: [noisy(level, rounds=number, seed=10 * place + side) for side, level in enumerate(both)]
        for place, (test, both) in enumerate(levels.items())
    }

    def build(side: int, index: int) -> BuildMeasurement:
        reasons = {test: why[side] for test, why in (failed or {}).items() if why[side]}
        values = {test: each[side][index] for test, each in series.items() if test not in reasons}
        return measured(2 * index + side, values, reasons)

    return [Round(build(0, index), build(1, index)) for index in range(number)]


def report(verdict: PatchVerdict, subject: PerftestSubject = SUBJECT, **others: Any) -> PerftestReport:
    return PerftestReport(
        **{
            "verdict": verdict,
            "subject": subject,
            "job": "perftrend-perftest-1n-veth",
            "build": 7,
            "started": BEGIN,
            "finished": BEGIN + timedelta(minutes=20),
            "threshold": CRITERIA.threshold,
            "confidence": CRITERIA.confidence,
            "formula": CRITERIA.formula,
            "maximum_rounds": CRITERIA.maximum_rounds,
            "link": "https://jenkins.example/job/p/7/artifact/report/index.html",
            "archive": "https://jenkins.example/job/p/7/artifact/archives/p/7",
            **others,
        }
    )


def compared(
    levels: Mapping[str, tuple[float, float]],
    failed: Mapping[str, Sequence[str]] | None = None,
    **others: Any,
) -> PerftestReport:
    """Return the report of tests by their levels with the parent and the patch, after one block of rounds."""
    number = others.pop("number", 8)
    done = rounds_of(levels, failed, number=number)
    criteria = replace(CRITERIA, minimum_rounds=number)
    return report(judge(done, [*levels, *(set(failed or {}) - set(levels))], criteria), **others)

"""Conversion of session records to plain values of JSON, and back.

One record is one fact: the range and strategy (``range``), a build (``built``), one that failed
(``broken``), a measurement (``measured``), the decision to measure a commit (``decided``), the end
(``ended``). See docs/formats/bisection.rst.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from perftrend.bisect.outcome import BisectOutcome, MeasureStep, Suspicion
from perftrend.bisect.state import BisectState, CommitRange, RangeCommit, Strategy
from perftrend.model import Better, BuildMeasurement, MetricSamples, finite

FORMAT = "perftrend-bisection-1"

Record = dict[str, Any]


def of_range(commit_range: CommitRange, strategy: Strategy) -> Record:
    """Return the first record."""
    return {
        "record": "range",
        "format": FORMAT,
        "old": commit_range.old,
        "first_parent": commit_range.first_parent,
        "strategy": strategy.name,
        "options": dict(strategy.options),
        "commits": [[each.hash, *each.parents] for each in commit_range.commits],
    }


def of_built(commit: str, seconds: float) -> Record:
    """Return the record of a build."""
    return {"record": "built", "commit": commit, "seconds": round(seconds, 3)}


def of_broken(commit: str, reason: str) -> Record:
    """Return the record of a build that failed."""
    return {"record": "broken", "commit": commit, "reason": reason}


def of_measured(measured: BuildMeasurement) -> Record:
    """Return the record of a measurement; a sample that is not finite becomes null."""
    values = {
        test: {
            "samples": [finite(sample) for sample in each.samples],
            "unit": each.unit,
            "better": each.better.value,
        }
        for test, each in measured.values.items()
    }
    return {
        "record": "measured",
        "commit": measured.commit,
        "started": _format_time(measured.started),
        "finished": _format_time(measured.finished),
        "values": values,
        "failed": dict(measured.failed),
        "archive": measured.archive,
        **_present(against=measured.against, variant=measured.variant, disturbed=measured.disturbed),
    }


def of_decided(step: MeasureStep) -> Record:
    """Return the record of a decision."""
    return {
        "record": "decided",
        "commit": step.commit,
        "reason": step.reason,
        "belief": _suspicions(step.belief),
        **_present(against=step.against),
        **_of_remaining(step.remaining),
    }


def of_ended(outcome: BisectOutcome) -> Record:
    """Return the record of the outcome, for users and programs; a replay does not need it."""
    return {
        "record": "ended",
        "kind": outcome.kind.value,
        "reason": outcome.reason,
        "culprits": [
            {
                "commits": list(culprit.commits),
                "confidence": finite(culprit.confidence),
                "effects": {
                    test: {
                        name: finite(getattr(effect, name))
                        for name in ("before", "after", "relative", "low", "high", "probability")
                    }
                    for test, effect in culprit.effects.items()
                },
            }
            for culprit in outcome.culprits
        ],
        "belief": _suspicions(outcome.belief),
        "smallest_visible": {test: finite(size) for test, size in outcome.smallest_visible.items()},
        "outliers": {test: list(which) for test, which in outcome.outliers.items()},
        **_of_remaining(outcome.remaining),
    }


def range_of(record: Mapping[str, Any]) -> CommitRange:
    """Parse the range in the first record.

    :raises LookupError, TypeError, ValueError: if it is not a range.
    """
    if record["record"] != "range" or record["format"] != FORMAT:
        raise ValueError(f"no {FORMAT}")
    commits = tuple(RangeCommit(str(each[0]), tuple(map(str, each[1:]))) for each in record["commits"])
    return CommitRange(str(record["old"]), commits, bool(record["first_parent"]))


def replay(state: BisectState, record: Mapping[str, Any]) -> BisectState:
    """Return the state after one more record.

    :raises LookupError, TypeError, ValueError: if it is invalid.
    """
    kind = record["record"]
    if kind == "built":
        return state.with_built(str(record["commit"]), float(record["seconds"]))
    if kind == "broken":
        return state.with_broken(str(record["commit"]), str(record["reason"]))
    if kind == "measured":
        return state.with_measured(_parse_measurement(record))
    if kind == "decided":
        step = MeasureStep(
            str(record["commit"]),
            str(record["reason"]),
            _parse_belief(record["belief"]),
            str(record.get("against", "")),
            record.get("remaining"),
        )
        return state.with_step(step)
    if kind == "ended":
        return state
    raise ValueError(f"unknown record {kind!r}")


def _parse_measurement(record: Mapping[str, Any]) -> BuildMeasurement:
    values = {
        str(test): MetricSamples(
            tuple(math.nan if sample is None else float(sample) for sample in each["samples"]),
            str(each["unit"]),
            Better(each["better"]),
        )
        for test, each in record["values"].items()
    }
    return BuildMeasurement(
        str(record["commit"]),
        datetime.fromisoformat(record["started"]),
        datetime.fromisoformat(record["finished"]),
        values,
        {str(test): str(reason) for test, reason in record["failed"].items()},
        str(record["archive"]),
        str(record.get("against", "")),
        int(record.get("variant", 0)),
        str(record.get("disturbed", "")),
    )


def _present(**values: str | int) -> Record:
    """Leave out values that are empty or 0."""
    return {name: value for name, value in values.items() if value}


def _of_remaining(measurements: int | None) -> Record:
    return {} if measurements is None else {"remaining": measurements}


def _suspicions(belief: Sequence[Suspicion]) -> list[list[Any]]:
    return [[round(each.probability, 6), *each.commits] for each in belief]


def _parse_belief(belief: Sequence[Sequence[Any]]) -> tuple[Suspicion, ...]:
    return tuple(Suspicion(tuple(map(str, each[1:])), float(each[0])) for each in belief)


def _format_time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()

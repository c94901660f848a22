"""Conversion of a recorded test to the results of its traces.

A trace's parameters never come from the message: see :mod:`perftrend.archive.parameters`. Output of a test
that is not understood becomes an invalid result with a reason, and its form is listed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from perftrend import message
from perftrend.archive import csit_messages, fragments, parameters
from perftrend.archive.csit_messages import MetricValue, ParsedMessage
from perftrend.archive.result_records import RecordedTest
from perftrend.errors import ArchiveError
from perftrend.model import Better, Measurement, Result, Status, TraceKey

UNKNOWN = "unknown"
NO_PERFORMANCE_TEST = "no performance test"
_UNKNOWN_FORM = "the test passed, but its message has no known form"
_LARGEST = 1e18
"""No device handles this many packets, bits or bytes per second; sums of such values would overflow."""

_STATUS = {"PASS": Status.PASS, "FAIL": Status.FAIL, "SKIP": Status.SKIP, "NOT RUN": Status.SKIP}


@dataclass(frozen=True, slots=True)
class InterpretedResults:
    """The results of a test."""

    results: tuple[Result, ...]
    """One per metric; empty if it is not a performance test."""
    unknown: tuple[str, ...]
    """The forms that are not understood."""


def of_test(test: RecordedTest, *, testbed: str = "") -> Iterator[Result]:
    """Yield one result per metric of the test; none if it is not a performance test.

    :param testbed: the testbed, if the suites' metadata do not name one.
    """
    yield from interpret(test, testbed=testbed).results


def interpret(test: RecordedTest, *, testbed: str = "") -> InterpretedResults:
    """Return a test's results and the unknown forms; arguments are those of :func:`of_test`."""
    status = _STATUS.get(test.status, Status.FAIL)
    expected = parameters.metrics_of(test)
    text = fragments.plain(test.message)
    measurement, parsed, reason = _parse_test(test, text, expected)
    if measurement:
        readings = parsed.readings
        expected = expected or ([] if readings else [measurement.kind])
    else:
        readings = {
            _metric_name(metric, reading, test): reading for metric, reading in parsed.readings.items()
        }
    missing = [metric for metric in expected if metric not in parsed.readings]
    unknown = [*test.unknown, *parsed.unknown]
    if status is Status.PASS and missing and not readings and not unknown:
        unknown.append(fragments.shape(text))
    for metric in missing:
        readings[metric] = _invalid_value(metric, test, reason if status is Status.PASS else "")
    if not readings and not unknown:
        unknown.append(NO_PERFORMANCE_TEST)
    key = parameters.of_test(test) | {
        "testbed": test.testbed or testbed or (measurement.testbed if measurement else UNKNOWN),
    }
    results = []
    for metric, reading in readings.items():
        value, absurd = _average(reading.samples)
        results.append(
            Result(
                TraceKey.of(**key | {"metric": metric}),
                unit=reading.unit,
                better=reading.better,
                status=status,
                samples=reading.samples,
                value=value,
                invalid=reading.invalid or absurd,
                message="" if status is Status.PASS else _for_people(text),
                details=_details(measurement) if measurement else reading.details,
            )
        )
    return InterpretedResults(tuple(results), tuple(unknown))


def _average(samples: tuple[float, ...]) -> tuple[float, str]:
    """Return the average, NaN if there is none, and why the samples are not plausible, else empty."""
    absurd = next((each for each in samples if not abs(each) <= _LARGEST), None)
    if absurd is not None:
        return math.nan, f"{absurd:.6g} is no measured value"
    return (math.fsum(samples) / len(samples) if samples else math.nan), ""


def _parse_test(
    test: RecordedTest, text: str, expected: list[str]
) -> tuple[Measurement | None, ParsedMessage, str]:
    """Return the readings of the test, and the reason for metrics that are missing."""
    if test.readings is not None:
        return None, ParsedMessage(dict(test.readings)), "the result tells no such metric"
    try:
        measurement = message.parse(text)
    except ArchiveError as error:
        return None, ParsedMessage(unknown=[fragments.shape(str(error))]), str(error)
    if measurement:
        return (
            measurement,
            ParsedMessage(dict(_of_measurement(measurement))),
            "the message tells no such result",
        )
    parsed = csit_messages.read(text, expected=expected)
    reason = "the message tells no such result" if parsed.readings else _UNKNOWN_FORM
    return None, parsed, reason


def _of_measurement(measurement: Measurement) -> Iterator[tuple[str, MetricValue]]:
    for name, samples in measurement.rates.items():
        interval = measurement.intervals.get(name)
        yield name, MetricValue(samples, measurement.invalid or (interval.invalid if interval else ""))


def _metric_name(metric: str, reading: MetricValue, test: RecordedTest) -> str:
    """Return the metric's name with its unit, if the unit differs from the expected one.

    A trace has one unit; without this, a night in another unit could not be stored with the others.
    """
    usual = parameters.unit_of(metric, test)
    if not reading.samples:
        reading.unit = usual
    return metric if reading.unit == usual else f"{metric}_{reading.unit}"


def _invalid_value(metric: str, test: RecordedTest, reason: str) -> MetricValue:
    better = Better.LOWER if parameters.lower_is_better(metric) else Better.HIGHER
    return MetricValue(invalid=reason, unit=parameters.unit_of(metric, test), better=better)


def _details(measurement: Measurement) -> dict[str, Any]:
    fields = message.document(measurement)
    del fields["samples"]
    return fields


def _for_people(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith(message.MARKER)).strip()

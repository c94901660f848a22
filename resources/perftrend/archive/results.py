"""From a recorded test to the results of its traces.

A trace's parameters come from the suite metadata, the tags and the names alone, never from the
message: a test that failed before it measured anything belongs to the same traces as the night
before. What a test gave and nobody understood is a result that is not valid, with its reason.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from perftrend import message
from perftrend.archive import foreign
from perftrend.archive.foreign import Reading
from perftrend.archive.output import RecordedTest
from perftrend.errors import ArchiveError
from perftrend.model import Better, Measurement, Result, Status, TraceKey

UNIT = "pps"
UNKNOWN = "unknown"

METRICS_OF_TAGS = {
    "MRR": ("mrr",),
    "NDRPDR": ("ndr", "pdr"),
    "NDR": ("ndr",),
    "PDR": ("pdr",),
    "SOAK": ("soak",),
    "HOLD": ("hold",),
}
"""What a test with this tag measures, whether it came to it or not."""

_STATUS = {"PASS": Status.PASS, "FAIL": Status.FAIL, "SKIP": Status.SKIP, "NOT RUN": Status.SKIP}

_TAG_FORMS = {
    "frame": re.compile(r"(\d+B|IMIX)", re.IGNORECASE),
    "cores": re.compile(r"(\d+C)", re.IGNORECASE),
    "driver": re.compile(r"DRV_(\w+)", re.IGNORECASE),
}
_TAKEN = ("testbed", "metric")
_OTHER_PARAMETER = re.compile(r"(?P<name>[A-Za-z]\w*)=(?P<value>.+)")


def of_test(test: RecordedTest, *, testbed: str = "") -> Iterator[Result]:
    """Yield one result per metric of the test; none if it is no performance test.

    :param testbed: the testbed, where the suites' metadata name none.
    """
    status = _STATUS.get(test.status, Status.FAIL)
    expected = dict.fromkeys(metric for tag in test.tags for metric in METRICS_OF_TAGS.get(tag.upper(), ()))
    measurement, readings, unread = _read(test.message)
    if measurement and not readings and not expected:
        expected = {measurement.kind: None}
    parameters = _parameters(test) | {
        "testbed": test.testbed or testbed or (measurement.testbed if measurement else UNKNOWN),
    }
    for metric in [*readings, *(metric for metric in expected if metric not in readings)]:
        reading = readings.get(metric) or Reading(invalid=unread if status is Status.PASS else "")
        yield Result(
            TraceKey.of(**parameters, metric=metric),
            unit=UNIT,
            better=Better.HIGHER,
            status=status,
            samples=reading.samples,
            value=math.fsum(reading.samples) / len(reading.samples) if reading.samples else math.nan,
            invalid=reading.invalid,
            message="" if status is Status.PASS else _for_people(test.message),
            details=_details(measurement),
        )


def _read(text: str) -> tuple[Measurement | None, dict[str, Reading], str]:
    """Return what the message tells, and what to say of a metric that it does not tell."""
    try:
        measurement = message.parse(text)
    except ArchiveError as error:
        return None, {}, str(error)
    if measurement:
        return measurement, dict(_of_measurement(measurement)), "the message tells no such result"
    return None, foreign.read(text), "the test passed, but its message has no known form"


def _of_measurement(measurement: Measurement) -> Iterator[tuple[str, Reading]]:
    for name, samples in measurement.rates.items():
        interval = measurement.intervals.get(name)
        yield name, Reading(samples, measurement.invalid or (interval.invalid if interval else ""))


def _details(measurement: Measurement | None) -> dict[str, Any]:
    if measurement is None:
        return {}
    fields = message.document(measurement)
    del fields["samples"]
    return fields


def _for_people(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith(message.MARKER)).strip()


def _parameters(test: RecordedTest) -> dict[str, str]:
    parameters = {"test": test.name, "suite": test.suite}
    for name, form in _TAG_FORMS.items():
        for found in filter(None, map(form.fullmatch, test.tags)):
            value = found[1]
            parameters.setdefault(name, value.lower() if name == "driver" else value.upper())
    for found in filter(None, map(_OTHER_PARAMETER.fullmatch, test.tags)):
        if found["name"] not in _TAKEN:
            parameters.setdefault(found["name"], found["value"])
    return parameters

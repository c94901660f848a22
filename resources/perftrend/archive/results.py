"""Conversion of a recorded test to the results of its traces.

The parameters of a trace come from the suites' metadata, the tags and the names alone, never from the
message: a test that failed before its measurement belongs to the same traces as on the previous night. In
other CI, tags repeat some parts of the names, but not all of them.

Output of a test that is not understood becomes an invalid result with a reason, and its form is listed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from perftrend import message
from perftrend.archive import csit_messages
from perftrend.archive.csit_messages import MetricValue, ParsedMessage
from perftrend.archive.result_records import RecordedTest
from perftrend.errors import ArchiveError
from perftrend.measurement import LATENCY_LOADS, Measurement, cycle_metric, plausible_cycles
from perftrend.model import NOT_SUPPORTED, Better, Result, Status, TraceKey

UNKNOWN = "unknown"
NO_PERFORMANCE_TEST = "no performance test"
_UNKNOWN_FORM = "the test passed, but its message has no known form"
_LARGEST = 1e18
"""No device handles this many packets, bits or bytes per second; sums of such values would overflow."""

_STATUS = {"PASS": Status.PASS, "FAIL": Status.FAIL, "SKIP": Status.SKIP, "NOT RUN": Status.SKIP}

_TAG_FORMS = {
    "frame": re.compile(r"(\d+B|IMIX)", re.IGNORECASE),
    "cores": re.compile(r"(?:\d+T)?(\d+C)", re.IGNORECASE),
    "threads": re.compile(r"(\d+T)\d+C", re.IGNORECASE),
    "driver": re.compile(r"DRV_(\w+)", re.IGNORECASE),
    "nic": re.compile(r"NIC_(.+)", re.IGNORECASE),
}
_NAME_FORMS = {
    "frame": re.compile(r"(\d+b|imix)(?:_v4_\d)?", re.IGNORECASE),
    "cores": re.compile(r"(?:\d+t)?(\d+c)", re.IGNORECASE),
    "threads": re.compile(r"(\d+t)\d+c", re.IGNORECASE),
}
_NIC = re.compile(r"\d+ge\d+p\d+\w+", re.IGNORECASE)
_SMALL = ("driver", "nic")
_RESERVED = ("testbed", "metric", "test", "suite", "experiment")
_OTHER = re.compile(r"(?P<name>[A-Za-z]\w*)=(?P<value>.+)")
_NUMBERED = re.compile(r"tc\d+-(?P<name>.+)", re.IGNORECASE)

_METRICS = {
    "MRR": ("mrr",),
    "NDRPDR": ("ndr", "pdr"),
    "NDR": ("ndr",),
    "PDR": ("pdr",),
    "NDRDISC": ("ndr",),
    "PDRDISC": ("pdr",),
    "SOAK": ("soak",),
    "HOLD": ("hold",),
    "RECONF": ("reconf_packets", "reconf_time"),
}
_FURTHER_PDR = re.compile(r"PLR_([0-9.]+(?:E-[0-9]+)?)")
"""Set on every test of a run that searches for further PDRs. It is named after the loss ratio, so that
``*pdr*`` selects only the tests that search."""
_MEASURES_LATENCY = "LATENCY"
"""Tag of every test of a run whose generator measures latency."""
_UNITS = {
    "reconf_packets": "packets",
    "reconf_time": "s",
    "hoststack_bandwidth": "bps",
    **dict.fromkeys(LATENCY_LOADS, "us"),
}
_COUNTING = ("mrr", "ndr", "pdr")
_LOWER_IS_BETTER = ("reconf_packets", "reconf_time", *LATENCY_LOADS)


@dataclass(frozen=True, slots=True)
class InterpretedResults:
    """The results of a test."""

    results: tuple[Result, ...]
    """One per metric; empty if it is not a performance test."""
    unknown: tuple[str, ...]
    """The forms that are not understood."""
    unsupported: frozenset[TraceKey] = frozenset()
    """The traces that the test would have if its testbed could run it."""


def of_test(test: RecordedTest, *, testbed: str = "") -> Iterator[Result]:
    """Yield one result per metric of the test; none if it is not a performance test.

    :param testbed: the testbed, if the suites' metadata do not name one.
    """
    yield from interpret(test, testbed=testbed).results


def _keys(test: RecordedTest, testbed: str) -> Iterator[TraceKey]:
    return (result.key for result in of_test(test, testbed=testbed))


def interpret(test: RecordedTest, *, testbed: str = "") -> InterpretedResults:
    """Return a test's results and the unknown forms; arguments are those of :func:`of_test`."""
    status = _STATUS.get(test.status, Status.FAIL)
    expected = metrics_of(test)
    text = csit_messages.plain(test.message)
    if status is Status.SKIP and text.startswith(NOT_SUPPORTED):
        return InterpretedResults((), (), frozenset(_keys(replace(test, message=""), testbed)))
    measurement, parsed, reason = _parse_test(test, text, expected)
    if measurement and status is Status.PASS:
        parsed.readings |= _of_cycles(measurement)
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
        unknown.append(csit_messages.shape(text))
    for metric in missing:
        readings[metric] = _invalid_value(metric, test, reason if status is Status.PASS else "")
    if not readings and not unknown:
        unknown.append(NO_PERFORMANCE_TEST)
    key = parameters_of(test) | {
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
        return None, ParsedMessage(dict(test.readings)), "the result has no such metric"
    try:
        measurement = message.parse(text)
    except ArchiveError as error:
        return None, ParsedMessage(unknown=[csit_messages.shape(str(error))]), str(error)
    if measurement:
        return (
            measurement,
            ParsedMessage(dict(_of_measurement(measurement))),
            "the message has no such result",
        )
    parsed = csit_messages.read(text, expected=expected)
    reason = "the message has no such result" if parsed.readings else _UNKNOWN_FORM
    return None, parsed, reason


def _of_measurement(measurement: Measurement) -> Iterator[tuple[str, MetricValue]]:
    for name, samples in measurement.rates.items():
        interval = measurement.intervals.get(name)
        yield name, MetricValue(samples, measurement.invalid or (interval.invalid if interval else ""))
    for name, latency in measurement.latency.items():
        samples = () if latency.invalid else (latency.average_us,)
        yield name, MetricValue(samples, measurement.invalid or latency.invalid, "us", Better.LOWER)
    if measurement.kind == "reconf":
        found = measurement.reconfiguration
        values = (found.lost, found.lost_s) if found else ()
        for name, sample in zip_longest(_METRICS["RECONF"], values):
            samples = () if sample is None else (float(sample),)
            yield name, MetricValue(samples, measurement.invalid, _UNITS[name], Better.LOWER)


def _of_cycles(measurement: Measurement) -> dict[str, MetricValue]:
    """Return the cycles per packet of a valid measurement; others have none, instead of invalid ones."""
    if measurement.invalid:
        return {}
    return {
        cycle_metric(part): MetricValue((value,), "", "cycles", Better.LOWER)
        for part, value in plausible_cycles(measurement.cycles_per_packet).items()
    }


def _metric_name(metric: str, reading: MetricValue, test: RecordedTest) -> str:
    """Return the metric's name with its unit, if the unit differs from the expected one.

    A trace has one unit; without this, a night in another unit could not be stored with the others.
    """
    usual = unit_of(metric, test)
    if not reading.samples:
        reading.unit = usual
    return metric if reading.unit == usual else f"{metric}_{reading.unit}"


def _invalid_value(metric: str, test: RecordedTest, reason: str) -> MetricValue:
    better = Better.LOWER if lower_is_better(metric) else Better.HIGHER
    return MetricValue(invalid=reason, unit=unit_of(metric, test), better=better)


def _details(measurement: Measurement) -> dict[str, Any]:
    fields = message.document(measurement)
    del fields["samples"]
    return fields


def _for_people(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith(message.MARKER)).strip()


def parameters_of(test: RecordedTest) -> dict[str, str]:
    """Return the parameters of a test except its testbed and its metric."""
    parameters = {"test": name_of(test), "suite": test.suite}
    # The NIC in the name is the exact one; the tag has only its model.
    words = [*_words(test.suite), *_words(test.name)]
    found = [*_nics(words), *_forms(_TAG_FORMS, test.tags), *_forms(_NAME_FORMS, _words(test.name))]
    for name, value in found:
        parameters.setdefault(name, value.lower() if name in _SMALL else value.upper())
    for tag in filter(None, map(_OTHER.fullmatch, test.tags)):
        if tag["name"] not in _RESERVED:
            parameters.setdefault(tag["name"], tag["value"])
    return parameters


def name_of(test: RecordedTest) -> str:
    """Return the name of a test without its number, which once was its position among the other tests."""
    numbered = _NUMBERED.fullmatch(test.name)
    return numbered["name"].lower() if numbered else test.name


def metrics_of(test: RecordedTest) -> list[str]:
    """Return the metrics that a test measures, also if it failed before: by its tags, or its name's end."""
    tags = [tag.upper() for tag in test.tags]
    if metrics := [metric for tag in tags for metric in _METRICS.get(tag, ())]:
        if "NDRPDR" in tags:
            ratios = filter(None, map(_FURTHER_PDR.fullmatch, tags))
            metrics += (f"pdr_{ratio[1].lower()}" for ratio in ratios)
            metrics += LATENCY_LOADS if _MEASURES_LATENCY in tags else ()
        return list(dict.fromkeys(metrics))
    if "HOSTSTACK" in tags:
        rates = {"CPS", "RPS"} & {word.upper() for word in _words(test.name)}
        return ["hoststack_rate" if rates else "hoststack_bandwidth"]
    words = _words(name_of(test))
    known = {name for name, _ in _forms(_NAME_FORMS, words)}
    return list(_METRICS.get(words[-1].upper(), ())) if {"frame", "cores"} <= known else []


def unit_of(metric: str, test: RecordedTest) -> str:
    """Return the unit of a test's results of a metric: a trace has one unit, on failed nights too."""
    if metric in _UNITS:
        return _UNITS[metric]
    if metric not in (*_COUNTING, "hoststack_rate"):
        return "pps"
    words = {word.lower() for text in (test.name, *test.tags) for word in re.split(r"[-_ ]", text)}
    return next((unit for unit in ("cps", "tps", "rps") if unit in words), "pps")


def lower_is_better(metric: str) -> bool:
    """Whether a metric counts losses or is a latency."""
    return metric in _LOWER_IS_BETTER


def _words(name: str) -> list[str]:
    return re.split(r"[-. ]", name)


def _nics(words: list[str]) -> Iterator[tuple[str, str]]:
    yield from (("nic", word) for word in words if _NIC.fullmatch(word))


def _forms(forms: dict[str, re.Pattern[str]], texts: list[str]) -> Iterator[tuple[str, str]]:
    for name, form in forms.items():
        yield from ((name, found[1]) for found in map(form.fullmatch, texts) if found)

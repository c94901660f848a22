"""The JSON model of one test's result, which packet-forwarding CI has written since 2021: one file per test.

Versions of the model differ in the fields that they leave out. All known fields are read; unknown ones are
listed. See ``docs/formats/output.rst``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from perftrend.archive.csit_messages import MetricValue
from perftrend.archive.fragments import finite, scale_to_base_unit
from perftrend.archive.result_records import Heading, RecordedTest, moment
from perftrend.model import Better

_MARKS = ("test_id", "test_name_long", "test_type")
_LOAD = re.compile(r"pdr_?(\d+)", re.IGNORECASE)
_KNOWN = {
    "mrr": {"receive_rate"},
    "ndrpdr": {"ndr", "pdr", "latency_forward", "latency_reverse"},
    "soak": {"critical_rate"},
    "reconf": {"aggregate_rate", "loss"},
    "hoststack": {"bandwidth", "rate"},
}
_VALUES = ("values", "value", "avg")
_ENDING = re.compile(r"(?:\.info)?\.json(?:\.gz)?\Z")


def is_result(fields: Mapping[str, Any]) -> bool:
    """Whether the keys of an object are those of a test's result."""
    return isinstance(fields.get("result"), dict) or any(mark in fields for mark in _MARKS)


def test_of(fields: Mapping[str, Any], heading: Heading, file: str) -> RecordedTest:
    """Return the test of a file; data about the run is added to the heading.

    :param fields: the object in the file.
    :param file: the file's name, which is the name of the test if its fields contain none.
    """
    suite, name = _place(fields, file)
    tags = fields.get("tags")
    tags = [str(tag) for tag in tags] if isinstance(tags, list) else []
    kind = str(fields.get("test_type", ""))
    if kind and kind.upper() not in map(str.upper, tags):
        tags.append(kind.upper())
    passed = fields.get("passed")
    test = RecordedTest(
        name, suite, tags, "PASS" if passed is True else "FAIL", str(fields.get("message", ""))
    )
    heading.ran(moment(str(fields.get("start_time", ""))), moment(str(fields.get("end_time", ""))))
    for role, what in (("device", "dut"), ("generator", "tg")):
        version = str(fields.get(f"{what}_version") or "")
        if version:
            heading.versions.setdefault(role, version)
            heading.versions.setdefault(str(fields.get(f"{what}_type") or role).lower(), version)
    _read(fields.get("result"), test)
    return test


def _place(fields: Mapping[str, Any], file: str) -> tuple[str, str]:
    """Return the suite and the name of the test, as in the output.xml of the same run."""
    identity = str(fields.get("test_id") or "")
    suite, dot, name = identity.rpartition(".")
    if not dot:
        return "", identity or str(fields.get("test_name_long") or _ENDING.sub("", file))
    # Robot Framework converts the suites' file names to titles; test_id is all lower case.
    title = suite.title() if suite.islower() else suite
    return title.partition(".")[2], name


def _read(result: object, test: RecordedTest) -> None:
    """Enter the measurement, and the fields of it that are unknown, into the test."""
    if not isinstance(result, dict):
        return
    kind = str(result.get("type", ""))
    known = _KNOWN.get(kind)
    if known is None:
        # A test that failed before its measurement has a result of type unknown.
        test.unknown += [f"result of type {kind[:40]!r}"] if test.status == "PASS" else []
        return
    test.unknown += [f"{kind}: {key[:40]!r}" for key in result if key not in known and key != "type"]
    try:
        readings = dict(_readings(kind, result))
    except ValueError as error:
        test.unknown.append(f"{kind}: {error}")
    else:
        test.readings = {metric: reading for metric, reading in readings.items() if reading.samples}


def _readings(kind: str, result: Mapping[str, Any]) -> Iterator[tuple[str, MetricValue]]:
    """Yield the reading of each metric of a result.

    :raises ValueError: if a value is not a finite number, or a unit is not known.
    """
    if kind == "mrr":
        rate = _at(result, "receive_rate")
        yield "mrr", _metric_value(_at(rate, "rate"), "pps", details=_bandwidth(rate))
    elif kind == "ndrpdr":
        yield "ndr", _metric_value_of_bounds(_at(result, "ndr"))
        latencies = _latencies(result)
        yield (
            "pdr",
            _metric_value_of_bounds(_at(result, "pdr"), {"latency_us": latencies} if latencies else {}),
        )
    elif kind == "soak":
        yield "soak", _metric_value_of_bounds(_at(result, "critical_rate"))
    elif kind == "reconf":
        held = _at(result, "aggregate_rate")
        rates, _ = _values(_at(held, "rate"), "pps")
        details = {"aggregate_rate": {"rate": rates[0]} | _bandwidth(held)} if rates else {}
        loss = _at(result, "loss")
        yield "reconf_packets", _metric_value(_at(loss, "packet"), "packets", Better.LOWER, details)
        yield "reconf_time", _metric_value(_at(loss, "time"), "s", Better.LOWER, details)
    elif kind == "hoststack":
        yield "hoststack_bandwidth", _metric_value(_at(result, "bandwidth"), "bps")
        yield "hoststack_rate", _metric_value(_at(result, "rate"), "rps")


def _metric_value_of_bounds(bounds: object, details: Mapping[str, Any] | None = None) -> MetricValue:
    all_details = dict(details or {})
    for side in ("lower", "upper"):
        bound = _at(bounds, side)
        if (rate := _at(bound, "rate")) is not None:
            rates, _ = _values(rate, "pps")
            all_details[side] = {"rate": rates[0]} | _bandwidth(bound) if rates else {}
    return _metric_value(_at(bounds, "lower", "rate"), "pps", details=all_details)


def _metric_value(
    quantity: object, unit: str, better: Better = Better.HIGHER, details: Mapping[str, Any] | None = None
) -> MetricValue:
    samples, unit = _values(quantity, unit)
    return MetricValue(samples, unit=unit, better=better, details=dict(details or {}))


def _values(quantity: object, unit: str) -> tuple[tuple[float, ...], str]:
    """Return the values of a number or of ``{"values" or "value" or "avg": …, "unit": …}``, scaled."""
    raw = quantity
    if isinstance(quantity, dict):
        unit = str(quantity.get("unit") or unit)
        raw = next((quantity[name] for name in _VALUES if quantity.get(name) not in (None, [])), None)
    each = [] if raw is None else raw if isinstance(raw, list) else [raw]
    scaled_values = tuple(scale_to_base_unit(finite(str(value)), unit)[0] for value in each)
    return scaled_values, scale_to_base_unit(0.0, unit)[1]


def _bandwidth(rate: object) -> dict[str, float]:
    values, _ = _values(_at(rate, "bandwidth"), "bps")
    return {"bandwidth_bps": math.fsum(values) / len(values)} if values else {}


def _latencies(result: Mapping[str, Any]) -> dict[str, list[dict[str, Any] | None]]:
    """Return latencies by load, forward and reverse, in the form of messages: ``{"90%": […]}``."""
    directions = [_at(result, f"latency_{name}") for name in ("forward", "reverse")]
    loads = {load: None for direction in directions if isinstance(direction, dict) for load in direction}
    by_load = {
        f"{found[1]}%" if (found := _LOAD.fullmatch(load)) else load: [
            _latency(_at(direction, load)) for direction in directions
        ]
        for load in loads
    }
    return {load: streams for load, streams in by_load.items() if any(streams)}


def _latency(fields: object) -> dict[str, Any] | None:
    if not isinstance(fields, dict) or not all(name in fields for name in ("min", "avg", "max")):
        return None
    latency: dict[str, Any] = {name: finite(str(fields[name])) for name in ("min", "avg", "max")}
    histogram = str(fields.get("hdrh") or "")
    if latency["min"] < 0:
        return None
    return latency | {"hdrh": histogram} if histogram else latency


def _at(node: object, *path: str) -> object:
    """Return the value at a path of keys; None if it is missing."""
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return node

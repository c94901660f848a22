"""Reads output.json of Robot Framework 7, and JSON files with the result of one test, as a stream.

The keys of a file determine which of them it is. Before Robot Framework 7.2, an output.json consisted of
the root suite itself.

Packet-forwarding CI has written the result of one test per file since 2021. These files differ
in the fields that they leave out. All known fields are read; unknown ones are listed. See
``docs/formats/output.rst``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from perftrend.archive.csit_messages import MetricValue, finite, scale_to_base_unit
from perftrend.archive.json_stream import Cursor, JsonOutline
from perftrend.archive.result_records import (
    SUITES_LIMIT,
    Heading,
    RecordedTest,
    Suite,
    SuiteRecord,
    after,
    moment,
)
from perftrend.archive.source import ByteStream
from perftrend.errors import ArchiveError
from perftrend.model import Better

_PASSED_OVER = ("body", "setup", "teardown", "telemetry", "statistics", "errors")

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


class NoResultError(ArchiveError):
    """A JSON file with other content, which may be in the same folder as the results of tests."""


def read_suites(stream: ByteStream, record: SuiteRecord, *, name: str = "") -> None:
    """Enter all suites and tests of a JSON file into a record, up to damage.

    :param name: the file's name, which is the name of the test if a result contains none.
    :raises ArchiveError: if the file is damaged, or neither an output nor the result of a test.
    :raises OSError, EOFError, zlib.error: as the stream does.
    """
    cursor = Cursor(JsonOutline(stream, record.heading.lines), record.charge)
    fields: dict[str, Any] = {}
    reader = _JsonReader(cursor, record)
    root = Suite()
    record.root.suites.append(root)
    for key in cursor.members():
        if key == "suite":
            reader.suite(root)
        elif key in ("tests", "suites"):
            reader.field(key, root, depth=1)
        elif key in _PASSED_OVER:
            cursor.skip()
        else:
            fields[key] = cursor.value()
    if is_result(fields):
        test = test_of(fields, record.heading, name)
        root.suites.append(Suite(test.suite, tests=[test]))
    elif root.name or root.tests or root.suites:
        record.heading.generator = str(fields.get("generator", "Robot"))
        _complete(root, fields)
    else:
        raise NoResultError("is neither an output of Robot Framework nor the result of a test")


class _JsonReader:
    """Reads suites and tests from a cursor that is positioned before them."""

    def __init__(self, cursor: Cursor, record: SuiteRecord) -> None:
        self._cursor = cursor
        self._record = record

    def suite(self, suite: Suite, depth: int = 1) -> None:
        """Fill a suite from the next object."""
        if depth > SUITES_LIMIT:
            raise ArchiveError(f"suites are nested more than {SUITES_LIMIT} deep")
        self._record.charge("")
        fields: dict[str, Any] = {}
        for key in self._cursor.members():
            if key in ("name", "message", "metadata", "start_time", "elapsed_time"):
                fields[key] = self._cursor.value()
                _complete(suite, fields)
            else:
                self.field(key, suite, depth)
        started = moment(str(fields.get("start_time", "")))
        self._record.heading.ran(started, after(started, str(fields.get("elapsed_time", ""))))

    def field(self, key: str, suite: Suite, depth: int) -> None:
        """Read the suites or the tests of a suite."""
        if key == "suites":
            for _ in self._cursor.items():
                inner = Suite()
                suite.suites.append(inner)
                self.suite(inner, depth + 1)
        elif key == "tests":
            for _ in self._cursor.items():
                self._test(suite)
        else:
            self._cursor.skip()

    def _test(self, suite: Suite) -> None:
        self._record.charge("")
        test = RecordedTest("", "")
        started, elapsed_s = None, ""
        for key in self._cursor.members():
            if key == "name":
                test.name = self._cursor.text()
            elif key == "status":
                test.status = self._cursor.text()
            elif key == "message":
                test.message = self._cursor.text()
            elif key == "tags":
                test.tags = [self._cursor.text() for _ in self._cursor.items()]
            elif key == "start_time":
                started = moment(self._cursor.text())
            elif key == "elapsed_time":
                elapsed_s = self._cursor.text()
            else:
                self._cursor.skip()
        suite.tests.append(test)
        self._record.heading.ran(started, after(started, elapsed_s))


def _complete(suite: Suite, fields: dict[str, Any]) -> None:
    """Copy an object's fields about the suite itself."""
    suite.name = str(fields.get("name", suite.name))
    suite.message = str(fields.get("message", suite.message))
    metadata = fields.get("metadata")
    if isinstance(metadata, dict):
        suite.metadata = {name: str(value) for name, value in metadata.items()}


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

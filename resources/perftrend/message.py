"""The message of a test: sentences for users, and one line of JSON with all data.

The sentences have the form that packet-forwarding CI has used for years, so that users and
existing parsers find what they expect. The line after them begins with :data:`MARKER` and
is ASCII, so that neither XML nor a terminal can change it. Its schema is published in
``docs/formats/message.schema.json``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError

from perftrend import measurement
from perftrend.errors import ArchiveError
from perftrend.measurement import (
    CriticalLoad,
    HeldRate,
    Interval,
    LoadLatency,
    Measurement,
    Phase,
    Reconfiguration,
    Step,
)

MARKER = "perftrend: "
"""The prefix of the line of JSON."""

SCHEMA = 1
"""Version of the JSON: a parser refuses greater versions and knows all smaller ones."""

GAP_BYTES = 20
"""The bytes on the wire in addition to the frame: preamble, start delimiter and gap."""

_MOST_FRAMES = 2**63 - 1
"""Larger counts cannot be divided as floating-point numbers."""

_Bounds: TypeAlias = tuple[float, float] | tuple[float, float, str]
"""Lower, upper and, if a bound is not valid, the reason."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A step in the JSON: its trial is given by its index among all trials."""

    trial: int
    reason: str
    bounds: tuple[_Bounds, ...]


@dataclass(frozen=True, slots=True)
class _Phase:
    """A phase in the JSON."""

    name: str
    duration_s: float
    relative_width: float
    steps: tuple[_Step, ...]


@dataclass(frozen=True, slots=True)
class _Way:
    """The part of the JSON with the course of a search."""

    phases: tuple[_Phase, ...] = ()


_MEASUREMENT = TypeAdapter(Measurement)
_WAY = TypeAdapter(_Way)
_OPTIONAL = (
    "loss_ratios",
    "phases",
    "strategy",
    "conditional_throughput_pps",
    "mrr_pps",
    "latency",
    "cycles_per_packet",
    "critical_load",
    "held",
    "reconfiguration",
)
"""Fields that are omitted if they are empty, as in the messages of older versions."""


def render(measurement: Measurement) -> str:
    """Return the message of a test.

    :param measurement: the result; its times must have a time zone.
    :returns: several lines, the last of them the JSON.
    :raises ValueError: if a number is not finite, or a time has no time zone.
    """
    return "\n".join([*_sentences(measurement), line(measurement)])


def line(measurement: Measurement) -> str:
    """Return the line of JSON alone: a test that fails after the measurement adds it to its message.

    :raises ValueError: like :func:`render`.
    """
    return MARKER + json.dumps(document(measurement), separators=(",", ":"), allow_nan=False)


def document(measurement: Measurement) -> dict[str, Any]:
    """Return the measurement as in the JSON: strings, numbers, lists and objects.

    :raises ValueError: if a time has no time zone, or a step's trial is not among the trials.
    """
    # Of a trial, what is not known is omitted, as in the messages of older versions.
    fields: dict[str, Any] = _MEASUREMENT.dump_python(
        replace(measurement, phases=()), mode="json", exclude_none=True
    )
    fields |= _WAY.dump_python(_Way(tuple(_compact(measurement))), mode="json")
    fields = {name: value for name, value in fields.items() if value or name not in _OPTIONAL}
    for name in ("started", "finished"):
        moment = getattr(measurement, name)
        if moment.utcoffset() is None:
            raise ValueError(f"{name} has no time zone: {moment}")
        fields[name] = moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return {"schema": SCHEMA, **fields}


def parse(text: str) -> Measurement | None:
    """Read the message of a test: the inverse of :func:`render`.

    :param text: the whole message; sentences around the line of JSON are ignored. The last of several
        such lines counts: a test that measures again adds its newest result last.
    :returns: the measurement, its times in UTC; None if there is no such line.
    :raises ArchiveError: if the line is not valid or of a newer schema.
    """
    lines = [each for each in text.split("\n") if each.startswith(MARKER + "{")]
    if not lines:
        return None
    try:
        return measurement_of(json.loads(lines[-1].removeprefix(MARKER)))
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"the message's JSON is broken: {error}") from error


def measurement_of(document: Mapping[str, Any]) -> Measurement:
    """Return the measurement of a JSON object: the inverse of :func:`document`.

    :param document: the result of :func:`document`; samples may have been omitted.
    :returns: the measurement, its times in UTC.
    :raises ArchiveError: if a field is not valid, or the schema is newer.
    :raises ValueError: if a number is not finite.
    """
    fields = dict(document)
    _check_schema(fields.pop("schema", None))
    way = {"phases": fields.pop("phases", [])}
    try:
        measurement = _MEASUREMENT.validate_json(json.dumps(fields, allow_nan=False), strict=True)
        phases = _WAY.validate_json(json.dumps(way, allow_nan=False), strict=True).phases
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise _wrong(".".join(map(str, problem["loc"])), problem["msg"]) from error
    if measurement.started.utcoffset() is None or measurement.finished.utcoffset() is None:
        raise ArchiveError("the message's JSON is wrong: its times have no time zone")
    if phases and not measurement.loss_ratios:
        raise _wrong("phases", "given without loss ratios")
    for number, trial in enumerate(measurement.trials):
        if not (0 <= trial.sent <= _MOST_FRAMES and 0 <= trial.received <= _MOST_FRAMES):
            raise _wrong(f"trials.{number}", f"frames are counted from 0 to {_MOST_FRAMES}")
    if measurement.reconfiguration and not measurement.reconfiguration.rate_pps > 0:
        raise _wrong("reconfiguration.rate_pps", "a rate is above 0")
    return replace(measurement, phases=tuple(_expand(phases, measurement)))


def _wrong(place: str, reason: str) -> ArchiveError:
    return ArchiveError(f"the message's JSON is wrong: {place}: {reason}")


def _check_schema(version: object) -> None:
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ArchiveError(
            f"the message's JSON has the schema version {version!r}; it should be a number from 1"
        )
    if version > SCHEMA:
        raise ArchiveError(
            f"the message's JSON is of schema {version}, but this perftrend knows {SCHEMA}; upgrade perftrend"
        )


def _compact(measurement: Measurement) -> Iterator[_Phase]:
    after = 0
    for phase in measurement.phases:
        steps = []
        for step in phase.steps:
            place = measurement.trials.index(step.trial, after)
            after = place + 1
            steps.append(_Step(place, step.reason, tuple(map(_bounds, step.intervals))))
        yield _Phase(phase.name, phase.duration_s, phase.relative_width, tuple(steps))


def _bounds(interval: Interval) -> _Bounds:
    bounds = interval.lower, interval.upper
    return (*bounds, interval.invalid) if interval.invalid else bounds


def _expand(phases: Iterable[_Phase], measurement: Measurement) -> Iterator[Phase]:
    after = 0
    for number, phase in enumerate(phases):
        steps = []
        for position, step in enumerate(phase.steps):
            place = f"phases.{number}.steps.{position}"
            if not after <= step.trial < len(measurement.trials):
                raise _wrong(f"{place}.trial", f"{step.trial} is not a trial after that of the previous step")
            if len(step.bounds) not in {0, len(measurement.loss_ratios)}:
                raise _wrong(f"{place}.bounds", f"{len(step.bounds)} given; expected one for each loss ratio")
            after = step.trial + 1
            intervals = tuple(Interval(*bounds) for bounds in step.bounds)
            steps.append(Step(measurement.trials[step.trial], step.reason, intervals))
        yield Phase(phase.name, phase.duration_s, phase.relative_width, tuple(steps))


def _sentences(measurement: Measurement) -> Iterator[str]:
    if measurement.kind == "mrr":
        rates = ", ".join(f"{rate:.1f}" for rate in measurement.samples)
        yield f"Maximum Receive Rate trial results in packets per second: [{rates}]"
    for name, interval in measurement.intervals.items():
        yield f"{name.upper()}_LOWER: {_rate(interval.lower, measurement.frame_bytes)}"
        yield f"{name.upper()}_UPPER: {_rate(interval.upper, measurement.frame_bytes)}"
        if interval.invalid:
            yield f"{name.upper()} is not valid: {_one_line(interval.invalid)}."
    if measurement.mrr_pps:
        yield f"Maximum Receive Rate: {_rate(measurement.mrr_pps, measurement.frame_bytes)}"
    for name, throughput_pps in measurement.conditional_throughput_pps.items():
        yield f"{name.upper()} conditional throughput: {_rate(throughput_pps, measurement.frame_bytes)}"
    yield from _latencies(measurement.latency)
    yield from _cycles(measurement.cycles_per_packet)
    yield from _losses(measurement)
    if measurement.invalid:
        yield f"This result is not valid: {_one_line(measurement.invalid)}."
    if measurement.simulated:
        yield "This result is simulated: no packet was sent."


def _latencies(of_metrics: Mapping[str, LoadLatency]) -> Iterator[str]:
    for metric, latency in of_metrics.items():
        load = f"Latency at {metric.removeprefix('latency_')}% PDR"
        each = (f"'{one.minimum_us:g}/{one.average_us:g}/{one.maximum_us:g}'" for one in latency.directions)
        if latency.invalid:
            yield f"{load} is not valid: {_one_line(latency.invalid)}."
        else:
            yield f"{load}: [{', '.join(each)}] usec [min/avg/max] per stream"


def _cycles(of_parts: Mapping[str, float]) -> Iterator[str]:
    if parts := measurement.plausible_cycles(of_parts):
        yield f"Cycles per packet: {', '.join(f'{name} {value:.4g}' for name, value in parts.items())}"


def _losses(measurement: Measurement) -> Iterator[str]:
    if measurement.critical_load:
        yield from _critical_load(measurement.critical_load, measurement.frame_bytes)
    if measurement.held:
        yield from _held_rate(measurement.held, measurement.frame_bytes)
    if measurement.reconfiguration:
        yield from _reconfiguration(measurement.reconfiguration, measurement.frame_bytes)


def _critical_load(load: CriticalLoad, frame_bytes: float) -> Iterator[str]:
    yield (
        f"Critical load: {_rate(load.rate_pps, frame_bytes)}, within these bounds with a probability of "
        f"{load.credibility:g}; {load.target_loss_ratio:g} of its frames are lost on average."
    )
    if load.hiccups:
        yield f"Trials that lost frames which their rate does not explain: {load.hiccups}."


def _held_rate(held: HeldRate, frame_bytes: float) -> Iterator[str]:
    yield (
        f"Held rate: {_rate(held.rate_pps, frame_bytes)}, loss ratio {held.loss_ratio:.3g}, on average at "
        f"most {held.loss_ratio_limit:.3g} with a confidence of {held.confidence:g}."
    )
    if held.bursty:
        yield "Frames were lost in bursts, so the average loss ratio may be higher."


def _reconfiguration(found: Reconfiguration, frame_bytes: float) -> Iterator[str]:
    changes = " ".join(f"{name}={value}" for name, value in found.changes.items())
    yield f"Reconfiguration: {changes} in {found.duration_s:.3f} s at {_rate(found.rate_pps, frame_bytes)}"
    yield f"Packets lost due to reconfig: {found.lost}"
    yield f"Implied time lost: {found.lost_s:.9g}"
    if found.baseline_lost:
        yield f"Packets lost in the same time without it: {found.baseline_lost}"


def _rate(pps: float, frame_bytes: float) -> str:
    """Return packets per second, and the bandwidth that the frames use on the wire."""
    return f"{pps:.1f} pps, {pps * (frame_bytes + GAP_BYTES) * 8 / 1e9:.3f} Gbps"


def _one_line(reason: str) -> str:
    return " ".join(reason.split()).removesuffix(".")

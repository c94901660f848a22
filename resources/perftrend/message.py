"""The message of a test: sentences for people, and one line of JSON that holds everything.

The sentences have the form that packet-forwarding CI has used for years, so that a person and
an older reader find what they are used to. The line after them begins with :data:`MARKER` and
is ASCII, so that neither XML nor a terminal can bend it. Its schema is published in
``docs/formats/message.schema.json``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC
from typing import Any

from pydantic import TypeAdapter, ValidationError

from perftrend.errors import ArchiveError
from perftrend.model import Measurement

MARKER = "perftrend: "
"""What the line of JSON begins with."""

SCHEMA = 1
"""Version of the JSON: a reader refuses a greater one and knows every smaller one."""

GAP_BYTES = 20
"""What a frame takes on the wire beside itself: preamble, start delimiter and gap."""

_MEASUREMENT = TypeAdapter(Measurement)


def render(measurement: Measurement) -> str:
    """Write the message of a test.

    :param measurement: what was measured; its times must know their time zone.
    :returns: several lines, the last of them the JSON.
    :raises ValueError: if a number is not finite, or a time has no time zone.
    """
    text = json.dumps(document(measurement), separators=(",", ":"), allow_nan=False)
    return "\n".join([*_sentences(measurement), MARKER + text])


def document(measurement: Measurement) -> dict[str, Any]:
    """Return the measurement as it stands in the JSON: strings, numbers, lists and objects.

    :raises ValueError: if a time has no time zone.
    """
    fields: dict[str, Any] = _MEASUREMENT.dump_python(measurement, mode="json")
    for name in ("started", "finished"):
        moment = getattr(measurement, name)
        if moment.utcoffset() is None:
            raise ValueError(f"{name} has no time zone: {moment}")
        fields[name] = moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return {"schema": SCHEMA, **fields}


def parse(text: str) -> Measurement | None:
    """Read the message of a test: the inverse of :func:`render`.

    :param text: the whole message; sentences around the line of JSON do not matter. Of several
        such lines the last counts: a test that measures again says what it found last.
    :returns: the measurement, its times in UTC; None if there is no such line.
    :raises ArchiveError: if the line is broken or of a newer schema.
    """
    lines = [line for line in text.split("\n") if line.startswith(MARKER + "{")]
    if not lines:
        return None
    try:
        fields = json.loads(lines[-1].removeprefix(MARKER))
        _check_schema(fields.pop("schema", None))
        measurement = _MEASUREMENT.validate_json(json.dumps(fields, allow_nan=False), strict=True)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ".".join(map(str, problem["loc"]))
        raise ArchiveError(f"the message's JSON is wrong: {place}: {problem['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"the message's JSON is broken: {error}") from error
    if measurement.started.utcoffset() is None or measurement.finished.utcoffset() is None:
        raise ArchiveError("the message's JSON is wrong: its times have no time zone")
    return measurement


def _check_schema(version: object) -> None:
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ArchiveError(f"the message's JSON has no version of its schema, but {version!r}")
    if version > SCHEMA:
        raise ArchiveError(
            f"the message's JSON is of schema {version}, this perftrend knows {SCHEMA}; upgrade perftrend"
        )


def _sentences(measurement: Measurement) -> Iterator[str]:
    if measurement.kind == "mrr":
        rates = ", ".join(f"{rate:.1f}" for rate in measurement.samples)
        yield f"Maximum Receive Rate trial results in packets per second: [{rates}]"
    for name, interval in measurement.intervals.items():
        yield f"{name.upper()}_LOWER: {_rate(interval.lower, measurement.frame_bytes)}"
        yield f"{name.upper()}_UPPER: {_rate(interval.upper, measurement.frame_bytes)}"
        if interval.invalid:
            yield f"{name.upper()} is not valid: {_one_line(interval.invalid)}."
    if measurement.invalid:
        yield f"This result is not valid: {_one_line(measurement.invalid)}."
    if measurement.simulated:
        yield "This result is simulated: no packet was sent."


def _rate(pps: float, frame_bytes: float) -> str:
    """Packets per second, and the bandwidth that the frames take on the wire."""
    return f"{pps:.1f} pps, {pps * (frame_bytes + GAP_BYTES) * 8 / 1e9:.3f} Gbps"


def _one_line(reason: str) -> str:
    return " ".join(reason.split()).removesuffix(".")

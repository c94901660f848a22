"""Parser for the output of a measuring command: numbers, without false matches."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from perftrend.builds.commands import MOST_BYTES
from perftrend.builds.tables import MeasureTable
from perftrend.model import MetricSamples

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_LONGEST = 60


def read(printed: bytes, measure: MeasureTable) -> Mapping[str, MetricSamples]:
    """Return the samples of each test, in the order of their lines.

    :raises ValueError: for text that is not a number and not to be ignored, for output without numbers, and
        for a test with two units.
    """
    if len(printed) > MOST_BYTES:
        raise ValueError(f"it printed more than {MOST_BYTES} bytes; these cannot all be numbers")
    text = printed.decode(errors="replace")
    found: dict[str, tuple[str, list[float]]] = {}
    for name, number, unit in _samples(text, measure):
        known, samples = found.setdefault(name, (unit, []))
        if unit != known:
            raise ValueError(_two_units(name, known, unit))
        samples.append(number)
    if not found:
        raise ValueError("it printed no number")
    return {
        name: MetricSamples(samples=tuple(samples), unit=unit, better=measure.better)
        for name, (unit, samples) in found.items()
    }


def combine(repetitions: Iterable[Mapping[str, MetricSamples]]) -> dict[str, MetricSamples]:
    """Return the samples of several starts of the command combined, in their order.

    :raises ValueError: for a test with two units.
    """
    found: dict[str, MetricSamples] = {}
    for repetition in repetitions:
        for name, more in repetition.items():
            known = found.get(name, replace(more, samples=()))
            if more.unit != known.unit:
                raise ValueError(_two_units(name, known.unit, more.unit))
            found[name] = replace(known, samples=known.samples + more.samples)
    return found


def _two_units(name: str, one: str, other: str) -> str:
    return f"the test {name[:_LONGEST]!r} has two units, {one!r} and {other!r}"


def _samples(text: str, measure: MeasureTable) -> Iterator[tuple[str, float, str]]:
    """Yield test, number and unit."""
    lines = list(_lines(text, measure))
    if measure.prints == "json":
        for name, number in _of_json("\n".join(line for _, line in lines), measure):
            yield name, number, measure.unit
        return
    for position, line in lines:
        words = line.split()
        try:
            if measure.prints == "named":
                name, number, unit = _parse_named(words)
                yield name, number, unit or measure.unit
            else:
                yield measure.test, _number(line), measure.unit
        except ValueError as error:
            raise ValueError(
                f"line {position}: {error}; skip such lines with measure.ignore in the profile"
            ) from None


def _lines(text: str, measure: MeasureTable) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not empty and not ignored, with their numbers from 1."""
    ignored = [re.compile(pattern) for pattern in measure.ignore]
    for position, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped and not any(pattern.fullmatch(stripped) for pattern in ignored):
            yield position, stripped


def _parse_named(words: list[str]) -> tuple[str, float, str]:
    """Read ``name: number``, ``name number`` or either with a unit after it."""
    line = " ".join(words)
    *name, last = words
    unit = ""
    if not _NUMBER.fullmatch(last) and name:
        unit = last
        *name, last = name
    number = _number(last, line)
    test_name = " ".join(name).rstrip(":= ")
    if not test_name:
        raise ValueError(f"{line[:_LONGEST]!r} has no name before its number")
    return test_name, number, unit


def _number(word: str, line: str = "") -> float:
    number = float(word) if _NUMBER.fullmatch(word) else math.nan
    if not math.isfinite(number):
        raise ValueError(f"{(line or word)[:_LONGEST]!r} is not a number")
    return number


def _of_json(text: str, measure: MeasureTable) -> Iterator[tuple[str, float]]:
    try:
        document = json.loads(text, parse_int=float)
    except (ValueError, RecursionError):
        raise ValueError(f"it printed no valid JSON: {text[:_LONGEST]!r}") from None
    tests = document if isinstance(document, dict) else {measure.test: document}
    for name, values in tests.items():
        for value in values if isinstance(values, list) else [values]:
            if not isinstance(value, float) or not math.isfinite(value):
                raise ValueError(
                    f"the value of {name[:_LONGEST]!r} is {str(value)[:_LONGEST]!r}, not a number"
                )
            yield name, float(value)

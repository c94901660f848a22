"""Plot data for the script of the page: values in displayed units, with the digits that a plot shows.

It is embedded in the page, so that a selection is one request and its work is done once. The model of the
page has all digits and the units of the store.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from datetime import UTC
from itertools import groupby
from typing import Any

import numpy as np
from markupsafe import Markup

from perftrend.dashboard.explore.models import (
    Explore,
    Number,
    PlotChange,
    PlotLine,
    PointModel,
    SetChangeModel,
)
from perftrend.dashboard.explore.presenter import set_change_label, trace_names
from perftrend.dashboard.explore.state import Show
from perftrend.model import Samples

MOST_BANDS = 12
"""Maximum number of lines for which bands are drawn."""
MOST_STYLES = 40
"""Maximum number of lines that ten colours and four dash patterns tell apart."""
MOST_WRITTEN = 20_000
"""Maximum number of values that are written as text."""
_DIGITS = 6
_MISSING = 0xFFFF
_NUMBERS = {
    Show.NORM.function: "standard deviations from the mean",
    Show.SCALE_BY_AVE.function: "multiple of the average",
    "scale_by_mean": "multiple of the given mean",
    Show.AVE.function: "ratio to own averages",
    Show.MIN.function: "smallest ratio to own average",
    Show.MAX.function: "largest ratio to own average",
    Show.COUNT.function: "traces",
}
"""Meaning of dimensionless values by the function that computed them, if no others are drawn."""


def encode_plot(answer: Explore) -> Markup:
    """Return the plot as JSON that can be embedded in an element of a page."""
    written = json.dumps(_plot(answer), separators=(",", ":"), ensure_ascii=False)
    return Markup(written.replace("<", "\\u003c"))  # noqa: S704 - without < no text ends the element


def _plot(answer: Explore) -> dict[str, Any]:
    scale_of = {line.id: display_unit(line.unit)[1] for line in answer.lines}
    point = answer.point
    return {
        "numbers": _meaning(answer),
        "simulated": answer.simulated,
        "zoom": answer.zoom.model_dump(),
        "url": answer.url,
        "wrong": [each.field for each in answer.mistakes],
        "units": [display_unit(unit)[0] for unit in answer.units],
        "points": [
            {"column": each.column, "columns": each.columns, "commit": each.commit[:12],
             "started": f"{each.started.astimezone(UTC):%Y-%m-%dT%H:%MZ}"}
            for each in answer.points
        ],
        **(_dense_lines(answer.lines) if is_dense(answer) else {"lines": list(_lines(answer.lines))}),
        "changes": [_change(each, scale_of[each.trace]) for each in answer.changes],
        "suspected": [_change(each, scale_of[each.trace]) for each in answer.suspected],
        "sets": list(_sets(answer.set_changes)),
        "notes": [{"point": each.point, "text": each.text, "user": each.user} for each in answer.notes],
        "looked": point and {
            "trace": point.trace,
            "column": point.column,
            "since": _other_column(point),
        },
    }  # fmt: skip


def _other_column(point: PointModel) -> int | None:
    """Return the column that the point is compared with, an older or a newer one; None if there is none."""
    if not (point.since and point.chosen):
        return None
    is_newer = point.column <= point.since.column <= point.last and point.commits
    return point.commits[0].column if is_newer else point.since.column


def _change(change: PlotChange, scale: float) -> dict[str, Any]:
    return {
        "trace": change.trace, "point": change.point, "direction": change.direction,
        "relative": change.relative, "before": change.before * scale, "after": change.after * scale,
    }  # fmt: skip


def _sets(changes: Sequence[SetChangeModel]) -> Iterator[dict[str, Any]]:
    """Yield where sets of traces change, those of several lines together."""
    for point, group in groupby(changes, key=lambda each: each.point):
        parts = list(group)
        whole = parts[0].model_copy(
            update={
                "added": sum(each.added for each in parts),
                "removed": sum(each.removed for each in parts),
                "traces": [name for each in parts for name in each.traces],
            }
        )
        yield {"point": point, "text": set_change_label(whole), "names": trace_names(whole)}


def _meaning(answer: Explore) -> str:
    """Return the meaning of values without a unit; empty if formulas draw others, too."""
    functions = {line.id[1:].partition("(")[0] for line in answer.lines if not line.unit}
    return _NUMBERS.get(functions.pop(), "") if len(functions) == 1 else ""


def is_dense(answer: Explore) -> bool:
    """Return whether the density of lines is drawn, and their values are sent in binary."""
    return len(answer.lines) > MOST_STYLES or len(answer.lines) * len(answer.points) > MOST_WRITTEN


def _lines(lines: list[PlotLine]) -> Iterator[dict[str, Any]]:
    has_bands = len(lines) <= MOST_BANDS
    for line in lines:
        unit, scale = display_unit(line.unit)
        entry = {"id": line.id, "label": line.label, "unit": unit, "values": _numbers(line.values, scale)}
        low = line.least if line.low is None else line.low
        high = line.greatest if line.high is None else line.high
        if has_bands and low is not None and high is not None:
            entry |= {"low": _numbers(low, scale), "high": _numbers(high, scale)}
        yield entry


def _dense_lines(lines: list[PlotLine]) -> dict[str, Any]:
    """Return the lines, and their values as unsigned numbers of 16 bits, from 0 at the least of a line.

    A number is the value less ``low``, divided by ``step``; the largest one is a missing value. As text, a
    million values would take a second to write and to read.
    """
    units = [display_unit(line.unit) for line in lines]
    values = np.array([line.values for line in lines]) * np.array([[scale] for _, scale in units])
    low = np.nan_to_num(np.fmin.reduce(values, axis=1))
    step = np.nan_to_num(np.fmax.reduce(values, axis=1) - low) / (_MISSING - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        numbers = np.where(
            step[:, np.newaxis] > 0, np.rint((values - low[:, np.newaxis]) / step[:, np.newaxis]), 0
        )
    packed = np.where(np.isnan(values), _MISSING, numbers).astype("<u2")
    return {
        "lines": [
            {"id": line.id, "label": line.label, "unit": unit, "low": float(first), "step": float(each)}
            for line, (unit, _), first, each in zip(lines, units, low, step, strict=True)
        ],
        "packed": b64encode(packed.tobytes()).decode(),
    }


def _numbers(values: Samples, scale: float) -> list[Number]:
    return [
        None if value != value else float(f"{value * scale:.{_DIGITS}g}")  # noqa: PLR0124 - NaN
        for value in values.tolist()
    ]


def display_unit(unit: str) -> tuple[str, float]:
    """Return the displayed unit, and the factor that converts values to it."""
    return ("Mpps", 1e-6) if unit == "pps" else (unit, 1.0)

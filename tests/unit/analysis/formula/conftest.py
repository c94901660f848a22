from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from perftrend.analysis.formula import (
    EvaluationLimits,
    Query,
    Rows,
    StoredId,
    evaluate,
    format_key,
    parse_key,
    parse_stored_ids,
)
from perftrend.model import Samples, TraceKey

Evaluated = Callable[..., Rows]


@dataclass
class Shelf:
    """Traces and shortcuts in dictionaries, as a source of rows."""

    rows: Mapping[str, Sequence[float]]
    shortcuts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def select(self, query: Query, *, most: int) -> Mapping[str, Samples]:
        self.asked.append(str(query))
        fits: Callable[[str, str], bool] = lambda pattern, value: re.search(pattern, value) is not None  # noqa: E731
        return {
            name: np.array(row, dtype=float)
            for name, row in self.rows.items()
            if query.matches(parse_key(name).as_dict(), fits)
        }

    def traces(self, keys: Sequence[TraceKey]) -> Mapping[str, Samples]:
        names = [format_key(key) for key in keys]
        return {name: np.array(self.rows[name], dtype=float) for name in names if name in self.rows}

    def shortcut(self, identity: str) -> Sequence[StoredId] | None:
        held = self.shortcuts.get(identity)
        return None if held is None else parse_stored_ids(held)


@pytest.fixture
def evaluated() -> Evaluated:
    """Evaluate a formula over rows by name, or over a list of rows that are named ,t=0, and so on."""

    def run(
        formula: str,
        rows: Mapping[str, Sequence[float]] | Sequence[Sequence[float]],
        *,
        shortcuts: Mapping[str, Sequence[str]] | None = None,
        points: int | None = None,
        limits: EvaluationLimits | None = None,
    ) -> Rows:
        if not isinstance(rows, Mapping):
            rows = {f",t={place},": row for place, row in enumerate(rows)}
        length = points if points is not None else len(next(iter(rows.values())))
        source = Shelf(rows, shortcuts or {})
        return evaluate(formula, source, points=length, limits=limits or EvaluationLimits())

    return run


@pytest.fixture
def shelf() -> type[Shelf]:
    return Shelf

"""The evaluation of formulas: calls the functions of a tree on whole matrices, within limits.

The caller provides the rows by a :class:`RowSource`, which is the only input and is not changed. Formulas in
a shortcut are evaluated in turn; a shortcut that contains itself is rejected.

Functions of each row are applied to a large matrix block by block. No row depends on another one. The result
is therefore the same as for the whole matrix, and temporary arrays fit into the processor's cache, whatever
the size of the matrix.

Source: "Skia Perf: Design", section Trace IDs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from perftrend.analysis.formula.functions import FUNCTIONS, ArgumentKind, Function, Makes
from perftrend.analysis.formula.ids import FormulaId, NormalId, StoredId
from perftrend.analysis.formula.parser import parse
from perftrend.analysis.formula.query import Query, parse_filter
from perftrend.analysis.formula.rows import Rows, concatenate
from perftrend.analysis.formula.tree import Call, Number, Text
from perftrend.errors import FormulaError
from perftrend.model import Samples, TraceKey

_CELLS = 2**16
"""Cells of one block: half a megabyte."""


class RowSource(Protocol):
    """A source of rows: by the name of their normal trace, one value per point, NaN for holes.

    A :class:`Rows` is used without a copy; any other mapping is copied into one.
    """

    def select(self, query: Query, *, most: int) -> Mapping[str, Samples]:
        """Return the traces that match a query; of more than ``most``, any ``most + 1``, to be rejected."""
        ...

    def traces(self, keys: Sequence[TraceKey]) -> Mapping[str, Samples]:
        """Return those of the traces that exist."""
        ...

    def shortcut(self, identity: str) -> Sequence[StoredId] | None:
        """Return the content of a shortcut; None if it does not exist."""
        ...


@dataclass(frozen=True, slots=True)
class EvaluationLimits:
    """Limits of the work of one evaluation."""

    cells: int = 10_000_000
    """Rows times points in one set of rows: 80 MB."""
    total_cells: int = 50_000_000
    """Rows times points of all calls together."""
    calls: int = 500
    """Calls, including those of the formulas in shortcuts."""
    depth: int = 5
    """Nested shortcuts."""


DEFAULT_LIMITS = EvaluationLimits()


def evaluate(
    formula: Call | str, source: RowSource, *, points: int, limits: EvaluationLimits = DEFAULT_LIMITS
) -> Rows:
    """Evaluate a formula.

    :param formula: its text, or the result of :func:`parse`.
    :param source: provides the rows; its exceptions propagate.
    :param points: the number of points of every row.
    :returns: rows without infinities. Those of functions over rows are named by their call, those of
        functions of each row by the call with the row's name in it.
    :raises FormulaError: if the formula is invalid, would be too much work, or gives ``ratio`` several rows.
    :raises SettingsError: if the source returns rows of another length.
    """
    tree = parse(formula) if isinstance(formula, str) else formula
    return _Evaluation(source, points, limits).rows(tree)


@dataclass(slots=True)
class _Evaluation:
    """One evaluation: the work so far, the rows that were fetched, and the open shortcuts."""

    source: RowSource
    points: int
    limits: EvaluationLimits
    calls: int = 0
    cells: int = 0
    fetched: dict[str, Rows] = field(default_factory=dict)
    """Rows by query."""
    opened: list[str] = field(default_factory=list)

    def rows(self, call: Call) -> Rows:
        self.calls += 1
        if self.calls > self.limits.calls:
            raise _wrong(call, f"more than {self.limits.calls} calls; use fewer formulas")
        function = FUNCTIONS[call.function]
        if function.compute is None:
            return self.spent(call, self.fetch(call))
        return self.spent(call, self.apply(call, function, function.compute))

    def spent(self, call: Call, rows: Rows) -> Rows:
        self.check_size(call, len(rows))
        self.cells += rows.matrix.size
        if self.cells > self.limits.total_cells:
            raise _wrong(
                call, f"more than {self.limits.total_cells} values in all; choose fewer traces or calls"
            )
        return rows

    def check_size(self, call: Call, rows: int) -> None:
        if rows * self.points > self.limits.cells:
            size = f"{rows} rows of {self.points} points"
            raise _wrong(call, f"{size} are more than {self.limits.cells} values; choose fewer traces")

    def apply(self, call: Call, function: Function, compute: Callable[..., Samples]) -> Rows:
        operands = [self.rows(each) for each in call.arguments if isinstance(each, Call)]
        numbers = [each.value for each in call.arguments if isinstance(each, Number)]
        for parameter, argument, rows in zip(function.parameters, call.arguments, operands, strict=False):
            if parameter.kind is ArgumentKind.ROW and len(rows) > 1:
                reason = (
                    f"needs one row on each side, but {parameter.name} has {len(rows)}; "
                    "use, for example, ave(…)"
                )
                raise FormulaError("formula", argument.position, f"{call.function} {reason}")
        if function.makes is Makes.ONE:
            row = compute(*(rows.matrix for rows in operands))
            return Rows((str(call),), row[np.newaxis])
        more = "".join(f", {each}" for each in call.arguments[1:])
        names = [f"{call.function}({name}{more})" for name in operands[0]]
        return Rows(names, _by_rows(compute, operands[0].matrix, *numbers))

    def fetch(self, call: Call) -> Rows:
        (text,) = (each.value for each in call.arguments if isinstance(each, Text))
        wanted = parse_filter(text) if call.function == "filter" else text
        if isinstance(wanted, str):
            return self.shortcut(call, wanted)
        name = str(wanted)
        if name not in self.fetched:
            most = self.limits.cells // max(self.points, 1)
            found = self.source.select(wanted, most=most)
            self.fetched[name] = Rows.of(found, points=self.points)
        return self.fetched[name]

    def shortcut(self, call: Call, identity: str) -> Rows:
        if identity in self.opened:
            raise _wrong(call, f"the shortcut {identity} refers to itself; remove its formula")
        if len(self.opened) >= self.limits.depth:
            raise _wrong(call, f"more than {self.limits.depth} shortcuts within shortcuts")
        held = self.source.shortcut(identity)
        if held is None:
            raise _wrong(call, f"shortcut {identity} does not exist")
        self.opened.append(identity)
        keys = [each.key for each in held if isinstance(each, NormalId)]
        self.check_size(call, len(keys))
        parts = [Rows.of(self.source.traces(keys) if keys else {}, points=self.points)]
        for each in held:
            if isinstance(each, FormulaId):
                parts.append(self.evaluate_formula(call, identity, each))
                self.check_size(call, sum(map(len, parts)))
        self.opened.pop()
        return concatenate(parts)

    def evaluate_formula(self, call: Call, identity: str, held: FormulaId) -> Rows:
        try:
            return self.rows(held.formula)
        except FormulaError as error:
            raise _wrong(call, f"in the shortcut {identity}, {held}: {error.reason}") from None


def _by_rows(compute: Callable[..., Samples], rows: Samples, *numbers: float) -> Samples:
    """Compute a row from each row.

    :param compute: receives some of the rows, and the numbers; returns as many rows.
    :param rows: shape (rows, points).
    :returns: the same shape.
    """
    result = np.empty_like(rows)
    size = max(_CELLS // max(rows.shape[1], 1), 1)
    for start in range(0, len(rows), size):
        block = slice(start, start + size)
        result[block] = compute(rows[block], *numbers)
    return result


def _wrong(call: Call, reason: str) -> FormulaError:
    return FormulaError("formula", call.position, reason)

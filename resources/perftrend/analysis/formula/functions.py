"""All functions of the formula language, in one table: arguments, results and help texts.

The parser checks calls against this table, the evaluation calls its functions, and the documentation and the
help of the dashboard list them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from perftrend.analysis.formula import each_row, over_rows
from perftrend.analysis.formula.relative import RowSet
from perftrend.model import Samples


class ArgumentKind(StrEnum):
    """The kind of an argument."""

    ROWS = "rows"
    """A call."""
    ROW = "row"
    """A call that returns at most one row."""
    QUERY = "query"
    """A string with a query, or with ``#`` and the id of a shortcut."""
    SHORTCUT = "shortcut"
    """A string with the id of a shortcut."""
    NUMBER = "number"
    """A number of 0 or more."""

    @property
    def is_rows(self) -> bool:
        """Whether it is a call."""
        return self in {ArgumentKind.ROWS, ArgumentKind.ROW}

    @property
    def is_string(self) -> bool:
        """Whether it is a string."""
        return self in {ArgumentKind.QUERY, ArgumentKind.SHORTCUT}


class Makes(StrEnum):
    """The kind of a result, and its name."""

    FOUND = "found"
    """Rows of the store, with their own names."""
    EACH = "each"
    """One row for each row: ``norm(,test=x,)``."""
    ONE = "one"
    """One row, named by the call itself: ``ave(filter("test=x"))``."""


@dataclass(frozen=True, slots=True)
class FunctionParameter:
    """One argument of a function."""

    name: str
    kind: ArgumentKind
    default: float | None = None
    """The value if it is omitted; None if it is required."""


@dataclass(frozen=True, slots=True)
class Function:
    """One function of the language."""

    name: str
    parameters: tuple[FunctionParameter, ...]
    makes: Makes
    help: str
    """One sentence."""
    compute: Callable[..., Samples] | None = None
    """From matrices of shape (rows, points), and numbers, to a matrix or, for :attr:`Makes.ONE`, to shape
    (points,); None if rows come from the store."""

    @property
    def signature(self) -> str:
        """The syntax of a call: ``norm(rows[, smallest])``."""
        first, *more = (f'"{each.name}"' if each.kind.is_string else each.name for each in self.parameters)
        required = self.least_arguments - 1
        needed = "".join(f", {name}" for name in more[:required])
        optional = "".join(f"[, {name}]" for name in more[required:])
        return f"{self.name}({first}{needed}{optional})"

    @property
    def least_arguments(self) -> int:
        """The number of required arguments."""
        return sum(each.default is None for each in self.parameters)


def _each(name: str, compute: Callable[..., Samples], text: str, *more: FunctionParameter) -> Function:
    return Function(name, (FunctionParameter("rows", ArgumentKind.ROWS), *more), Makes.EACH, text, compute)


def _one(name: str, compute: Callable[..., Samples], text: str) -> Function:
    return Function(name, (FunctionParameter("rows", ArgumentKind.ROWS),), Makes.ONE, text, compute)


def _relative(name: str, compute: Callable[[RowSet], Samples], text: str) -> Function:
    return _one(name, lambda rows: compute(RowSet.of(rows)), text)


_SMALLEST = FunctionParameter("smallest", ArgumentKind.NUMBER, each_row.SMALLEST_DEVIATION)
_SIDES = (FunctionParameter("a", ArgumentKind.ROW), FunctionParameter("b", ArgumentKind.ROW))

_TABLE = (
    Function(
        "filter",
        (FunctionParameter("query", ArgumentKind.QUERY),),
        Makes.FOUND,
        "The traces that match a query, all if it is empty; those of a shortcut if it is # and an id.",
    ),
    Function(
        "shortcut",
        (FunctionParameter("id", ArgumentKind.SHORTCUT),),
        Makes.FOUND,
        "The traces of a shortcut, and the rows of the formulas in it.",
    ),
    _each(
        "norm",
        each_row.normalise,
        "Each row shifted to the mean 0 and scaled to the standard deviation 1, "
        f"or only shifted if that is at most smallest, by default {each_row.SMALLEST_DEVIATION:g}.",
        _SMALLEST,
    ),
    _each(
        "fill",
        each_row.fill_holes,
        "Each row with its holes filled by the next value to the right, at the end by the last one, "
        "and by 0 if there is none.",
    ),
    _each("log", each_row.logarithm, "The base-10 logarithm of each value, a hole for 0 and less."),
    _each("scale_by_ave", each_row.scale_by_average, "Each row divided by its own average."),
    _each(
        "scale_by_mean",
        each_row.scale_by_mean,
        "Each row divided by a given mean, such as the one before a change.",
        FunctionParameter("mean", ArgumentKind.NUMBER),
    ),
    _each(
        "iqrr",
        each_row.without_outliers,
        "Each row with holes for its outliers, 1.5 interquartile ranges or more outside the quartiles.",
    ),
    _each("trace_ave", each_row.own_average, "Each row's own average, at every point."),
    _each("trace_stddev", each_row.own_deviation, "Each row's own standard deviation, at every point."),
    _each(
        "trace_cov", each_row.own_variation, "Each row's standard deviation over its average, at every point."
    ),
    _each(
        "trace_step",
        each_row.own_step,
        "The average of each row's first half over that of its second half, at every point.",
    ),
    _one("ave", over_rows.average, "The average of all rows, point by point."),
    _one("avg", over_rows.average, "The same as ave."),
    _one("sum", over_rows.total, "The sum of all rows, point by point."),
    _one(
        "geo",
        over_rows.geometric_mean,
        "The geometric mean of all rows, point by point, negative values left out.",
    ),
    _one("count", over_rows.count, "The number of rows with a value, point by point; 0 if none has one."),
    _one("std_dev", over_rows.deviation, "The standard deviation of all rows, point by point."),
    _one("min", over_rows.least, "The smallest value of all rows, point by point."),
    _one("max", over_rows.most, "The largest value of all rows, point by point."),
    _relative(
        "relative_ave",
        RowSet.average,
        "The average of the ratios of all rows to their own averages, point by point; "
        "rows that begin or end do not move it.",
    ),
    _relative("relative_min", RowSet.least, "The smallest of these ratios, point by point."),
    _relative("relative_max", RowSet.most, "The largest of these ratios, point by point."),
    Function(
        "ratio",
        _SIDES,
        Makes.ONE,
        "One row divided by another, point by point; division by 0 is a hole.",
        over_rows.ratio,
    ),
)

FUNCTIONS: Mapping[str, Function] = MappingProxyType({each.name: each for each in _TABLE})
"""All functions by name, in the order of the documentation."""

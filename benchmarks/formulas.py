"""Cost of formulas over many traces, compared with the same arithmetic written by hand in numpy.

::

    python -m benchmarks.formulas [--rows 10000] [--points 200] [--holes 0.1] [--repeat 5] [--json]

Every formula starts from all rows of a seeded matrix with holes. The baseline is the equivalent
with numpy's NaN-aware functions, on the same matrix, without names and without checks. Times are
the best of the repetitions; the ratio is formula over baseline, below 1 if the formula is faster.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from perftrend.analysis.formula import NormalId, Query, Rows, evaluate, format_key
from perftrend.model import Samples, TraceKey

Baseline = Callable[[Samples], Samples]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure every formula and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.formulas", description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--holes", type=float, default=0.1, help="share of the values that are missing")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(argv)
    shelf = Shelf(options.rows, options.points, options.holes)
    rows = {formula: cell(formula, baseline, shelf, options.repeat) for formula, baseline in FORMULAS.items()}
    print(json.dumps(rows, indent=2) if options.json else table(rows))
    return 0


class Shelf:
    """A source with one matrix for all queries."""

    def __init__(self, rows: int, points: int, holes: float) -> None:
        generator = np.random.default_rng(17)
        matrix = generator.normal(10e6, 1e5, (rows, points))
        matrix[generator.random(matrix.shape) < holes] = np.nan
        names = [format_key(TraceKey.of(test=f"64b-{row}", metric="mrr")) for row in range(rows)]
        self.rows = Rows(names, matrix)

    def select(self, query: Query, *, most: int) -> Rows:  # noqa: ARG002 - all rows match
        """Return all rows."""
        return self.rows

    def traces(self, keys: Sequence[TraceKey]) -> Rows:  # noqa: ARG002 - all rows are meant
        """Return all rows."""
        return self.rows

    def shortcut(self, identity: str) -> Sequence[NormalId]:  # noqa: ARG002 - it has no shortcuts
        """Return an empty shortcut."""
        return ()


def cell(formula: str, baseline: Baseline, shelf: Shelf, repeat: int) -> dict[str, float]:
    """Return the milliseconds of both, and their ratio."""
    points, matrix = shelf.rows.points, shelf.rows.matrix
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        np.testing.assert_allclose(
            evaluate(formula, shelf, points=points).matrix,
            np.atleast_2d(baseline(matrix)),
            rtol=1e-6,
            atol=1e-6,
        )
        ours = best(lambda: evaluate(formula, shelf, points=points), repeat)
        theirs = best(lambda: baseline(matrix), repeat)
    return {"milliseconds": ours, "baseline": theirs, "ratio": ours / theirs}


def best(run: Callable[[], object], repeat: int) -> float:
    """Return the milliseconds of the fastest repetition."""
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        run()
        times.append(1000 * (time.perf_counter() - started))
    return min(times)


def table(rows: Mapping[str, Mapping[str, float]]) -> str:
    """Return the rows as text."""
    head = f"{'formula':<44}{'ms':>10}{'numpy ms':>10}{'ratio':>8}"
    lines = [
        f"{formula:<44}{row['milliseconds']:>10.1f}{row['baseline']:>10.1f}{row['ratio']:>8.2f}"
        for formula, row in rows.items()
    ]
    return "\n".join([head, *lines])


def _normalise(matrix: Samples) -> Samples:
    mean, deviation = (f(matrix, axis=1, keepdims=True) for f in (np.nanmean, np.nanstd))
    result: Samples = (matrix - mean) / deviation
    return result


def _fill(matrix: Samples) -> Samples:
    full = matrix.copy()
    for point in range(matrix.shape[1] - 2, -1, -1):
        holes = np.isnan(full[:, point])
        full[holes, point] = full[holes, point + 1]
    for point in range(1, matrix.shape[1]):
        holes = np.isnan(full[:, point])
        full[holes, point] = full[holes, point - 1]
    return np.nan_to_num(full)


def _without_outliers(matrix: Samples) -> Samples:
    first, third = np.nanpercentile(matrix, [25, 75], axis=1, keepdims=True)
    reach = 1.5 * (third - first)
    return np.where((matrix < first - reach) | (matrix > third + reach), np.nan, matrix)


def _mean(matrix: Samples) -> Samples:
    result: Samples = np.nanmean(matrix, axis=0)
    return result


FORMULAS: Mapping[str, Baseline] = {
    'ave(filter(""))': _mean,
    'count(filter(""))': lambda matrix: np.count_nonzero(~np.isnan(matrix), axis=0).astype(np.float64),
    'max(filter(""))': lambda matrix: np.asarray(np.nanmax(matrix, axis=0)),
    'geo(filter(""))': lambda matrix: np.asarray(np.exp(np.nanmean(np.log(matrix), axis=0))),
    'std_dev(filter(""))': lambda matrix: np.asarray(np.nanstd(matrix, axis=0)),
    'norm(filter(""))': _normalise,
    'fill(filter(""))': _fill,
    'iqrr(filter(""))': _without_outliers,
    'ave(norm(fill(filter(""))))': lambda matrix: _mean(_normalise(_fill(matrix))),
    'ratio(ave(filter("")), ave(filter("")))': lambda matrix: _mean(matrix) / _mean(matrix),
}


if __name__ == "__main__":
    sys.exit(main())

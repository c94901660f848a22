"""Results for patches of many tests: votes, tests reported rightly and wrongly, and rounds.

::

    python -m benchmarks.comparing.many [--json] [--tests 1 10 50] [--patches 100] [--first 0] [--slower 0]
        [--difference -0.03] [--maximum-rounds 20] [--cell 1n-veth]

Each patch is judged as by :mod:`perftrend.perftest`: all tests after every block of rounds, until none
is waited for. Some of its tests are slower by the difference, the others are as fast as before. Each test
has its own noise. A patch of 50 tests takes some seconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

from benchmarks.comparing.patches import CELLS, Cell, Patch, patch
from benchmarks.output import grid, per_1000, share
from perftrend.analysis.comparison import PARENT, PATCH
from perftrend.model import BuildMeasurement, MetricSamples
from perftrend.perftest import PatchCriteria, PatchFinding, PatchVerdict, Round, judge

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Row:
    """The results for the patches with a number of tests."""

    tests: int
    slower: int
    """Tests of each patch that are slower."""
    patches: int
    blamed: float
    """Fraction of the patches with the vote -1; a false alarm if no test is slower."""
    praised: float
    """Fraction of the patches with the vote 1."""
    found: float | None
    """Fraction of the slower tests that were reported; None without any."""
    false: float | None
    """Fraction of the other tests that were reported as slower or faster; None without any."""
    mean_rounds: float


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate the chosen patches and print their results."""
    options = _parser().parse_args(argv)
    rows = [_row(tests, options) for tests in options.tests]
    if options.json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}, indent=1))
    else:
        _print(rows, f"{options.cell}: {options.slower} of the tests slower by {-options.difference:.0%}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.comparing.many", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--json", action="store_true", help="print JSON instead of a table")
    add("--tests", nargs="+", type=int, default=[1, 10, 50], help="of a patch (default: 1 10 50)")
    add("--patches", type=int, default=100, help="of a row (default: %(default)s)")
    add("--first", type=int, default=0, help="number of the first patch (default: %(default)s)")
    add("--slower", type=int, default=0, help="tests of a patch that are slower (default: %(default)s)")
    add("--difference", type=float, default=-0.03, metavar="RATIO", help="theirs (default: %(default)s)")
    add("--maximum-rounds", type=int, default=20, help="default: %(default)s")
    add("--cell", choices=list(CELLS), default="1n-veth", help="the testbed (default: %(default)s)")
    return parser


def _row(tests: int, options: argparse.Namespace) -> Row:
    slower = {str(number) for number in range(min(options.slower, tests))}
    numbers = range(options.first, options.first + options.patches)
    verdicts = [verdict(_tests(options, number, tests), options.maximum_rounds) for number in numbers]
    judged = [test for each in verdicts for test in each.tests]
    found = [test.finding is PatchFinding.REGRESSION for test in judged if test.test in slower]
    shown = {PatchFinding.REGRESSION, PatchFinding.PROGRESSION}
    false = [test.finding in shown for test in judged if test.test not in slower]
    return Row(
        tests,
        len(slower),
        options.patches,
        blamed=statistics.fmean(each.vote == -1 for each in verdicts),
        praised=statistics.fmean(each.vote == 1 for each in verdicts),
        found=statistics.fmean(found) if found else None,
        false=statistics.fmean(false) if false else None,
        mean_rounds=statistics.fmean(each.rounds for each in verdicts),
    )


def _tests(options: argparse.Namespace, number: int, tests: int) -> list[Patch]:
    cell: Cell = CELLS[options.cell]
    return [
        patch(
            cell,
            options.difference if test < options.slower else 0.0,
            number=number,
            rounds=options.maximum_rounds,
            test=test,
        )
        for test in range(tests)
    ]


def verdict(tests: Sequence[Patch], maximum_rounds: int) -> PatchVerdict:
    """Judge a patch after every block of rounds until it is settled.

    :param tests: the measurements of each of its tests; they are named by their index.
    """
    design = tests[0].design
    criteria = PatchCriteria(
        threshold=0.01,
        confidence=0.99,
        formula="jumpavg-0.4",
        minimum_rounds=design.first_rounds,
        maximum_rounds=maximum_rounds,
    )
    rounds = _rounds(tests)
    names = list(map(str, range(len(tests))))
    found = PatchVerdict()
    for done in design.looks:
        found = judge(rounds[:done], names, criteria)
        if found.is_settled:
            break
    return found


def _rounds(tests: Sequence[Patch]) -> list[Round]:
    measured: dict[int, list[BuildMeasurement]] = {PARENT: [], PATCH: []}
    for place, one in enumerate(tests[0].observations):
        at = _BEGIN + timedelta(hours=one.at_h)
        values = {
            str(test): MetricSamples(each.observations[place].samples) for test, each in enumerate(tests)
        }
        measured[one.build].append(BuildMeasurement("0" * 40, at, at, values, variant=one.variant))
    return [Round(*both) for both in zip(measured[PARENT], measured[PATCH], strict=True)]


def _print(rows: Sequence[Row], title: str) -> None:
    heads = ("tests", "patches", "vote -1", "vote +1", "slower tests found", "false tests", "rounds, mean")
    lines = (
        (
            str(row.tests),
            str(row.patches),
            share(row.blamed),
            share(row.praised),
            "" if row.found is None else share(row.found),
            "" if row.false is None else per_1000(row.false),
            f"{row.mean_rounds:.1f}",
        )
        for row in rows
    )
    grid(title, heads, lines)


if __name__ == "__main__":
    sys.exit(main())

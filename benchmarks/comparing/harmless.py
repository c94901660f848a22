"""How often a harmless patch is reported as slower or faster, by any of its tests.

::

    python -m benchmarks.comparing.harmless [--json] [--tests 1 10] [--patches 300] [--first 0]
        [--maximum-rounds 20] [--cells 1n-veth starts-2 …] [--recordings FILE:PROGRAM …]

Each patch is judged as by ``./run perftest``. In addition, the benchmark counts how often the order of
measuring shows a difference at any look, even if a patch is not measured for that long: that is what the
method guarantees for any noise. All tests of a patch are measured in one order; each has its own noise.
Builds of the cell ``layout`` differ for reasons unrelated to the patch: no order of measuring can distinguish
that from a change. A recording is a file for :class:`perftrend.bisect.simulator.Recording`. A patch of ten
tests takes a tenth of a second.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.comparing.many import verdict
from benchmarks.comparing.patches import CELLS, Cell, Patch, cell_from_recording, patch
from benchmarks.output import grid, share
from perftrend.analysis.comparison import randomization_test
from perftrend.perftest import PatchFinding

CONFIDENCE = 0.99
_WRONG = {PatchFinding.REGRESSION, PatchFinding.PROGRESSION}


@dataclass(frozen=True, slots=True)
class Row:
    """The results for the harmless patches of a cell."""

    cell: str
    tests: int
    patches: int
    shown: int
    """Patches that the order of measuring shows to differ in a test at any look."""
    wrong: int
    """Patches with a test that is reported as slower or faster in the end."""


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate the chosen cells and print how many patches were reported as slower or faster."""
    options = _parser().parse_args(argv)
    cells = [CELLS[name] for name in options.cells] + [
        cell_from_recording(each) for each in options.recordings
    ]
    rows = [_row(cell, tests, options) for cell in cells for tests in options.tests]
    if options.json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}, indent=1))
    else:
        lines = (
            (
                row.cell,
                str(row.tests),
                str(row.patches),
                share(row.shown / row.patches),
                share(row.wrong / row.patches),
            )
            for row in rows
        )
        grid("harmless patches", ("cell", "tests", "patches", "shown at any look", "wrong verdicts"), lines)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.comparing.harmless", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--json", action="store_true", help="print JSON instead of a table")
    add("--tests", nargs="+", type=int, default=[1, 10], help="of a patch (default: 1 10)")
    add("--patches", type=int, default=300, help="of a row (default: %(default)s)")
    add("--first", type=int, default=0, help="number of the first patch (default: %(default)s)")
    add("--maximum-rounds", type=int, default=20, help="default: %(default)s")
    add("--cells", nargs="*", choices=list(CELLS), default=list(CELLS), help="default: all")
    add("--recordings", nargs="+", metavar="FILE:PROGRAM", default=[], help="cells that replay a machine")
    return parser


def _row(cell: Cell, tests: int, options: argparse.Namespace) -> Row:
    shown = wrong = 0
    for number in range(options.first, options.first + options.patches):
        simulated = [
            patch(cell, 0.0, number=number, rounds=options.maximum_rounds, test=test) for test in range(tests)
        ]
        # No other one can be reported as slower or faster, and judging takes a hundred times as long.
        if any(_is_shown(each, tests) for each in simulated):
            shown += 1
            judged = verdict(simulated, options.maximum_rounds).tests
            wrong += any(test.finding in _WRONG for test in judged)
    return Row(cell.name, tests, options.patches, shown, wrong)


def _is_shown(simulated: Patch, tests: int) -> bool:
    """Return whether the order of measuring shows a difference at any look."""
    values = [float(np.mean(100 * np.log(each.samples))) for each in simulated.observations]
    builds = [each.build for each in simulated.observations]
    return randomization_test(values, builds, simulated.design, (1 - CONFIDENCE) / tests).is_shown


if __name__ == "__main__":
    sys.exit(main())

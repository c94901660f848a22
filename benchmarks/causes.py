"""What a reference build says about a change: the testbed, the product, or that it does not decide.

::

    python -m benchmarks.causes [--cases 300] [--traces 1 5] [--json]

A test and a reference build of one or of five traces are simulated over the same nights
(``perftrend.analysis.families.nights``): 0.5 to 3 % of noise of each trace, and 0.5 % that all share.
After 60 nights the product becomes slower, or the testbed and with it the reference build, or both. What the
reference build says is counted one and four nights later, if the change of the test is certain by then.

* ``seen``: changes that are certain at 99 %, in per cent of the cases.
* ``testbed``, ``product``, ``undecided``: what the reference build says, in per cent of those.
* ``wrong``: the testbed is blamed for the product, or the other way round.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import numpy as np

from benchmarks.output import grid
from perftrend.analysis.families.nights import USUAL, NoiseOfNights, simulate
from perftrend.analysis.reference import Blame, ReferenceTrend, estimate_shift

HISTORY = 60
CAUSES = {
    "product 3 %": (0.03, 0.0),
    "product 10 %": (0.1, 0.0),
    "testbed 3 %": (0.0, 0.03),
    "testbed 10 %": (0.0, 0.1),
    "product 10 %, testbed 3 %": (0.1, 0.03),
}
"""Drops of the product and of the testbed."""
NOISES = {
    "usual": USUAL,
    "Student's t, 3 degrees": NoiseOfNights(degrees=3.0),
    "r = 0.7": NoiseOfNights(memory=0.7),
    "modes 2 % apart": NoiseOfNights(modes=0.02),
    "2 % common": NoiseOfNights(common=0.02),
}
MOMENTS = [datetime(2026, 1, 1, 2, tzinfo=UTC) + timedelta(days=night) for night in range(HISTORY + 4)]
Case = tuple[str, str, int, int]
"""Cause, noise, traces of the reference build, and nights since the change."""


def rows(cases: int, traces: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield the shares of the verdicts for each cause and noise."""
    with ProcessPoolExecutor() as pool:
        for case in (
            (cause, noise, size, nights)
            for size in traces
            for cause in CAUSES
            for noise in NOISES
            for nights in (1, 4)
        ):
            found = Counter(filter(None, pool.map(partial(_blame, case), range(cases), chunksize=25)))
            seen = max(found.total(), 1)
            opposite = Blame.TESTBED if CAUSES[case[0]][0] else Blame.PRODUCT
            shares = {each.value: 100 * found[each] / seen for each in Blame}
            names = dict(zip(("cause", "noise", "traces", "nights"), case, strict=True))
            yield names | {"seen": 100 * seen / cases} | shares | {"wrong": shares[opposite.value]}


def _blame(case: Case, seed: int) -> Blame | None:
    """Return what is blamed for a change; None if it is not certain."""
    cause, noise, traces, nights = case
    of_product, of_testbed = CAUSES[cause]
    rng = np.random.default_rng([seed, traces])
    values, _ = simulate(rng, traces=traces + 1, runs=HISTORY + nights, noise=NOISES[noise])
    values[HISTORY:] *= 1 - of_testbed
    values[HISTORY:, 0] *= 1 - of_product
    moments, ends = MOMENTS[: HISTORY + nights], (MOMENTS[HISTORY - 1], MOMENTS[HISTORY])
    change = estimate_shift(moments, np.log(values[:, 0]), *ends)
    trend = ReferenceTrend.of(moments, values[:, 1:], lower_is_better=False)
    found = trend.compare(change, *ends) if change and change.size < -change.reach else None
    return found.blame if found else None


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--traces", type=int, nargs="+", default=[1, 5], help="traces of the reference build")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    found = list(rows(given.cases, given.traces))
    if given.json:
        print(json.dumps(found, indent=1))
        return 0
    lines = [
        [f"{each:.1f}" if isinstance(each, float) else str(each) for each in row.values()] for row in found
    ]
    grid(f"{given.cases} cases each", list(found[0]), lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Precision of the rates of the embedded generator: ``python -m benchmarks.generator [--json]``.

Measured on the testbed's own links with the embedded device behind them; trials that another
process disturbed are counted separately. The error of a rate is that of a whole trial.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from typing import Any, cast

from perftrend.measure import lock, specification
from perftrend.measure.embedded.drivers import EmbeddedGenerator
from perftrend.measure.testbed import Testbed
from perftrend.measure.trial_validity import CoreWatch

RATES_PPS = (10_000, 50_000, 100_000, 200_000)
FRAMES = ("64B", "1518B", "IMIX")


def rows(testbed: Testbed, *, trials: int, duration_s: float) -> Iterator[dict[str, Any]]:
    """Yield a row for each frame size and rate."""
    generator = cast(EmbeddedGenerator, testbed.generator)
    for frame in FRAMES:
        testbed.start_device({})
        testbed.use(frame)
        for rate_pps in RATES_PPS:
            errors, disturbed, inexact = [], 0, 0
            for _ in range(trials):
                watch = CoreWatch([*generator.busy_processes(), *testbed.device.busy_processes()])
                with watch.observe():
                    count = generator.count(rate_pps, duration_s)
                inexact += count.sent != round(rate_pps * duration_s)
                if watch.foreign:
                    disturbed += 1
                else:
                    errors.append(abs(count.sent_pps / rate_pps - 1))
            yield {
                "frame": frame,
                "rate_pps": rate_pps,
                "median_error": statistics.median(errors) if errors else None,
                "worst_error": max(errors, default=None),
                "wrong_counts": inexact,
                "disturbed": disturbed,
                "trials": trials,
            }
        yield {"frame": frame, "highest_pps": generator.highest_pps()}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--testbed", default="1n-veth")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--duration", type=float, default=1.0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    spec = specification.load(given.testbed)
    with lock.hold(spec.lock, wait_s=3600), Testbed(spec) as testbed:
        for row in rows(testbed, trials=given.trials, duration_s=given.duration):
            print(json.dumps(row) if given.json else _line(row), flush=True)
    return 0


def _line(row: dict[str, Any]) -> str:
    if "highest_pps" in row:
        return f"{row['frame']:>6}  highest rate {row['highest_pps']:9.0f} pps"
    errors = "all disturbed"
    if row["median_error"] is not None:
        errors = f"error median {row['median_error']:.4%} worst {row['worst_error']:.4%}"
    return (
        f"{row['frame']:>6}  {row['rate_pps']:7} pps  {errors}  wrong counts {row['wrong_counts']}"
        f"  disturbed {row['disturbed']} of {row['trials']}"
    )


if __name__ == "__main__":
    sys.exit(main())

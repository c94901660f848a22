"""Changes that families of traces share: how soon they are found, what is named, and false alarms.

::

    python -m benchmarks.families [--nights 60] [--datasets 60] [--only changes noises speed] [--json]

All traces are simulated (``perftrend.analysis.families.nights``): 300 traces with noise of 0.5 to 3 %
(Student's t of 4 degrees of freedom) and 0.5 % that all traces of a run share. After 60 runs of history, each
further run is evaluated as a job does it, until there is an alarm.

* ``changes``: runs until a drop is found, and whether the family that is named contains all traces of the
  drop and at most twice as many.
  ``interval``: how often its 95 % interval contains the drop.
* ``noises``: alarms in 1,000 runs without any change, over all families of the testbed.
* ``speed``: seconds for one evaluation of 10,000 traces of 180 runs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.output import grid
from perftrend.analysis.families import FamilyChange, find_families, find_family_changes
from perftrend.analysis.families.nights import USUAL, NoiseOfNights, simulate

HISTORY = 60
PARTS = ("changes", "noises", "speed")
CHANGES = {
    "1 % of a path": (0.01, ("path",), 3),
    "0.5 % of a path": (0.005, ("path",), 6),
    "0.3 % of a path": (0.003, ("path",), 12),
    "0.5 % of a path and a frame": (0.005, ("path", "frame"), None),
}
"""Drops, the parameters whose value their traces share, and the goal for the median of runs."""
NOISES = {
    "Student's t, 4 degrees": USUAL,
    "Student's t, 3 degrees": NoiseOfNights(degrees=3.0),
    "each run resembles the one before, r = 0.5": NoiseOfNights(memory=0.5),
    "each run resembles the one before, r = 0.7": NoiseOfNights(memory=0.7),
    "two modes 2 % apart, for a week": NoiseOfNights(modes=0.02),
    "0.5 % of each driver": NoiseOfNights(of_driver=0.005),
    "0.5 % of each driver, r = 0.5": NoiseOfNights(of_driver=0.005, memory=0.5),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found in one dataset."""

    runs: int
    """Runs until the alarm, or all of them."""
    is_found: bool
    is_named: bool
    """Whether the family is the right one, or a superset that is at most twice as large."""
    is_within: bool
    """Whether the interval contains the drop."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.families", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--nights", type=int, default=60, help="further runs of each dataset")
    parser.add_argument("--datasets", type=int, default=60, help="simulated testbeds of each row")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts to measure")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args(argv)
    with ProcessPoolExecutor() as pool:
        report: dict[str, Any] = {}
        if "changes" in options.only:
            report["changes"] = list(_changes(pool, options.datasets, options.nights))
        if "noises" in options.only:
            report["noises"] = list(_noises(pool, options.datasets, options.nights))
    if "speed" in options.only:
        report["speed"] = _speed()
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        _print(report)
    return 0


def _changes(pool: ProcessPoolExecutor, datasets: int, nights: int) -> Iterator[dict[str, Any]]:
    for name, (drop, shared, goal) in CHANGES.items():
        task = partial(_follow, nights=nights, noise=USUAL, drop=drop, shared=shared)
        outcomes = list(pool.map(task, range(datasets)))
        delays = [each.runs if each.is_found else np.inf for each in outcomes]
        yield {
            "name": name,
            "median": float(np.median(delays)),
            "p90": float(np.quantile(delays, 0.9, method="higher")),
            "goal": goal,
            "found": sum(each.is_found for each in outcomes) / datasets,
            "named": _share(each.is_named for each in outcomes if each.is_found),
            "within": _share(each.is_within for each in outcomes if each.is_named),
        }


def _share(outcomes: Iterable[bool]) -> float:
    counted = list(outcomes)
    return sum(counted) / max(len(counted), 1)


def _noises(pool: ProcessPoolExecutor, datasets: int, nights: int) -> Iterator[dict[str, Any]]:
    for name, noise in NOISES.items():
        outcomes = list(pool.map(partial(_follow, nights=nights, noise=noise), range(datasets)))
        runs = sum(each.runs for each in outcomes)
        yield {
            "name": name,
            "alarms": 1000 * sum(each.is_found for each in outcomes) / runs,
            "runs": runs,
        }


def _follow(
    seed: int, *, nights: int, noise: NoiseOfNights, drop: float = 0.0, shared: Sequence[str] = ()
) -> Outcome:
    """Evaluate each run after the history until there is an alarm."""
    rng = np.random.default_rng([seed, int(drop * 10_000), len(shared)])
    values, parameters = simulate(rng, runs=HISTORY + nights, noise=noise)
    pattern = {name: parameters[0][name] for name in shared}
    members = (
        [place for place, each in enumerate(parameters) if pattern.items() <= each.items()] if drop else []
    )
    values[HISTORY:, members] *= 1 - drop
    for run in range(1, nights + 1):
        found = find_family_changes(values[: HISTORY + run], parameters)
        if found:
            is_within = found[0].low <= -drop <= found[0].high
            return Outcome(run, is_found=True, is_named=_is_right(found[0], members), is_within=is_within)
    return Outcome(nights, is_found=False, is_named=False, is_within=False)


def _is_right(found: FamilyChange, members: Sequence[int]) -> bool:
    named = set(found.family.members.tolist())
    return set(members) <= named and len(named) <= 2 * len(members) and found.change < 0


def _speed() -> dict[str, float]:
    values, parameters = simulate(np.random.default_rng(1), traces=10_000, runs=180)
    begin = time.perf_counter()
    find_family_changes(values, parameters)
    return {"seconds": time.perf_counter() - begin, "families": len(find_families(parameters))}


def _print(report: dict[str, Any]) -> None:
    if rows := report.get("changes"):
        grid(
            "changes",
            ["drop", "runs, median", "90 %", "goal", "found", "named", "interval"],
            [
                [each["name"], f"{each['median']:g}", f"{each['p90']:g}", str(each["goal"] or "-"),
                 f"{each['found']:.0%}", f"{each['named']:.0%}", f"{each['within']:.0%}"]
                for each in rows
            ],
        )  # fmt: skip
    if rows := report.get("noises"):
        grid("noises", ["noise", "alarms in 1,000 runs", "runs"],
             [[each["name"], f"{each['alarms']:.2f}", str(each["runs"])] for each in rows])  # fmt: skip
    if speed := report.get("speed"):
        print(f"10,000 traces x 180 runs, {speed['families']} families: {speed['seconds']:.1f} s")


if __name__ == "__main__":
    sys.exit(main())

"""Time to find the changes in a series, compared with jumpavg, ruptures, Otava and asv.

::

    python -m benchmarks.changes [--sizes 60 180 1000 3000] [--kinds steps noise …] [--json]

Every detector gets the same series in the same process, one after the other; times are those of
the CPU, the best of several repetitions, in milliseconds. ``default`` is ``partition(samples)``, and
ratios are relative to it. The partition is also measured with the compiled search, with numpy's, and with
outliers. The report shows which numba compiled the search; without numba, the default is numpy's.
``excess`` is the number of bits by which jumpavg's partition is longer than ours. Kinds:

* steps: noise of 0.5 %, steps of 2.5 to 8 % after 20 to 60 runs each;
* noise: noise of 0.5 % alone;
* drift: the same on a rise of 30 % over the series;
* different: uniformly distributed from 0 to the maximum, no two values alike;
* real: the throughput of a database, commit by commit (tests/data), repeated if it is too short.

In addition: the time of one more run at 180 runs, and of 10,000 series of 180 runs on all cores.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

import jumpavg  # type: ignore[import-untyped]  # it has no types
import numpy as np

from benchmarks.power.detectors import detectors, versions
from perftrend.analysis import GrowingPartition, partition, partition_all
from perftrend.analysis.mdl import is_compiled, load
from perftrend.model import Samples

REAL = Path(__file__).parent.parent / "tests" / "data" / "tigerbeetle_throughput.json"
PEERS = ("ruptures linear", "otava p .001", "asv")
KINDS = ("steps", "noise", "drift", "different", "real")
SIZES = (60, 180, 1000, 3000)
SPEND_S = 0.5
"""The total time after which the repetitions of one measurement end."""
REPETITIONS = 50
BATCH = 10_000
NIGHTS = 180


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.changes", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the tables")
    options = parser.parse_args(argv)
    # A short series alone would be partitioned by numpy, as loading takes longer.
    load()
    known = detectors()
    peers = {name: known[name] for name in PEERS if name in known}
    cells = [cell(kind, size, peers) for kind in options.kinds for size in options.sizes]
    report = {
        "kernel": kernel(),
        "versions": versions(),
        "cells": cells,
        "append_us": {kind: append_us(kind) for kind in options.kinds},
        "batch": batch(),
    }
    print(json.dumps(report, indent=2) if options.json else tables(report))
    return 0


def kernel() -> str:
    """Return the engine that partitions a series by default."""
    if is_compiled():
        return f"compiled by numba {metadata.version('numba')}"
    return "numpy (numba cannot be imported)"


def own() -> dict[str, Callable[[Samples], object]]:
    """Return the variants of the partition."""
    compiled = {"compiled": partial(partition, engine="compiled")} if is_compiled() else {}
    return {
        "default": partition,
        **compiled,
        "numpy": partial(partition, engine="numpy"),
        "outliers": partial(partition, outliers=True),
    }


def series(kind: str, size: int, seed: int = 1) -> Samples:
    """Return a series of a kind; the same one every time."""
    generator = np.random.default_rng(seed)
    noise = generator.normal(1.0, 0.005, size)
    match kind:
        case "noise":
            return 1e7 * noise
        case "drift":
            return 1e7 * noise * (1 + 0.3 * np.arange(size) / size)
        case "different":
            return generator.uniform(0.0, 1e7, size)
        case "steps":
            steps = 1 + generator.choice([-1, 1], size) * generator.uniform(0.025, 0.08, size)
            levels = np.repeat(np.cumprod(steps), generator.integers(20, 61, size))[:size]
            return 1e7 * noise * levels
    real = [value for _, value in json.loads(REAL.read_text())["samples"]]
    return np.array(list(islice(chain.from_iterable(repeat(real)), size)))


def cell(kind: str, size: int, peers: dict[str, Callable[[Samples], Any]]) -> dict[str, Any]:
    """Measure every detector on one series."""
    samples = series(kind, size)
    theirs = []
    calls = own() | peers | {"jumpavg": lambda samples: theirs.append(jumpavg.classify(samples.tolist()))}
    times = {name: cpu_ms(partial(call, samples)) for name, call in calls.items()}
    ours = partition(samples)
    return {
        "kind": kind,
        "size": size,
        "ms": times,
        "ratio": {name: spent / times["default"] for name, spent in times.items()},
        "excess_bits": theirs[0].bits - ours.bits,
        "groups": len(ours.groups),
    }


def cpu_ms(call: Callable[[], object]) -> float:
    """Return the least CPU time of a call, in milliseconds; the first one may compile."""
    spent: list[float] = []
    begun = time.process_time()
    call()
    first = time.process_time() - begun
    if first > SPEND_S * 4:
        return 1000 * first
    while not spent or (sum(spent) < SPEND_S and len(spent) < REPETITIONS):
        begun = time.process_time()
        call()
        spent.append(time.process_time() - begun)
    return 1000 * min(spent)


def append_us(kind: str) -> dict[str, float]:
    """Return the time of one more run after 180, in microseconds: the median, and with a new maximum."""
    samples = series(kind, NIGHTS + 100)
    # Usually the next run is not a new maximum; in a rising series every run would be one.
    samples[0] = samples.max()
    growing = GrowingPartition(samples[:NIGHTS].tolist())
    spent = []
    for sample in samples[NIGHTS:].tolist():
        begun = time.perf_counter()
        growing.append(sample)
        spent.append(time.perf_counter() - begun)
    begun = time.perf_counter()
    growing.append(float(2 * samples.max()))
    return {"usual": 1e6 * statistics.median(spent), "new maximum": 1e6 * (time.perf_counter() - begun)}


def batch() -> dict[str, float]:
    """Partition many series on all cores, by the clock."""
    kinds = ("steps", "noise", "drift", "different")
    many = [series(kinds[seed % 4], NIGHTS, seed) for seed in range(BATCH)]
    begun, worked = time.perf_counter(), time.process_time()
    done = sum(1 for _ in partition_all(many))
    return {
        "series": done,
        "elapsed_s": time.perf_counter() - begun,
        "cpu_s": time.process_time() - worked,
    }


def tables(report: dict[str, Any]) -> str:
    """Format the report as tables."""
    names = list(report["cells"][0]["ms"])
    lines = [
        f"search: {report['kernel']}",
        "times the default partition's time; the first column is that time, in ms",
        f"{'kind':10}{'runs':>6}{'ms':>10}"
        + "".join(f"{name:>17}" for name in names[1:])
        + f"{'excess, bits':>14}{'groups':>8}",
    ]
    for each in report["cells"]:
        ratios = "".join(f"{each['ratio'][name]:17.4g}" for name in names[1:])
        lines.append(
            f"{each['kind']:10}{each['size']:6}{each['ms']['default']:10.3f}{ratios}"
            f"{each['excess_bits']:14.2g}{each['groups']:8}"
        )
    lines += ["", f"{'one more run after 180, us':30}{'usual':>10}{'new maximum':>14}"]
    lines += [
        f"{kind:30}{spent['usual']:10.1f}{spent['new maximum']:14.0f}"
        for kind, spent in report["append_us"].items()
    ]
    many = report["batch"]
    lines += [
        "",
        f"{many['series']} series of {NIGHTS} runs: {many['elapsed_s']:.1f} s by the clock, "
        f"{many['cpu_s']:.1f} s of CPU",
        "peers: " + ", ".join(f"{name} {version}" for name, version in report["versions"].items()),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

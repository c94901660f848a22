"""Time to cluster the traces of a window, and the quality of the clusters, compared with peers.

::

    python -m benchmarks.clustering [--sizes 30000x15 100000x15 40000x128 …] [--repetitions 3] [--json]

A window has a number of traces and of commits: noise of one deviation, and 12 changes, up and down at
six commits, each of 3 to 8 deviations in a group of .1 to 3 % of the traces. It is normalised once, and
all methods divide the same rows into the same number of clusters, the automatic one, in the same process,
one after the other, with another seed in each repetition. All begin with the rows that k-means++
chooses and iterate up to 100 times; ``random`` is our own search with the choice of Skia Perf. Reported are
medians:

* CPU time relative to ours, and seconds of the CPU and by the clock;
* the sum of the distances and of their squares, relative to ours;
* ``steps``: the fraction of the changes of which more than half are in one cluster that has its step there
  and is interesting, by the Skia Perf statistic, and by the corrected one (``t``);
* ``false``: such clusters of which less than a tenth belongs to any change.

The Skia Perf cutoff is scaled to 150 √(commits / 128), which is 51 in a window of 15; the corrected one is
unchanged. ``whole`` is the CPU time of all of ``find_clusters``, including normalising, sorting, summaries
and step fits.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.cluster import (
    CORRECTED_CUTOFF,
    CUTOFF,
    MINIMUM_SIDE,
    Seeding,
    automatic_k,
    centroid_step,
    find_clusters,
    k_means,
    normalise,
    t_statistic,
)
from perftrend.model import Better, Samples, TraceKey

SIZES = ((10_000, 15), (30_000, 15), (100_000, 15), (40_000, 128))
REPETITIONS = 3
CHANGES = 12
TILE = 128
"""The number of commits of a window for which the Skia Perf cutoff was chosen."""
OWN = "perftrend"
SLOWEST_SCIPY = 2_000_000
"""Rows times clusters up to which scipy finishes in reasonable time."""

Labels: TypeAlias = NDArray[np.intp]
Divide: TypeAlias = Callable[[Samples, int, int], tuple[Samples, Labels]]
"""A function of rows, initial clusters and a seed that returns the centroids and the label of each row."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Traces, some of which changed together."""

    traces: Samples
    """Shape (n, w)."""
    groups: Labels
    """The change that each trace belongs to, shape (n,), -1 for none."""
    positions: tuple[int, ...]
    """The position of each change."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.clustering", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--sizes", nargs="+", default=SIZES, type=_size, metavar="TRACESxCOMMITS")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(argv)
    report = [cell(traces, commits, options.repetitions) for traces, commits in options.sizes]
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0


def _size(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([1-9]\d{2,7})x([1-9]\d{1,3})", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r}: give traces and commits, such as 30000x15")
    return int(found[1]), int(found[2])


def window(traces: int, commits: int, seed: int = 1) -> Window:
    """Return a window; the same one every time."""
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(traces, commits))
    groups = np.full(traces, -1)
    shares = np.exp(generator.uniform(np.log(0.001), np.log(0.03), CHANGES))
    # Two changes at one commit in one direction would have the same shape.
    positions = np.repeat(np.linspace(MINIMUM_SIDE, commits - MINIMUM_SIDE, CHANGES // 2).astype(int), 2)
    steps = np.tile([-1, 1], CHANGES // 2) * generator.uniform(3, 8, CHANGES)
    stops = np.cumsum(np.maximum(traces * shares, 1).astype(int))
    for group, (start, stop) in enumerate(zip([0, *stops], stops, strict=False)):
        groups[start:stop] = group
        values[start:stop, positions[group] :] += steps[group]
    return Window(values, groups, tuple(positions.tolist()))


def peers() -> dict[str, Divide]:
    """Return the peers that are installed, by name."""
    found: dict[str, Divide] = {}
    for name, module, divide in (
        ("scikit-learn", "sklearn.cluster", _scikit_learn),
        ("scipy", "scipy.cluster.vq", _scipy),
    ):
        try:
            importlib.import_module(module)
        except ImportError:
            continue
        found[name] = divide
    return found


def _own(seeding: Seeding) -> Divide:
    def divide(rows: Samples, k: int, seed: int) -> tuple[Samples, Labels]:
        found = k_means(rows, k, seed=seed, seeding=seeding)
        return found.centroids, found.labels

    return divide


def _scikit_learn(rows: Samples, k: int, seed: int) -> tuple[Samples, Labels]:
    cluster = importlib.import_module("sklearn.cluster")
    found = cluster.KMeans(k, n_init=1, max_iter=100, random_state=seed).fit(rows.astype(np.float32))
    return found.cluster_centers_.astype(np.float64), found.labels_


def _scipy(rows: Samples, k: int, seed: int) -> tuple[Samples, Labels]:
    vq = importlib.import_module("scipy.cluster.vq")
    centroids, labels = vq.kmeans2(rows, k, iter=100, minit="++", rng=seed)
    return centroids, labels


def cell(traces: int, commits: int, repetitions: int) -> dict[str, Any]:
    """Run all methods on one window."""
    made, k = window(traces, commits), automatic_k(traces)
    rows = normalise(made.traces).rows
    known = {OWN: _own(Seeding.SPREAD), "random": _own(Seeding.RANDOM)} | peers()
    if traces * k > SLOWEST_SCIPY:
        known.pop("scipy", None)
    measured = {
        name: [measure_division(divide, made, rows, k, seed) for seed in range(repetitions)]
        for name, divide in known.items()
    }
    medians = {
        name: {figure: median(each[figure] for each in runs) for figure in runs[0]}
        for name, runs in measured.items()
    }
    keys = [TraceKey.of(test=f"{number:06}", metric="mrr", testbed="2n-clx") for number in range(traces)]
    worked = time.process_time()
    find_clusters(made.traces, keys, k=None)
    return {
        "traces": traces,
        "commits": commits,
        "k": k,
        "whole_s": time.process_time() - worked,
        "medians": medians,
        "ratios": {
            name: {each: figures[each] / medians[OWN][each] for each in ("cpu_s", "error", "squares")}
            for name, figures in medians.items()
        },
    }


def measure_division(divide: Divide, made: Window, rows: Samples, k: int, seed: int) -> dict[str, float]:
    """Divide the rows, and return time and quality."""
    begun, worked = time.perf_counter(), time.process_time()
    centroids, labels = divide(rows, k, seed)
    clock_s, cpu_s = time.perf_counter() - begun, time.process_time() - worked
    distances = np.linalg.norm(rows - centroids[labels], axis=1)
    return {
        "clock_s": clock_s,
        "cpu_s": cpu_s,
        "error": float(distances.sum()),
        "squares": float((distances**2).sum()),
        **evaluate_clusters(made, centroids, labels),
    }


def evaluate_clusters(made: Window, centroids: Samples, labels: Labels) -> dict[str, float]:
    """Return the fraction of the changes that were found, and the number of false clusters, by statistic."""
    width = made.traces.shape[1]
    sizes = np.bincount(made.groups + 1, minlength=CHANGES + 1)
    found: dict[str, set[int]] = {"": set(), " t": set()}
    false = dict.fromkeys(found, 0)
    for label, centroid in enumerate(centroids):
        step = centroid_step(centroid, better=Better.HIGHER)
        members = np.bincount(made.groups[labels == label] + 1, minlength=sizes.size)
        if step is None:
            continue
        beyond = {
            "": abs(step.regression) > CUTOFF * (width / TILE) ** 0.5,
            " t": abs(t_statistic(step, width)) > CORRECTED_CUTOFF,
        }
        for statistic in (name for name, interesting in beyond.items() if interesting):
            change = int(np.argmax(members[1:]))
            if 2 * members[change + 1] > sizes[change + 1] and step.position == made.positions[change]:
                found[statistic].add(change)
            false[statistic] += bool(10 * members[1:].sum() < members.sum())
    return {f"steps{name}": len(changes) / CHANGES for name, changes in found.items()} | {
        f"false{name}": number for name, number in false.items()
    }


def table(report: list[dict[str, Any]]) -> str:
    """Format the report as a table."""
    lines = [
        f"{'traces':>8}{'commits':>9}{'k':>5}  {'':14}{'times ours':>11}{'CPU, s':>9}{'clock, s':>10}"
        f"{'error':>9}{'squares':>9}{'steps':>7}{'false':>7}{'steps t':>9}{'false t':>9}{'whole, s':>10}"
    ]
    for each in report:
        head = f"{each['traces']:8}{each['commits']:9}{each['k']:5}"
        for name, figures in each["medians"].items():
            ratios = each["ratios"][name]
            whole = f"{each['whole_s']:10.2f}" if name == OWN else ""
            lines.append(
                f"{head}  {name:14}{ratios['cpu_s']:11.2f}{figures['cpu_s']:9.2f}{figures['clock_s']:10.2f}"
                f"{ratios['error']:9.4f}{ratios['squares']:9.4f}{figures['steps']:7.2f}{figures['false']:7g}"
                f"{figures['steps t']:9.2f}{figures['false t']:9g}{whole}"
            )
    missing = {"scikit-learn", "scipy"} - set(peers())
    lines += [f"not installed: {name}" for name in sorted(missing)]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

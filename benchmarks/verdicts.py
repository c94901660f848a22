"""How often the verdict on the newest run is wrong, and the delay of detection in return.

::

    python -m benchmarks.verdicts [--json] [--only noise long noises price delay] [--series 4000]
        [--traces 150] [--false-alarms 0.5] [--no-outliers] [--kinds "slow walk" ...] [--recordings FILE ...]

Five tables, all but *noises* on seeded normal noise. *noise*: the number of 1,000 series of pure noise with
a reported change in their newest run. *long*: the number of reported changes in 1,000 runs of pure noise,
after 60 runs of history. *noises*: the same for noise of other kinds, those of benchmarks.power at twice the
width, and for recorded noise of a program on a machine: each run is one process of a recording, from any
place of it, as in different nights, or the next one, seconds later. *price*: how often, in %, a drop is
reported by the first slow run, by one of the first three, and how often the return is reported at once if
only one run was slow. *delay*: the median number of new runs until a drop is reported, after 60 runs of
history. The numbers do not depend on the speed of the machine.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.power.delay import Noise
from benchmarks.power.noises import NOISES as KINDS
from benchmarks.power.series import replay, resample
from perftrend.analysis import Criteria, Vigilance
from perftrend.analysis.reportable_changes import WATCHFUL, findings, sight
from perftrend.analysis.verdict import newest_outcome
from perftrend.bisect.simulator.noise import Recording
from perftrend.model import Better, Outcome, Run, Samples, Series, TraceKey

NOISES = (0.005, 0.01, 0.02, 0.03)
SIZES = (2, 3, 4, 5, 6, 9, 12, 20, 30)
LONG_SIZES = (61, 180)
PARTS = ("noise", "long", "noises", "price", "delay")
HISTORY, NEW_RUNS = 60, 60
_START = datetime(2024, 1, 1, tzinfo=UTC)
_KEY = TraceKey.of(test="noise")
_LEVEL = 10e6


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the chosen tables and print them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdicts", description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[*PARTS], help="default: all")
    parser.add_argument("--series", type=int, default=4000, help="series of a cell of noise")
    parser.add_argument("--traces", type=int, default=150, help="traces of a cell of the other tables")
    parser.add_argument(
        "--false-alarms",
        type=float,
        default=WATCHFUL.false_alarms_per_1000,
        help="stated rate of the sequential detector, in 1,000 runs",
    )
    parser.add_argument("--no-outliers", dest="outliers", action="store_false", help="as the setting")
    parser.add_argument(
        "--kinds", nargs="+", metavar="NAME", help="kinds of noise of that table; default: all"
    )
    parser.add_argument(
        "--recordings", nargs="+", type=Path, default=[], metavar="FILE", help="recordings to be replayed"
    )
    options = parser.parse_args(argv)
    known = {
        **{name: _double_noise(noise) for name, noise in KINDS.items()},
        **_noise_from_recordings(options.recordings),
    }
    kinds = {name: each for name, each in known.items() if name in (options.kinds or [name])}
    criteria = Criteria(
        outliers=options.outliers, vigilance=Vigilance(false_alarms_per_1000=options.false_alarms)
    )
    makers: dict[str, Callable[[int, Criteria], Iterator[dict[str, Any]]]] = {
        "noise": _noise,
        "long": _long,
        "noises": partial(_noises, kinds=kinds),
        "price": _price,
        "delay": _delay,
    }
    counts = {part: options.series if part == "noise" else options.traces for part in PARTS}
    report = {part: list(makers[part](counts[part], criteria)) for part in options.only}
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        for part, rows in report.items():
            _print(part, rows)
    return 0


def outcome(samples: Samples, criteria: Criteria) -> Outcome:
    """Return the outcome of the newest of these runs."""
    runs = tuple(_run(build) for build in range(samples.size))
    series = Series(_KEY, "pps", Better.HIGHER, runs, samples)
    rule = criteria.rule(series.better)
    found = findings(samples, rule)
    return newest_outcome(series, found, sight(samples, found, rule), rule)[0]


def _run(build: int) -> Run:
    started = _START + timedelta(days=build)
    return Run("2n-clx", "trending", build, started, started)


def _noise(count: int, criteria: Criteria) -> Iterator[dict[str, Any]]:
    for noise in NOISES:
        row: dict[str, Any] = {"noise": f"{noise:.1%}"}
        for size in SIZES:
            generator = np.random.default_rng([17, size])
            series = _LEVEL * generator.normal(1, noise, (count, size))
            row[f"{size} runs"] = 1000 * _share(
                outcome(one, criteria) is not Outcome.NORMAL for one in series
            )
        yield row


def _long(count: int, criteria: Criteria) -> Iterator[dict[str, Any]]:
    first, last = LONG_SIZES
    for noise in NOISES:
        series = _LEVEL * np.random.default_rng(18).normal(1, noise, (count, last))
        outcomes = [outcome(one[:size], criteria) for one in series for size in range(first, last + 1)]
        yield {
            "noise": f"{noise:.1%}",
            **{
                str(each): 1000 * _share(one is each for one in outcomes)
                for each in (Outcome.REGRESSION, Outcome.PROGRESSION)
            },
        }


def _noises(count: int, criteria: Criteria, *, kinds: Mapping[str, Noise]) -> Iterator[dict[str, Any]]:
    first, last = LONG_SIZES
    for name, noise in kinds.items():
        rng = np.random.default_rng([21, *name.encode()])
        traces = [_LEVEL * (1 + noise(rng, last)) for _ in range(count)]
        outcomes = [outcome(one[:size], criteria) for one in traces for size in range(first, last + 1)]
        yield {
            "kind": name,
            **{
                str(each): 1000 * _share(one is each for one in outcomes)
                for each in (Outcome.REGRESSION, Outcome.PROGRESSION)
            },
            "runs": len(outcomes),
        }


def _double_noise(noise: Noise) -> Noise:
    """Return noise twice as wide: small steps that are found in 0.5 % would be too small to be reported."""
    return lambda rng, size: 2 * noise(rng, size)


def _noise_from_recordings(files: Iterable[Path]) -> dict[str, Noise]:
    """Return the noise of each program in recordings, by name."""
    found: dict[str, Noise] = {}
    for file in files:
        lines = file.read_text(encoding="utf-8").splitlines()
        programs = dict.fromkeys(row[1] for row in csv.reader(lines))
        for program in programs:
            recording = Recording.read(file.stem, lines, program)
            found[f"{recording.name}, a process a night"] = resample(recording)
            found[f"{recording.name}, processes in a row"] = replay(recording)
    return found


def _price(count: int, criteria: Criteria) -> Iterator[dict[str, Any]]:
    for before in (8, 30):
        for noise in NOISES[1:]:
            row: dict[str, Any] = {"runs before": before, "noise": f"{noise:.1%}"}
            for drop in (0.02, 0.05, 0.1, 0.2, 0.3):
                generator = np.random.default_rng([19, before])
                series = _LEVEL * generator.normal(1, noise, (count, before + 3))
                slow, lone = series.copy(), series[:, : before + 2].copy()
                slow[:, before:] *= 1 - drop
                lone[:, before] *= 1 - drop
                outcomes = [[outcome(one[: before + new], criteria) for new in (1, 2, 3)] for one in slow]
                cells = (
                    _share(each[0] is Outcome.REGRESSION for each in outcomes),
                    _share(Outcome.REGRESSION in each for each in outcomes),
                    _share(outcome(one, criteria) is Outcome.PROGRESSION for one in lone),
                )
                row[f"drop of {drop:.0%}"] = [round(100 * cell) for cell in cells]
            yield row


def _delay(count: int, criteria: Criteria) -> Iterator[dict[str, Any]]:
    for drop in (0.01, 0.02, 0.03, 0.05, 0.1):
        row: dict[str, Any] = {"drop": f"{drop:.0%}"}
        for noise in NOISES:
            generator = np.random.default_rng([20, round(1000 * drop), round(1000 * noise)])
            series = _LEVEL * generator.normal(1, noise, (count, HISTORY + NEW_RUNS))
            series[:, HISTORY:] *= 1 - drop
            median = float(np.median([_runs_until_report(one, criteria) for one in series]))
            row[f"noise of {noise:.1%}"] = str(int(median)) if median <= NEW_RUNS else "never"
        yield row


def _runs_until_report(samples: Samples, criteria: Criteria) -> int:
    """Return the number of new runs until a regression is reported, or NEW_RUNS + 1 if none is."""
    for new in range(1, NEW_RUNS + 1):
        if outcome(samples[: HISTORY + new], criteria) is Outcome.REGRESSION:
            return new
    return NEW_RUNS + 1


def _share(marks: Iterator[bool]) -> float:
    return float(np.mean(list(marks)))


def _print(part: str, rows: Sequence[dict[str, Any]]) -> None:
    table = Table(title=part)
    for name in rows[0]:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    Console(width=150).print(table)


def _cell(value: object) -> str:
    if isinstance(value, list):
        return " ".join(f"{each:4d}" for each in value)
    return f"{value:.1f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())

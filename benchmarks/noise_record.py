"""Record the noise of this machine on programs, for tests of bisections.

::

    python -m benchmarks.noise_record FILE [NAME=COMMAND …] [--minutes 5 | --processes N] [--pause 0]

Each command is started repeatedly, in turn with the others, and prints one number per line: the time of each
repetition within its process, in any unit. Without a command, ``python-json`` is recorded: nine
repetitions of writing and reading JSON, in milliseconds of CPU time.

Every program is recorded twice. ``NAME`` is measured as by the profile ``command``: pinned to the core
that is the fastest at the moment, observed, and repeated if it was disturbed. ``NAME-raw`` is started as by a
shell. The file is CSV without a header: the seconds since the start, the name, and the repetitions::

    python -m benchmarks.bisection --recording FILE NAME

bisects simulated histories under that noise. The table shows, for the medians of the processes, the median,
the standard deviation, and the fraction that took more than 1.2 times as long as the fastest tenth, as in a
slow phase; and the average number of starts until a process was not disturbed. Ctrl-C ends the
recording, and the file up to then is valid.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import numpy as np
from rich.console import Console
from rich.progress import Progress

from benchmarks.output import grid
from perftrend import errors
from perftrend.builds.observation import Observer

RAW = "-raw"
_TIMEOUT_S = 600.0
_SLOW = 1.2
_JSON = """
import json, time
data = {f"key {at}": [at * 1.5, "text", None, {"deep": [at] * 8}] for at in range(300)}
for _ in range(9):
    began = time.process_time()
    for _ in range(16):
        json.loads(json.dumps(data))
    print(1000 * (time.process_time() - began))
"""
DEFAULT = {"python-json": (sys.executable, "-c", _JSON)}


@dataclass(slots=True)
class Recorded:
    """The processes of one program."""

    times: list[tuple[float, ...]] = field(default_factory=list)
    starts: int = 0
    """Including those of repeated processes."""


def main(argv: Sequence[str] | None = None) -> int:
    """Record, and print statistics of the noise."""
    options = _parser().parse_args(argv)
    with errors.report_to_stderr() as outcome:
        programs = dict(_program(text) for text in options.programs) or DEFAULT
        recorded = _record(options, programs)
        if any(each.times for each in recorded.values()):
            _print(recorded)
    return outcome.exit_code


def _record(options: argparse.Namespace, programs: Mapping[str, Sequence[str]]) -> Mapping[str, Recorded]:
    """Record until the time is over or it is interrupted."""
    recorded = {f"{name}{suffix}": Recorded() for name in programs for suffix in ("", RAW)}
    console = Console(stderr=True)
    observer = Observer(one_core=True, warn=lambda _: None)
    try:
        with (
            options.file.open("x", encoding="utf-8") as file,
            Progress(console=console, disable=not console.is_terminal) as progress,
        ):
            task = progress.add_task("recording", total=1.0)
            for at_s, done in _rounds(options):
                progress.update(task, completed=done)
                for name, command in programs.items():
                    _add(recorded[name], _observe(observer, command), name, at_s(), file)
                    _add(recorded[f"{name}{RAW}"], [_repetitions(command)], f"{name}{RAW}", at_s(), file)
                time.sleep(options.pause)
    except FileExistsError:
        raise errors.UsageError(f"{options.file} already exists; name a new file") from None
    except OSError as error:
        raise errors.UsageError(
            f"{options.file}: {error.strerror}; name a file that can be written"
        ) from None
    except KeyboardInterrupt:
        pass
    return recorded


def _rounds(options: argparse.Namespace) -> Iterator[tuple[Callable[[], float], float]]:
    """Yield a clock in seconds and the finished fraction, for each round of starts of all programs."""
    began = time.monotonic()

    def at_s() -> float:
        return time.monotonic() - began

    done, number = 0.0, 0
    while done < 1:
        yield at_s, done
        number += 1
        done = number / options.processes if options.processes else at_s() / (60 * options.minutes)


def _observe(observer: Observer, command: Sequence[str]) -> list[tuple[float, ...]]:
    """Return the output of each start until one was not disturbed; the last one counts."""
    printed = []
    for _ in observer.attempts():
        with observer.observe():
            printed.append(_repetitions(command))
    return printed


def _repetitions(command: Sequence[str]) -> tuple[float, ...]:
    """Start a command and return the numbers that it prints.

    :raises UsageError: if it fails, or prints something else.
    """
    shown = shlex.join(command)[:200]
    try:
        ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S)
        times = tuple(float(line) for line in ended.stdout.split())
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise errors.UsageError(
            f"{shown}: {str(error).rstrip('.')}; give a command that prints a time on each line"
        ) from None
    if not times or not all(0 < each < float("inf") for each in times):
        raise errors.UsageError(f"{shown}: it printed no times above 0; give a command that prints some")
    return times


def _add(
    recorded: Recorded, starts: Sequence[tuple[float, ...]], name: str, at_s: float, file: TextIO
) -> None:
    times = starts[-1]
    if recorded.times and len(times) != len(recorded.times[0]):
        numbers = f"{len(times)} times after {len(recorded.times[0])}"
        raise errors.UsageError(f"{name} printed {numbers}; let it print the same number each time")
    recorded.times.append(times)
    recorded.starts += len(starts)
    file.write(",".join([f"{at_s:.2f}", name, *(f"{each:.6g}" for each in times)]) + "\n")
    file.flush()


def _print(recorded: Mapping[str, Recorded]) -> None:
    heads = ("program", "processes", "median", "deviation", "slow", "starts each")
    lines = [_line(name, each) for name, each in recorded.items() if each.times]
    grid(f"noise of {len(os.sched_getaffinity(0))} cores", heads, lines)


def _line(name: str, recorded: Recorded) -> Sequence[str]:
    medians = np.array([np.median(times) for times in recorded.times])
    fastest = float(np.quantile(medians, 0.1))
    return (
        name,
        f"{len(medians)}",
        f"{np.median(medians):.4g}",
        f"{100 * np.std(medians) / np.mean(medians):.1f} %",
        f"{100 * np.mean(medians > _SLOW * fastest):.0f} %",
        f"{recorded.starts / len(medians):.2f}",
    )


def _program(text: str) -> tuple[str, Sequence[str]]:
    name, _, command = text.partition("=")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise errors.UsageError(f"{text}: {error}; close the quotation marks") from None
    if not name or "," in name or not words:
        raise errors.UsageError(
            f"{text[:200]} is not a program; write NAME=COMMAND, such as sort='./bench sort'"
        )
    return name, words


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.noise_record", description=__doc__.split("\n", 1)[0]
    )
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="new file for the recording")
    add("programs", nargs="*", metavar="NAME=COMMAND", help="what is started (default: python-json)")
    how_long = parser.add_mutually_exclusive_group()
    how_long.add_argument("--minutes", type=_minutes, default=5.0, help="how long (default: %(default)g)")
    how_long.add_argument("--processes", type=_count, metavar="N", help="processes of each program instead")
    add("--pause", type=float, default=0.0, metavar="SECONDS", help="after each round (default: %(default)g)")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return minutes


if __name__ == "__main__":
    sys.exit(main())

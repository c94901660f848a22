"""Installation and measurement of one commit's build by the commands of its profile.

The command that measures prints numbers. Other output is an error unless the profile ignores it, so that no
other number is mistaken for a result.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from perftrend.analysis.instructions import InstructionCounts, InstructionDifference, compare_instructions
from perftrend.builds import commands, valgrind
from perftrend.builds.commands import MOST_BYTES, Steps, Stop
from perftrend.builds.observation import Observer
from perftrend.builds.profile import SSH_OPTIONS, MeasureTable, Profile
from perftrend.errors import BuildError, SettingsError, TestbedError, UsageError
from perftrend.files import private_folder
from perftrend.model import Better, BuildMeasurement, MetricSamples
from perftrend.sandbox import VARIABLES, Sandbox
from perftrend.text import INSTRUCTIONS

_NONE: Mapping[str, str] = MappingProxyType({})
_WHOLE = re.compile(r"[0-9a-f]{40}")
_HASH = re.compile(r"(?<![0-9a-f])[0-9a-f]{7,40}(?![0-9a-f])")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_LONGEST = 60
_NOTE = "# "
"""Begins the lines of a log that perftrend writes."""
_OF_TIME = frozenset({"ns", "us", "µs", "μs", "ms", "s", "sec", "seconds", "min"})
"""Units of durations, of which less is better."""
_COUNTED_STARTS = 2
"""Starts of each build whose instructions are counted."""
_LONG_ENOUGH_S, _MOST_STARTS = 0.3, 10
"""How long a command runs, and in how many starts at most, until its use of the core is known: the kernel
counts the time of a core in steps of 10 ms."""
_PADDING_BYTES = 1032
"""The environment of each variant is larger by this, which is not a multiple of a cache line or a page."""


@dataclass(frozen=True, slots=True)
class Work:
    """The build of one commit.

    :raises UsageError: if the commit is not a whole hash: it becomes a part of paths.
    """

    profile: Profile
    commit: str
    logs: Path
    """The folder for the logs."""
    report: Callable[[str], None]
    stop: Stop | None = None
    """Ends the commands when it is set."""
    sandbox: Sandbox | None = None
    """Where builds and measurements run; None: they have all rights of this process."""
    longest_s: float = math.inf
    """How long the command of a measurement may take, in addition to the limit of the profile."""

    def __post_init__(self) -> None:
        if not _WHOLE.fullmatch(self.commit):
            raise UsageError(f"{self.commit[:60]!r} is not a full commit hash of 40 hex digits")

    @property
    def what(self) -> str:
        """Its name in messages."""
        return f"{self.profile.name} at {self.commit[:12]}"

    @property
    def key(self) -> str:
        """The name of its cache entry."""
        return f"{self.commit}-{self.profile.hash}"

    def log(self, step: str) -> Path:
        """Return the log file with the output of the commands of a step; it may not exist."""
        return self.logs / f"{self.key}.{step}.log"

    def values(self, **folders: Path) -> dict[str, str]:
        """Return the values of all placeholders.

        :param folders: ``source`` or ``artifacts``.
        """
        jobs = len(os.sched_getaffinity(0))
        paths = {name: str(path) for name, path in folders.items()}
        isolated = "no" if self.sandbox is None else "yes"
        fixed = {"python": sys.executable, "commit": self.commit, "jobs": str(jobs), "isolated": isolated}
        return {**fixed, **paths}

    def steps(
        self,
        name: Literal["build", "install", "identify", "measure"],
        folder: Path,
        *,
        allows_background: bool = False,
        variables: Mapping[str, str] = _NONE,
    ) -> Steps:
        """Return the runner for the commands of a step in a folder.

        :param allows_background: whether processes that they leave in the background continue.
        :param variables: variables of the environment, which those of the profile override.
        """
        log = self.log(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        if name == "build":
            log.write_bytes(b"")
        values = self.values()
        profile_variables = {
            variable: commands.expand(value, values) for variable, value in self.profile.environment.items()
        }
        if self.sandbox:
            variables = {**VARIABLES, **variables}
        timeout_s: float = getattr(self.profile.timeouts_s, name)
        if name == "measure":
            timeout_s = min(timeout_s, self.longest_s)
        return Steps(
            name=name,
            what=self.what,
            folder=folder,
            environment=commands.environment({**variables, **profile_variables}, self.profile.inherit),
            log=log,
            timeout_s=timeout_s,
            report=self.report,
            allows_background=allows_background,
            stop=self.stop,
            sandbox=self.sandbox,
        )


@dataclass(frozen=True, slots=True)
class CommandFailure:
    """Why a command gave no numbers."""

    reason: str
    last_lines: tuple[str, ...]
    """The last lines of its output."""
    has_ended: bool
    """Whether it ended by itself, with 0."""


def install(work: Work, artifacts: Path, device: str = "", ssh_options: Sequence[str] = ()) -> None:
    """Install a build, and verify that it is the installed one.

    :param device: the address of the machine of the device, if the profile installs by ssh.
    :param ssh_options: those of ``ssh`` and ``scp`` for this machine.
    :raises BuildError: if it cannot be installed, or does not identify itself, because of this commit.
    :raises TestbedError: if another commit is installed afterwards, or this machine is at fault otherwise.
    """
    values = {**work.values(artifacts=artifacts), "device": device}
    steps = work.steps("install", artifacts, allows_background=True)
    spliced = {SSH_OPTIONS: ssh_options}
    steps.run(commands.expand_command(words, values, spliced) for words in work.profile.install)
    if work.profile.identify is None:
        return
    command = commands.expand_command(work.profile.identify, values, spliced)
    steps = work.steps("identify", artifacts)
    hashes = _HASH.findall(steps.output(command).decode(errors="replace").lower())
    if not any(work.commit.startswith(each) for each in hashes):
        reported = f"reports {' and '.join(hashes[:3])}" if hashes else "names no commit"
        raise TestbedError(
            f"{work.what}: it was installed, but {command[0]} {reported}; "
            f"another version runs on {device or 'this machine'}, see {steps.log}"
        )


def measure(
    work: Work, artifacts: Path, place: Path, observer: Observer, number: int = 1
) -> tuple[BuildMeasurement, CommandFailure | None]:
    """Measure a build by the profile's command, once.

    :param place: the folder in which the artifacts are copied for each start of the command: the files that
        it writes must not change the next start, or the cache.
    :param number: the number of the measurement of this build, from 1; it selects the variant.
    :returns: the numbers that it prints, or its instructions if the profile measures these; or a failed test
        and the reason, if the command fails, times out or prints something else than numbers.
    :raises SettingsError: if the profile has no such command.
    :raises TestbedError: if this machine cannot run it.
    """
    measure_table = work.profile.measure
    if measure_table is None:
        raise SettingsError(f"profile {work.profile.name} is measured on a testbed; it has no command")
    variant = (number - 1) % measure_table.variants
    found, disturbed, failure = {}, "", None
    started = datetime.now(UTC)
    log = work.log("measure")
    start = log.stat().st_size if log.exists() else 0
    try:
        repetitions = []
        for _ in range(measure_table.repetitions):
            values, disturbance = _start(work, artifacts, place, observer, variant)
            repetitions.append(values)
            disturbed = disturbed or disturbance
        found = combine_repetitions(repetitions)
    except BuildError as error:
        failure = CommandFailure(str(error), error.last_lines, has_ended=False)
    except ValueError as error:
        failure = CommandFailure(f"{error}; see {log}", _printed_lines(log, start), has_ended=True)
    measured = BuildMeasurement(
        commit=work.commit,
        started=started,
        finished=datetime.now(UTC),
        values=found,
        failed={measure_table.test: failure.reason} if failure else {},
        variant=variant,
        disturbed=disturbed,
    )
    return measured, failure


def _printed_lines(log: Path, start: int) -> tuple[str, ...]:
    """Return the last lines in a log that are not perftrend's own."""
    return tuple(line for line in commands.last_lines(log, start) if not line.startswith(("$ ", _NOTE)))


def count_instructions(
    work: Work, artifacts: Path, place: Path, observer: Observer, *, with_callers: bool = False
) -> InstructionCounts:
    """Start the profile's command once, and return the instructions that it executes, by function.

    :param place: as for :func:`measure`.
    :param with_callers: whether also by the functions that called them, which takes longer.
    :raises BuildError: if the command fails or takes too long while it is counted, or prints no numbers.
    :raises TestbedError: if this machine cannot run it.
    """
    table = _table(work)
    with _prepared(work, artifacts, place) as copy:
        wrap = partial(valgrind.wrap, folder=copy, with_callers=with_callers)
        printed = _run(work, copy, observer.observe(), wrap=wrap)
        if table.instructions != "measure":
            try:
                read_numbers(printed, table)
            except ValueError as error:
                reason = f"with {valgrind.PROGRAM}, {error}"
                raise BuildError(reason, step="measure", log=str(work.log("measure"))) from None
        return valgrind.read_counts(copy)


def compare_work(
    builds: tuple[tuple[Work, Path], tuple[Work, Path]], place: Path, observer: Observer
) -> InstructionDifference:
    """Compare the instructions that two builds execute in a start of the profile's command, in turn.

    :param builds: the earlier one and the later one, each with the folder of its artifacts.
    :param place: as for :func:`measure`.
    :raises BuildError: as :func:`count_instructions`.
    :raises TestbedError: if this machine cannot run the command.
    """
    table = _table(builds[0][0])
    starts = [
        [count_instructions(work, artifacts, place, observer) for work, artifacts in builds]
        for _ in range(_COUNTED_STARTS)
    ]
    found = compare_instructions(*zip(*starts, strict=True))
    if table.instructions == "measure" or not found.is_none:
        return found
    shares = [_user_share(work, artifacts, place, observer) for work, artifacts in builds]
    share = math.nan if any(map(math.isnan, shares)) else min(shares)
    return replace(found, user_share=share, layouts=table.variants)


def _user_share(work: Work, artifacts: Path, place: Path, observer: Observer) -> float:
    """Return the fraction of its time that the command spends in user space; NaN if its starts are too short.

    The time of other programs is left out.
    """
    own_s = user_s = 0.0
    for _ in range(_MOST_STARTS):
        _observe(work, artifacts, place, observer, 0)
        seen = observer.seen
        own_s += seen.elapsed_s - seen.others_s - seen.stolen_s
        user_s += seen.user_s
        if own_s >= _LONG_ENOUGH_S:
            return user_s / own_s
    return math.nan


def _start(
    work: Work, artifacts: Path, place: Path, observer: Observer, variant: int
) -> tuple[Mapping[str, MetricSamples], str]:
    """Start the command; return the samples of each test, and what disturbed the last attempt."""
    table = _table(work)
    if table.instructions == "measure":
        total = sum(count_instructions(work, artifacts, place, observer).values())
        better = table.better or Better.LOWER
        return {table.test: MetricSamples((float(total),), table.unit or INSTRUCTIONS, better)}, ""
    printed, disturbed = _observe(work, artifacts, place, observer, variant)
    return read_numbers(printed, table), disturbed


def _observe(work: Work, artifacts: Path, place: Path, observer: Observer, variant: int) -> tuple[bytes, str]:
    """Return the output of the command, and what disturbed the last attempt."""
    if _table(work).remote:
        with _prepared(work, artifacts, place) as copy:
            return _run(work, copy, nullcontext(), variant), ""
    for _ in observer.attempts():
        with _prepared(work, artifacts, place) as copy:
            printed = _run(work, copy, observer.observe(), variant)
        with work.log("measure").open("a") as log:
            log.write(f"{_NOTE}{observer.seen}\n")
    return printed, observer.seen.disturbed


def _table(work: Work) -> MeasureTable:
    assert work.profile.measure is not None  # noqa: S101 - checked before
    return work.profile.measure


@contextmanager
def _prepared(work: Work, artifacts: Path, place: Path) -> Iterator[Path]:
    """Provide a copy of the artifacts for a start."""
    with private_folder(place, f"{work.commit[:12]}-") as copy:
        shutil.copytree(artifacts, copy)
        yield copy


def _run(
    work: Work,
    copy: Path,
    observing: AbstractContextManager[None],
    variant: int = 0,
    *,
    wrap: Callable[[Sequence[str]], list[str]] | None = None,
) -> bytes:
    """Run the command in a copy of the artifacts, and return its output.

    :param wrap: returns the command that counts the instructions of another one; None: they are not counted.
    """
    with observing:
        # In this block the number of available cores is that of the observation.
        values = {**work.values(artifacts=copy), "variant": str(variant)}
        layout = {"LAYOUT_VARIANT": str(variant), "LAYOUT_PADDING": "." * (_PADDING_BYTES * variant)}
        command = commands.expand_command(_table(work).command, values)
        if wrap is None:
            return work.steps("measure", copy, variables=layout).output(command)
        steps = work.steps("measure", copy, variables={**layout, **valgrind.VARIABLES})
        return steps.output(wrap(command))


def read_numbers(printed: bytes, measure: MeasureTable) -> Mapping[str, MetricSamples]:
    """Return the samples of each test, in the order of their lines.

    :raises ValueError: for text that is not a number and not to be ignored, for output without numbers, and
        for a test with two units.
    """
    if len(printed) > MOST_BYTES:
        raise ValueError(f"it printed more than {MOST_BYTES} bytes; these cannot all be numbers")
    text = printed.decode(errors="replace")
    found: dict[str, tuple[str, list[float]]] = {}
    for name, number, unit in _samples(text, measure):
        known, samples = found.setdefault(name, (unit, []))
        if unit != known:
            raise ValueError(_two_units(name, known, unit))
        samples.append(number)
    if not found:
        raise ValueError("it printed no number")
    return {
        name: MetricSamples(
            samples=tuple(samples), unit=unit, better=measure.better or _usual_direction(unit)
        )
        for name, (unit, samples) in found.items()
    }


def combine_repetitions(repetitions: Iterable[Mapping[str, MetricSamples]]) -> dict[str, MetricSamples]:
    """Return the samples of several starts of the command combined, in their order.

    :raises ValueError: for a test with two units.
    """
    found: dict[str, MetricSamples] = {}
    for repetition in repetitions:
        for name, more in repetition.items():
            known = found.get(name, replace(more, samples=()))
            if more.unit != known.unit:
                raise ValueError(_two_units(name, known.unit, more.unit))
            found[name] = replace(known, samples=known.samples + more.samples)
    return found


def _usual_direction(unit: str) -> Better:
    return Better.LOWER if unit in _OF_TIME else Better.HIGHER


def _two_units(name: str, one: str, other: str) -> str:
    return f"the test {name[:_LONGEST]!r} has two units, {one!r} and {other!r}"


def _samples(text: str, measure: MeasureTable) -> Iterator[tuple[str, float, str]]:
    """Yield test, number and unit."""
    lines = list(_lines(text, measure))
    if measure.prints == "json":
        for name, number in _of_json("\n".join(line for _, line in lines), measure):
            yield name, number, measure.unit
        return
    for position, line in lines:
        words = line.split()
        try:
            if measure.prints == "named":
                name, number, unit = _parse_named(words)
                yield name, number, unit or measure.unit
            else:
                yield measure.test, _number(line), measure.unit
        except ValueError as error:
            raise ValueError(f"line {position}: {error}; {_hint(words, measure)}") from None


def _hint(words: list[str], measure: MeasureTable) -> str:
    """Return what to do about a line that is not a number."""
    if measure.prints == "numbers" and any(map(_NUMBER.fullmatch, words)):
        with suppress(ValueError):
            _parse_named(words)
            return (
                "for a name before each number, set the parameter prints=named (measure.prints in a profile)"
            )
    return "to skip such lines, set the parameter ignore (measure.ignore in a profile)"


def _lines(text: str, measure: MeasureTable) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not empty and not ignored, with their numbers from 1."""
    ignored = [re.compile(pattern) for pattern in measure.ignore]
    for position, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped and not any(pattern.fullmatch(stripped) for pattern in ignored):
            yield position, stripped


def _parse_named(words: list[str]) -> tuple[str, float, str]:
    """Read ``name: number``, ``name number`` or either with a unit after it."""
    line = " ".join(words)
    *name, last = words
    unit = ""
    if not _NUMBER.fullmatch(last) and name:
        unit = last
        *name, last = name
    number = _number(last, line)
    test_name = " ".join(name).rstrip(":= ")
    if not test_name:
        raise ValueError(f"{line[:_LONGEST]!r} has no name before its number")
    return test_name, number, unit


def _number(word: str, line: str = "") -> float:
    number = float(word) if _NUMBER.fullmatch(word) else math.nan
    if not math.isfinite(number):
        raise ValueError(f"{(line or word)[:_LONGEST]!r} is not a number")
    return number


def _of_json(text: str, measure: MeasureTable) -> Iterator[tuple[str, float]]:
    try:
        document = json.loads(text, parse_int=float)
    except (ValueError, RecursionError):
        raise ValueError(f"it printed no valid JSON: {text[:_LONGEST]!r}") from None
    tests = document if isinstance(document, dict) else {measure.test: document}
    for name, values in tests.items():
        for value in values if isinstance(values, list) else [values]:
            if not isinstance(value, float) or not math.isfinite(value):
                raise ValueError(
                    f"the value of {name[:_LONGEST]!r} is {str(value)[:_LONGEST]!r}, not a number"
                )
            yield name, float(value)

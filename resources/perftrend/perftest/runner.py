"""The rounds of a per-patch test: build both commits, lock the testbed, run the suites, find the verdict.

The request is stored alongside the rounds, so that a killed job resumes it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import pydantic

from perftrend import console
from perftrend.analysis.instructions import InstructionDifference
from perftrend.builds import Builds, BuiltCommit
from perftrend.errors import ArchiveError, BuildError, UsageError
from perftrend.execution import build_measurement
from perftrend.execution.build_measurement import BuildMeasurements, NumbersCheck
from perftrend.files import write_whole
from perftrend.measure.specification import Specification
from perftrend.model import BuildMeasurement, TraceKey
from perftrend.perftest import (
    Broken,
    BuildSide,
    PatchCriteria,
    PatchVerdict,
    Round,
    doubt_layouts,
    judge,
    measure_rounds,
)
from perftrend.settings import Settings

FILE = "asked.json"
"""The file with the request, in the folder of a build."""

InProgress: TypeAlias = Callable[[PatchVerdict, Sequence[Round]], None]


@pydantic.dataclasses.dataclass(frozen=True, slots=True, config=pydantic.ConfigDict(extra="forbid"))
class PatchComparison:
    """What is compared, where and by which tests: rounds of other requests do not count."""

    testbed: str
    parent: str
    """The whole hash of the patch's parent commit."""
    patch: str
    """The whole hash of the patch set's commit."""
    tests: tuple[str, ...]
    """By name, in order."""
    how: dict[str, str]
    """Everything else that changes the values: the profile, durations, options of the device."""
    change: int | None = None
    """Number of the change in Gerrit, if it is one."""
    patch_set: int | None = None
    request: str = field(default="", compare=False)
    """An identifier of the comment with the request; empty without a comment."""

    def save(self, folder: Path) -> None:
        """Store the request, or check that it equals the stored one.

        :param folder: the folder of the build in the archive.
        :raises UsageError: if it contains rounds of another request.
        """
        earlier = read_comparison(folder)
        if earlier is None:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / FILE, _ADAPTER.dump_json(self, indent=1))
        elif earlier != self:
            differing = next(name for name in self.__slots__ if getattr(earlier, name) != getattr(self, name))
            raise UsageError(
                f"{folder} contains rounds of another comparison ({differing} differs); "
                "remove it or use another number"
            )


_ADAPTER = pydantic.TypeAdapter(PatchComparison)


def find_earlier_build(folder: Path, comparison: PatchComparison) -> int | None:
    """Return the newest build that the same request has begun with the same comparison; None if none.

    A request is started again only if its job was killed.

    :param folder: the folder of the job in the archive.
    """
    if not comparison.request:
        return None
    builds = (int(entry.name) for entry in folder.glob("[0-9]*") if entry.name.isdecimal())
    return next(
        (each for each in sorted(builds, reverse=True) if _is_of(comparison, folder / str(each))), None
    )


def read_comparison(folder: Path) -> PatchComparison | None:
    """Return the request of a build; None if it has not begun.

    :raises ArchiveError: if the file cannot be read or is not valid.
    """
    file = folder / FILE
    try:
        return _ADAPTER.validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, pydantic.ValidationError):
        raise ArchiveError(f"{file} is not a valid request; remove {folder}") from None


@dataclass(frozen=True, slots=True)
class PerftestPlan:
    """The commits, tests, testbed and archive folder of a per-patch test."""

    settings: Settings
    """Their ``testbed`` is the one in use, possibly a fallback."""
    spec: Specification
    commits: Mapping[BuildSide, str]
    """Whole hashes."""
    names: Mapping[TraceKey, str]
    """The tests of the suites; empty if a command of the product's profile measures."""
    job: str
    build: int
    folder: Path
    """The build's folder in the archive."""
    known_deviations: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Standard deviation between runs in per cent, by test."""

    @property
    def criteria(self) -> PatchCriteria:
        """The criteria of the verdict, from the settings."""
        requested = self.settings.perftest
        return PatchCriteria(
            threshold=requested.threshold,
            confidence=requested.confidence,
            formula=self.settings.analysis.formula,
            minimum_rounds=min(requested.minimum_rounds, requested.maximum_rounds),
            maximum_rounds=requested.maximum_rounds,
            known_deviations=self.known_deviations,
        )


def compare(
    plan: PerftestPlan, product: Builds, in_progress: InProgress
) -> tuple[PatchVerdict, Sequence[Round], InstructionDifference | None]:
    """Build both commits and measure them in random order until the verdict is settled.

    Archived rounds are reused.

    :param in_progress: is called with the verdict and the rounds after each round that does not settle it.
    :returns: the verdict, the rounds, and the difference of the instructions if the builds differ and their
        instructions were counted.
    :raises TestbedError: if the testbed cannot be acquired, or Robot Framework could not run.
    """
    try:
        built = {}
        for side in BuildSide:
            with _attribute_failure(side):
                built[side] = product.build(plan.commits[side])
        with build_measurement.lock_testbed(
            plan.settings,
            plan.spec,
            product,
            plan.names,
            numbers=_numbers_check(built),
            folder=plan.folder,
            owner=plan.job,
        ) as testbed:
            verdict, rounds = _measure_rounds(plan, built, testbed, in_progress)
            instructions = _count_instructions(plan, verdict, product)
            return doubt_layouts(verdict, instructions) if instructions else verdict, rounds, instructions
    except _BrokenError as error:
        log = Path(error.log)
        if log.is_file():
            shutil.copyfile(log, plan.folder / f"{error.broken.side}.{log.name}")
        return PatchVerdict(broken=error.broken), (), None


def _count_instructions(
    plan: PerftestPlan, verdict: PatchVerdict, product: Builds
) -> InstructionDifference | None:
    """Compare the instructions of both builds if a test is faster or slower."""
    if all(test.change is None for test in verdict.tests):
        return None
    return product.compare_instructions(plan.commits[BuildSide.PARENT], plan.commits[BuildSide.CURRENT])


def _numbers_check(built: Mapping[BuildSide, BuiltCommit]) -> NumbersCheck:
    parent, patch = built[BuildSide.PARENT], built[BuildSide.CURRENT]
    return NumbersCheck(parent.commit, lambda commit: patch if commit == parent.commit else parent)


def _is_of(comparison: PatchComparison, folder: Path) -> bool:
    try:
        earlier = read_comparison(folder)
    except ArchiveError:
        return False
    return earlier is not None and (earlier, earlier.request) == (comparison, comparison.request)


def _measure_rounds(
    plan: PerftestPlan,
    built: Mapping[BuildSide, BuiltCommit],
    testbed: BuildMeasurements,
    in_progress: InProgress,
) -> tuple[PatchVerdict, Sequence[Round]]:
    criteria, verdict = plan.criteria, PatchVerdict()
    rounds: Sequence[Round] = ()

    def measure(side: BuildSide, number: int) -> BuildMeasurement:
        place = f"{side}/{number}"
        if not (plan.folder / place).exists():
            commit = built[side].commit[:12]
            console.print_text(f"round {number} of at most {criteria.maximum_rounds}: {side} {commit}")
        with _attribute_failure(side):
            return testbed.measure(built[side], place)

    seed = " ".join([*(plan.commits[side] for side in BuildSide), plan.job, str(plan.build)])
    for rounds in measure_rounds(measure, criteria.design, seed=seed):
        verdict = judge(rounds, list(plan.names.values()) or _tests(rounds), criteria)
        settled = sum(test.is_settled for test in verdict.tests)
        console.print_text(f"after round {len(rounds)}: {settled} of {len(verdict.tests)} tests are settled")
        if verdict.is_settled:
            break
        in_progress(verdict, rounds)
    return verdict, rounds


def _tests(rounds: Collection[Round]) -> list[str]:
    """Return the tests with a value, or, if there are none, those that failed."""
    measured = [each[side] for each in rounds for side in BuildSide]
    found = {test for each in measured for test in each.values}
    return sorted(found or {test for each in measured for test in each.failed})


class _BrokenError(Exception):
    """A failed build, with its side and its log."""

    def __init__(self, side: BuildSide, error: BuildError) -> None:
        super().__init__(str(error))
        self.log = error.log
        # The log is archived alongside the rounds, so its path on this machine is not needed.
        self.broken = Broken(side, str(error).removesuffix(f"; see {error.log}"), error.last_lines)


@contextmanager
def _attribute_failure(side: BuildSide) -> Iterator[None]:
    try:
        yield
    except BuildError as error:
        raise _BrokenError(side, error) from error

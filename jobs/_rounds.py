"""The rounds of a per-patch test: build both commits, lock the testbed, run the suites, find the verdict."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from jobs import _measuring as measuring
from jobs import _options as options
from jobs._measuring import Measuring
from perftrend.builds import Builds, Built
from perftrend.errors import BuildError
from perftrend.measure.specification import Specification
from perftrend.model import Measured, TraceKey
from perftrend.perftest import Broken, Criteria, Round, Side, Verdict, judge, measured_rounds
from perftrend.settings import Settings

InProgress: TypeAlias = Callable[[Verdict, Sequence[Round]], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """The commits, tests, testbed and archive folder of a per-patch test."""

    settings: Settings
    """Their ``testbed`` is the one in use, possibly a fallback."""
    spec: Specification
    commits: Mapping[Side, str]
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
    def criteria(self) -> Criteria:
        """The criteria of the verdict, from the settings."""
        asked = self.settings.perftest
        return Criteria(
            threshold=asked.threshold,
            confidence=asked.confidence,
            formula=self.settings.analysis.formula,
            minimum_rounds=min(asked.minimum_rounds, asked.maximum_rounds),
            maximum_rounds=asked.maximum_rounds,
            known_deviations=self.known_deviations,
        )


def compared(plan: Plan, product: Builds, in_progress: InProgress) -> tuple[Verdict, Sequence[Round]]:
    """Build both commits and measure them in random order until the verdict is settled.

    Archived rounds are reused.

    :param in_progress: is called with the verdict and the rounds after each round that does not settle it.
    :raises TestbedError: if the testbed cannot be acquired, or Robot Framework could not run.
    """
    try:
        built = {}
        for side in Side:
            with _blamed(side):
                built[side] = product.build(plan.commits[side])
        with measuring.held(
            plan.settings, plan.spec, product, plan.names, folder=plan.folder, owner=plan.job
        ) as testbed:
            return _measured(plan, built, testbed, in_progress)
    except _BrokenError as error:
        log = Path(error.log)
        if log.is_file():
            shutil.copyfile(log, plan.folder / f"{error.broken.side}.{log.name}")
        return Verdict(broken=error.broken), ()


def _measured(
    plan: Plan, built: Mapping[Side, Built], testbed: Measuring, in_progress: InProgress
) -> tuple[Verdict, Sequence[Round]]:
    criteria, verdict = plan.criteria, Verdict()
    rounds: Sequence[Round] = ()

    def measure(side: Side, number: int) -> Measured:
        place = f"{side}/{number}"
        if not (plan.folder / place).exists():
            commit = built[side].commit[:12]
            options.say(f"round {number} of at most {criteria.maximum_rounds}: {side} {commit}")
        with _blamed(side):
            return testbed.measure(built[side], place)

    seed = " ".join([*(plan.commits[side] for side in Side), plan.job, str(plan.build)])
    for rounds in measured_rounds(measure, criteria.design, seed=seed):
        verdict = judge(rounds, list(plan.names.values()) or _tests(rounds), criteria)
        settled = sum(test.is_settled for test in verdict.tests)
        options.say(f"after round {len(rounds)}: {settled} of {len(verdict.tests)} tests are settled")
        if verdict.is_settled:
            break
        in_progress(verdict, rounds)
    return verdict, rounds


def _tests(rounds: Collection[Round]) -> list[str]:
    """Return the tests with a value, or, if there are none, those that failed."""
    measured = [each[side] for each in rounds for side in Side]
    found = {test for each in measured for test in each.values}
    return sorted(found or {test for each in measured for test in each.failed})


class _BrokenError(Exception):
    """A failed build, with its side and its log."""

    def __init__(self, side: Side, error: BuildError) -> None:
        super().__init__(str(error))
        self.log = error.log
        # The log is archived alongside the rounds, so its path on this machine is not needed.
        self.broken = Broken(side, str(error).removesuffix(f"; see {error.log}"), error.last_lines)


@contextmanager
def _blamed(side: Side) -> Iterator[None]:
    try:
        yield
    except BuildError as error:
        raise _BrokenError(side, error) from error

"""The side of one commit, measured on a testbed; earlier measurements of it and of both ends are reused.

Measurements are stored by a hash of the testbed, tests and settings, and by commit. Each step of a bisection
reuses those of all earlier steps, and so does a repeated bisection.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from perftrend import console
from perftrend.bisect import Adaptive, BisectState, CommitRange, MeasureStep
from perftrend.bisect.runner import ShowStep
from perftrend.bisect.single_step import CommitSide, SideVerdict, judge
from perftrend.builds import Builds, BuiltCommit
from perftrend.errors import BuildError
from perftrend.execution import build_measurement, scope
from perftrend.execution.build_measurement import BuildMeasurements, NumbersCheck, read_deviations
from perftrend.execution.scope import JobScope
from perftrend.files import hold_lock, write_whole
from perftrend.model import TraceKey

_PAIRED = "against"
"""The file in a measurement's folder that names the other commit of its pair."""


@dataclass(frozen=True, slots=True)
class SingleStepPlan:
    """The commits, tests and testbed of a judgement, and the folder of its measurements."""

    chosen: JobScope
    commit_range: CommitRange
    names: Mapping[TraceKey, str]
    """The tests of the suites; empty if a command of the product's profile measures."""
    job: str
    folder: Path
    """The folder of these measurements in the archive."""

    @classmethod
    def of(cls, chosen: JobScope, product: Builds, commit_range: CommitRange, *, job: str) -> SingleStepPlan:
        """Choose the folder by a hash of everything that influences values, and list that in the folder."""
        names = build_measurement.names_of(chosen.keys)
        question = {
            "testbed": chosen.testbed,
            "tests": list(names.values()),
            **scope.how(chosen.settings, product),
        }
        key = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:24]
        folder = scope.archive_of(chosen.settings, job) / key
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "asked.json", json.dumps(question, indent=1) + "\n")
        return cls(chosen, commit_range, names, job, folder)


def judge_commit(plan: SingleStepPlan, product: Builds, show_step: ShowStep) -> SideVerdict:
    """Build the commit and both ends, and measure them until the side of the commit is clear.

    The side of a commit that cannot be built or installed is unknown.

    :raises BuildError: if an end cannot be built or installed.
    :raises NoNumbersError: if the command of the profile gives no numbers for either end.
    :raises TestbedError: if the testbed cannot be acquired, or Robot Framework could not run.
    """
    old, (commit, new) = plan.commit_range.old, plan.commit_range.history.commits
    built = {}
    for name, each in (("old", old), ("new", new), ("", commit)):
        try:
            built[each] = product.build(each)
        except BuildError as error:
            if name:
                raise BuildError(
                    f"nothing can be compared with the {name} end: {error}", last_lines=error.last_lines
                ) from None
            return SideVerdict(CommitSide.UNKNOWN, str(error))
    chosen = plan.chosen
    with (
        # Other processes may use the testbed at the same time, but not the same folder in the archive.
        hold_lock(plan.folder / ".lock", on_wait=partial(console.warn, f"{plan.folder} is in use; waiting")),
        build_measurement.lock_testbed(
            chosen.settings,
            chosen.spec,
            product,
            plan.names,
            numbers=NumbersCheck(old, lambda commit: built[new if commit == old else old]),
            folder=plan.folder,
            owner=plan.job,
        ) as testbed,
    ):
        return _measure_side(plan, testbed, built, show_step)


def _measure_side(
    plan: SingleStepPlan,
    testbed: BuildMeasurements,
    built: Mapping[str, BuiltCommit],
    show_step: ShowStep,
) -> SideVerdict:
    places = {commit: _SingleStepFolders(plan.folder, commit) for commit in built}
    known = [
        replace(believed, against=place.against(existing))
        for commit, place in places.items()
        for existing in place.find_existing()
        if (believed := build_measurement.without_doubtful(testbed.measure(built[commit], existing)))
    ]
    state = BisectState(plan.commit_range, built=dict.fromkeys(built, 0.0))
    for each in sorted(known, key=lambda each: each.started):
        state = state.with_measured(each)
    strategy = _strategy(plan, already=len(known))
    while isinstance(step := judge(state, strategy), MeasureStep):
        number = len(state.measured) + 1
        show_step(step, number)
        place = places[step.commit]
        try:
            measured = testbed.measure_until_valid(built[step.commit], place.next)
        except BuildError as error:
            if step.commit in (plan.commit_range.old, plan.commit_range.history.new):
                raise
            return SideVerdict(CommitSide.UNKNOWN, str(error))
        show_step(measured, number)
        place.remember(step.against)
        state = state.with_measured(measured, step.against)
    return step


def _strategy(plan: SingleStepPlan, *, already: int) -> Adaptive:
    settings = plan.chosen.settings
    return Adaptive(
        confidence=settings.bisect.confidence,
        maximum_measurements=already + settings.bisect.maximum_measurements,
        known_deviations=read_deviations(settings, plan.chosen.spec.name, plan.names),
    )


@dataclass(slots=True)
class _SingleStepFolders:
    """The places of a commit's measurements, numbered from 1."""

    folder: Path
    commit: str
    last: int = 0

    def find_existing(self) -> Iterator[str]:
        """Yield the places that exist already."""
        while (self.folder / self.commit / str(self.last + 1)).exists():
            yield self.next()

    def next(self) -> str:
        """Return the next place."""
        self.last += 1
        return f"{self.commit}/{self.last}"

    def remember(self, against: str) -> None:
        """Write the other commit of the pair into the folder of the last measurement."""
        if against:
            (self.folder / self.commit / str(self.last) / _PAIRED).write_text(against)

    def against(self, place: str) -> str:
        """Return the other commit of the pair of a measurement; empty if it is not in a pair."""
        file = self.folder / place / _PAIRED
        return file.read_text() if file.exists() else ""

"""A bisection on a testbed: build and measure commits, one after the other, until the search ends."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from perftrend.bisect import BisectOutcome, BisectSession, BisectState, MeasureStep
from perftrend.bisect.plan import BisectPlan
from perftrend.builds import BackgroundBuilds, Builds
from perftrend.errors import BuildError
from perftrend.execution import build_measurement
from perftrend.model import BuildMeasurement

ShowStep: TypeAlias = Callable[[MeasureStep | BuildMeasurement | BuildError, int], None]
"""Shows the beginning or the result of a step, with its number from 1."""


def search(plan: BisectPlan, product: Builds, show_step: ShowStep) -> BisectOutcome:
    """Build and measure until the strategy ends the search; recorded steps of the session are not repeated.

    :raises TestbedError: if the testbed cannot be acquired, or Robot Framework could not run.
    """
    settings, spec = plan.chosen.settings, plan.chosen.spec
    places = _MeasurementFolders.of(plan)
    with (
        build_measurement.lock_testbed(
            settings, spec, product, plan.names, folder=plan.folder.parent, owner=plan.job
        ) as testbed,
        BackgroundBuilds(
            product, settings.bisect.builds_ahead if _tolerates_load(plan, product) else 0
        ) as ahead,
    ):
        session = BisectSession(
            plan.session,
            plan.commit_range,
            plan.strategy,
            build=ahead.build,
            measure=lambda built: testbed.measure_until_valid(built, partial(places.next, built.commit)),
            expect=ahead.expect,
            notify=_SearchProgress(show_step, len(plan.state.measured)).show,
        )
        return session.run()


def _tolerates_load(plan: BisectPlan, product: Builds) -> bool:
    """Return whether a build on this machine disturbs no measurement."""
    command = product.profile.measure
    return command.remote if command else plan.chosen.spec.tolerates_load


def archive_logs(plan: BisectPlan, product: Builds, state: BisectState) -> None:
    """Archive the logs of the builds that failed."""
    for commit in state.broken:
        log = product.log_of(commit)
        if log.is_file():
            shutil.copyfile(log, plan.folder / f"{commit}.build.log")


@dataclass(frozen=True, slots=True)
class _MeasurementFolders:
    """The folders of measurements: ``parent``, ``current``, and ``parent1``, ``parent2``, … of those between.

    Source: "Bisecting", section Basic operation.
    """

    build: int
    of_commits: dict[str, str]
    """By hash."""
    last: Counter[str]
    """The number of the last measurement in each folder of this build, according to the session."""

    @classmethod
    def of(cls, plan: BisectPlan) -> _MeasurementFolders:
        """Return the folders that the session has used so far."""
        places = cls(
            plan.build, {plan.commit_range.old: "parent", plan.commit_range.history.new: "current"}, Counter()
        )
        state = plan.state
        for step in state.steps:
            places.of_commit(step.commit)
        for each in state.measured:
            build, place, number = each.archive.split("/")
            if build == str(plan.build):
                places.last[place] = int(number)
        return places

    def of_commit(self, commit: str) -> str:
        """Return the folder of a commit."""
        return self.of_commits.setdefault(commit, f"parent{len(self.of_commits) - 1}")

    def next(self, commit: str) -> str:
        """Return the folder of the next measurement of a commit, relative to that of the job."""
        place = self.of_commit(commit)
        self.last[place] += 1
        return f"{self.build}/{place}/{self.last[place]}"


@dataclass(slots=True)
class _SearchProgress:
    """Counts the measurements of a search, so that its steps are shown with their numbers."""

    show_step: ShowStep
    measured: int

    def show(self, happened: MeasureStep | BuildMeasurement | BisectOutcome | BuildError) -> None:
        """Show one step; an outcome has a report of its own."""
        if not isinstance(happened, BisectOutcome):
            self.show_step(happened, self.measured + 1)
        self.measured += isinstance(happened, BuildMeasurement)

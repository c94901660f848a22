"""A bisection on a testbed: build and measure commits, one after the other, until the search ends."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass
from functools import partial

from jobs import _measuring as measuring
from jobs import _options as options
from jobs._question import Plan
from perftrend.bisect import Measure, Outcome, Session, State
from perftrend.builds import Ahead, Builds
from perftrend.errors import BuildError
from perftrend.model import Measured
from perftrend.report import bisection as report


def searched(plan: Plan, product: Builds) -> Outcome:
    """Build and measure until the strategy ends the search; recorded steps of the session are not repeated.

    :raises TestbedError: if the testbed cannot be acquired, or Robot Framework could not run.
    """
    settings, spec = plan.chosen.settings, plan.chosen.spec
    places = _Places.of(plan)
    with (
        measuring.held(
            settings, spec, product, plan.names, folder=plan.folder.parent, owner=plan.job
        ) as testbed,
        Ahead(product, settings.bisect.builds_ahead if _tolerates_load(plan, product) else 0) as ahead,
    ):
        session = Session(
            plan.session,
            plan.asked,
            plan.strategy,
            build=ahead.build,
            measure=lambda built: testbed.trusted(built, partial(places.next, built.commit)),
            expect=ahead.expect,
            tell=_Progress(len(plan.state.measured)).show,
        )
        return session.run()


def _tolerates_load(plan: Plan, product: Builds) -> bool:
    """Return whether a build on this machine disturbs no measurement."""
    command = product.profile.measure
    return command.remote if command else plan.chosen.spec.tolerates_load


def keep_logs(plan: Plan, product: Builds, state: State) -> None:
    """Archive the logs of the builds that failed."""
    for commit in state.broken:
        log = product.log_of(commit)
        if log.is_file():
            shutil.copyfile(log, plan.folder / f"{commit}.build.log")


@dataclass(frozen=True, slots=True)
class _Places:
    """The folders of measurements: ``parent``, ``current``, and ``parent1``, ``parent2``, … of those between.

    Source: "Bisecting", section Basic operation.
    """

    build: int
    of_commits: dict[str, str]
    """By hash."""
    last: Counter[str]
    """The number of the last measurement in each folder of this build, according to the session."""

    @classmethod
    def of(cls, plan: Plan) -> _Places:
        """Return the folders that the session has used so far."""
        places = cls(plan.build, {plan.asked.old: "parent", plan.asked.history.new: "current"}, Counter())
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
class _Progress:
    """Progress output of a search: one numbered line for each step."""

    measured: int

    def show(self, happened: Measure | Measured | Outcome | BuildError) -> None:
        """Print one step; an outcome has a report of its own."""
        if not isinstance(happened, Outcome):
            options.say(report.step(happened, self.measured + 1))
        self.measured += isinstance(happened, Measured)

"""A bisection on a testbed: commits built and measured, one after the other, until the answer is there."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from jobs import _options as options
from jobs._question import Plan
from perftrend.bisect import Measure, Outcome, Session, State
from perftrend.builds import Builds, Built
from perftrend.errors import ArchiveError, BuildError, TestbedError
from perftrend.keywords import execution, measuring_builds
from perftrend.measure import lock
from perftrend.model import Measured
from perftrend.perftest import NOT_VALID
from perftrend.report import bisection as report

_ATTEMPTS = 3


def searched(plan: Plan, product: Builds) -> Outcome:
    """Build and measure until the strategy ends it; what the session has already is not done again.

    :raises TestbedError: if the testbed cannot be had, or Robot Framework not be run.
    """
    settings, spec = plan.chosen.settings, plan.chosen.spec
    with lock.held(
        spec.lock, capacity=spec.capacity, wait_s=settings.wait_s, owner=plan.job, say=say
    ) as place:
        suites = measuring_builds.Suites(
            settings,
            settings.suites or options.SUITES,
            spec.name,
            [spec.test_tag],
            execution.Held(spec.lock, place),
            plan.names,
        )
        measuring = _Measuring(plan, product, suites, _Places.of(plan))
        session = Session(
            plan.session,
            plan.asked,
            plan.strategy,
            build=product.build,
            measure=measuring.measure,
            tell=_tell,
        )
        return session.run()


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

    of_commits: dict[str, str]
    """By hash."""
    last: Counter[str]
    """The last measurement that the session knows in each folder of this build."""

    @classmethod
    def of(cls, plan: Plan) -> _Places:
        """Take those of the session, where it has begun."""
        places = cls({plan.asked.old: "parent", plan.asked.history.new: "current"}, Counter())
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
        """Return the folder of the next measurement of a commit."""
        place = self.of_commit(commit)
        self.last[place] += 1
        return f"{place}/{self.last[place]}"


@dataclass(frozen=True, slots=True)
class _Measuring:
    """Measures builds, each time into a folder of its own."""

    plan: Plan
    product: Builds
    suites: measuring_builds.Suites
    places: _Places

    def measure(self, built: Built) -> Measured:
        """Measure a build, again where a result cannot be trusted: that is no failure of the build.

        A test that cannot be trusted in the end is left out.

        :raises TestbedError: if no test can be trusted.
        """
        attempts = 0
        while attempts < _ATTEMPTS:
            place = self.places.next(built.commit)
            attempts += not (self.plan.folder / place).exists()
            measured = self._once(built, place)
            doubtful = {test: why for test, why in measured.failed.items() if why.startswith(NOT_VALID)}
            if not doubtful:
                return measured
            test, why = next(iter(doubtful.items()))
            reason = " ".join(f"{test}: {why}".split())
            options.say(f"  {built.commit[:12]}: {len(doubtful)} of the tests cannot be trusted ({reason})")
        failed = {test: why for test, why in measured.failed.items() if test not in doubtful}
        if not measured.values and not failed:
            raise TestbedError(
                f"{built.commit[:12]} gave nothing that can be trusted, {_ATTEMPTS} times ({reason}); "
                "mend the testbed and ask the same again, it goes on where it stopped"
            )
        return replace(measured, failed=failed)

    def _once(self, built: Built, place: str) -> Measured:
        """Install a build and measure it once, unless that was done and not yet recorded.

        :raises ArchiveError: if what was archived in its place is no measurement of this commit.
        """

        def once(staging: Path) -> Measured:
            self.product.install(built)
            if self.product.profile.measure is not None:
                return self.product.measure(built)
            return self.suites.measure(built.commit, built.device_options, staging)

        target = self.plan.folder / place
        measured = measuring_builds.measured_once(target, once)
        if measured.commit != built.commit:
            raise ArchiveError(
                f"{target}: is of another commit; remove {self.plan.folder} to measure it again"
            )
        return replace(measured, archive=f"{self.plan.build}/{place}")


def _tell(told: Measure | Measured | Outcome | BuildError) -> None:
    if not isinstance(told, Outcome):
        options.say(report.step(told))


def say(message: str) -> None:
    """Tell the person who started the job, beside what the job prints."""
    print(f"perftrend: {message}", file=sys.stderr, flush=True)

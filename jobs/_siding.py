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

from jobs import _chosen as choosing
from jobs import _measuring as measuring
from jobs import _options as options
from jobs._chosen import Chosen
from jobs._measuring import Measuring
from jobs._noise import known_deviations
from perftrend.bisect import Adaptive, Measure, Range, State
from perftrend.bisect.side import Judged, Side, judge
from perftrend.builds import Builds, Built
from perftrend.clients.git.locking import held
from perftrend.errors import BuildError, UsageError
from perftrend.keywords import measuring_builds
from perftrend.model import TraceKey
from perftrend.report import bisection as report

_PAIRED = "against"
"""The file in a measurement's folder that names the other commit of its pair."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The commits, tests and testbed of a judgement, and the folder of its measurements."""

    chosen: Chosen
    asked: Range
    names: Mapping[TraceKey, str]
    """The tests of the suites; empty if a command of the product's profile measures."""
    job: str
    folder: Path
    """The folder of these measurements in the archive."""

    @classmethod
    def of(cls, chosen: Chosen, product: Builds, asked: Range, *, job: str) -> Plan:
        """Choose the folder by a hash of everything that influences values, and list that in the folder."""
        names = measuring_builds.names_of(chosen.keys)
        question = {
            "testbed": chosen.spec.name,
            "tests": list(names.values()),
            **choosing.how(chosen.settings, product),
        }
        key = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:24]
        folder = choosing.archive_of(chosen.settings, job) / key
        folder.mkdir(parents=True, exist_ok=True)
        beside = folder / ".asked.json.unfinished"
        beside.write_text(json.dumps(question, indent=1) + "\n", encoding="utf-8")
        beside.replace(folder / "asked.json")
        return cls(chosen, asked, names, job, folder)


def judged(plan: Plan, product: Builds) -> Judged:
    """Build the commit and both ends, and measure them until the side of the commit is clear.

    The side of a commit that cannot be built or installed is unknown.

    :raises UsageError: if an end cannot be built.
    :raises BuildError: if an end cannot be installed.
    :raises TestbedError: if the testbed cannot be acquired, or Robot Framework could not run.
    """
    old, (commit, new) = plan.asked.old, plan.asked.history.commits
    built = {}
    for name, each in (("old", old), ("new", new), ("", commit)):
        try:
            built[each] = product.build(each)
        except BuildError as error:
            if name:
                raise UsageError(f"nothing can be compared with the {name} end: {error}") from None
            return Judged(Side.UNKNOWN, str(error))
    chosen = plan.chosen
    with (
        # Other processes may use the testbed at the same time, but not the same folder in the archive.
        held(plan.folder / ".lock", say=partial(options.warn, f"{plan.folder} is in use; waiting")),
        measuring.held(
            chosen.settings, chosen.spec, product, plan.names, folder=plan.folder, owner=plan.job
        ) as testbed,
    ):
        return _measured(plan, testbed, built)


def _measured(plan: Plan, testbed: Measuring, built: Mapping[str, Built]) -> Judged:
    places = {commit: _Places(plan.folder, commit) for commit in built}
    known = [
        replace(believed, against=place.against(kept))
        for commit, place in places.items()
        for kept in place.kept()
        if (believed := measuring.without_doubtful(testbed.measure(built[commit], kept)))
    ]
    state = State(plan.asked, built=dict.fromkeys(built, 0.0))
    for each in sorted(known, key=lambda each: each.started):
        state = state.with_measured(each)
    strategy = _strategy(plan, already=len(known))
    while isinstance(step := judge(state, strategy), Measure):
        options.say(report.step(step, len(state.measured) + 1))
        place = places[step.commit]
        try:
            measured = testbed.trusted(built[step.commit], place.next)
        except BuildError as error:
            if step.commit in (plan.asked.old, plan.asked.history.new):
                raise
            return Judged(Side.UNKNOWN, str(error))
        options.say(report.step(measured))
        place.remember(step.against)
        state = state.with_measured(measured, step.against)
    return step


def _strategy(plan: Plan, *, already: int) -> Adaptive:
    settings = plan.chosen.settings
    return Adaptive(
        confidence=settings.bisect.confidence,
        maximum_measurements=already + settings.bisect.maximum_measurements,
        known_deviations=known_deviations(settings, plan.chosen.spec.name, plan.names),
    )


@dataclass(slots=True)
class _Places:
    """The places of a commit's measurements, numbered from 1."""

    folder: Path
    commit: str
    last: int = 0

    def kept(self) -> Iterator[str]:
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

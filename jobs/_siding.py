"""The side of one commit, on a testbed: what was measured of it and of both ends counts, more is measured.

Measurements are kept by what is measured, and how, and by commit, so that each step of a bisection has those
of all steps before it, and so has whoever bisects the same again.
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
"""The file of a measurement that names the other commit of its pair."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is judged, by what, and where measurements are kept."""

    chosen: Chosen
    asked: Range
    names: Mapping[TraceKey, str]
    """The tests of the suites; empty where the product's profile has a command that measures."""
    job: str
    folder: Path
    """Of these measurements, in the archive."""

    @classmethod
    def of(cls, chosen: Chosen, product: Builds, asked: Range, *, job: str) -> Plan:
        """Choose the folder by all that changes values, and say in it what that is."""
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
    """Build the commit and both ends, and measure them until it is clear where the commit belongs.

    A commit that cannot be built or installed is on no side that is known.

    :raises UsageError: if an end cannot be built.
    :raises BuildError: if it cannot be installed.
    :raises TestbedError: if the testbed cannot be had, or Robot Framework not be run.
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
        # Others may use the testbed at the same time, but not the same place in the archive.
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
        """Go through those that are there already."""
        while (self.folder / self.commit / str(self.last + 1)).exists():
            yield self.next()

    def next(self) -> str:
        """Return the next place."""
        self.last += 1
        return f"{self.commit}/{self.last}"

    def remember(self, against: str) -> None:
        """Write the other commit of the pair that the last measurement was made in next to it."""
        if against:
            (self.folder / self.commit / str(self.last) / _PAIRED).write_text(against)

    def against(self, place: str) -> str:
        """Return the other commit of the pair of a measurement; empty outside of pairs."""
        file = self.folder / place / _PAIRED
        return file.read_text() if file.exists() else ""

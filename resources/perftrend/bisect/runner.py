"""A bisection on a testbed: its request, its session, and the search, commit by commit, until it ends.

The name of the session is a hash of the request. The same request resumes the session where it stopped:
after a kill, in another build, or on another machine with the same folder. A finished session is moved into
the archive; the same request then starts a new search.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from perftrend.analysis.instructions import InstructionDifference
from perftrend.bisect import (
    Adaptive,
    BisectOutcome,
    BisectSession,
    BisectState,
    CommitRange,
    CsitHalving,
    Culprit,
    MeasureStep,
    OutcomeKind,
    Strategy,
)
from perftrend.bisect.session import Journal, state_of
from perftrend.builds import BackgroundBuilds, Builds
from perftrend.errors import BuildError, UsageError
from perftrend.execution import build_measurement, scope
from perftrend.execution.build_measurement import NumbersCheck, read_deviations
from perftrend.execution.scope import JobScope
from perftrend.files import acquire_lock, write_whole
from perftrend.model import BuildMeasurement, TraceKey
from perftrend.text import HASH, share

ShowStep: TypeAlias = Callable[[MeasureStep | BuildMeasurement | BuildError, int], None]
"""Shows the beginning or the result of a step, with its number from 1."""

LIKELY = 0.5
"""A test with a smaller probability of being affected by a change is not counted as affected."""
REQUEST_FILE, SESSION = "asked.json", "session.jsonl"
"""Files of a build's folder in the archive: the request, and the finished session."""


@dataclass(frozen=True, slots=True)
class ExplainedCulprit:
    """The instructions that the builds around a culprit execute."""

    culprit: Culprit
    before: str
    """The last measured commit before the change."""
    after: str
    """The first one with it."""
    instructions: InstructionDifference

    @property
    def difference(self) -> float:
        """The largest relative difference of a test that is affected; NaN if a test fails on one side."""
        sizes = [each.relative for each in self.culprit.effects.values() if not each.probability < LIKELY]
        return math.nan if any(map(math.isnan, sizes)) else max(sizes, key=abs, default=math.nan)

    @property
    def doubt(self) -> str:
        """Why the commit may be innocent, in one sentence; empty if nothing suggests it."""
        if not self.instructions.may_be_layout(self.difference):
            return ""
        size = share(abs(self.difference))
        return (
            f"{self.after[:HASH]} differs from {self.before[:HASH]} by {size} but executes the same "
            "instructions, so the position of its code in memory may be the only reason"
        )


@dataclass(frozen=True, slots=True)
class BisectPlan:
    """The range, strategy, session and archive folder of a search."""

    chosen: JobScope
    commit_range: CommitRange
    strategy: Strategy
    names: Mapping[TraceKey, str]
    """The tests of the suites; empty if a command of the product's profile measures."""
    session: Path
    job: str
    build: int
    folder: Path
    """The build's folder in the archive."""

    @property
    def state(self) -> BisectState:
        """The state that the session has recorded so far."""
        records = _records(self.session)
        return state_of(records, self.session) if records else BisectState(self.commit_range)

    @property
    def is_resumable(self) -> bool:
        """Whether the same request continues the search, because it ended undecided."""
        records = _records(self.session)
        return bool(records) and _is_undecided(records[-1])

    def close(self) -> None:
        """Move the session into the archive."""
        write_whole(self.folder / SESSION, self.session.read_bytes())
        self.session.unlink()


@contextmanager
def open_plan(
    chosen: JobScope, product: Builds, commit_range: CommitRange, *, job: str
) -> Iterator[BisectPlan]:
    """Choose the strategy, the session and the folder in the archive, and lock the session.

    :raises UsageError: if another process works on the same request, or the folder belongs to another one.
    """
    settings, wanted = chosen.settings, chosen.settings.bisect
    names = build_measurement.names_of(chosen.keys)
    question = {
        "testbed": chosen.testbed,
        "old": commit_range.old,
        "new": commit_range.history.new,
        "first_parent": commit_range.first_parent,
        "strategy": wanted.strategy,
        "confidence": wanted.confidence,
        "maximum_changes": wanted.maximum_changes,
        "inside": wanted.search_equal_ends,
        "tests": list(names.values()),
        **scope.how(settings, product),
    }
    key = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:24]
    session = settings.bisect.sessions / f"{key}.jsonl"
    with _alone(session):
        folder = scope.archive_of(settings, job)
        build = scope.build_number(folder, resume=_is_unfinished(folder, question))
        _write_request(question, folder / str(build))
        strategy = _strategy(chosen, names, session)
        yield BisectPlan(chosen, commit_range, strategy, names, session, job, build, folder / str(build))


@contextmanager
def _alone(session: Path) -> Iterator[None]:
    lock_file = session.with_suffix(".lock")
    holding = acquire_lock(lock_file, wait=False)
    if holding is None:
        raise UsageError(f"{session}: another process works on the same request; wait until it has ended")
    try:
        yield
    finally:
        lock_file.unlink(missing_ok=True)
        os.close(holding)


def _is_unfinished(folder: Path, question: Mapping[str, Any]) -> bool:
    """Return whether the newest build in the archive has the same request and is unfinished."""
    newest = folder / str(scope.newest_build(folder))
    return _read_request(newest) == question and not (newest / SESSION).exists()


def _write_request(question: Mapping[str, Any], folder: Path) -> None:
    stored = _read_request(folder)
    if stored is None and not folder.exists():
        folder.mkdir(parents=True)
    if stored is None and not any(folder.glob("[!.]*")):
        write_whole(folder / REQUEST_FILE, json.dumps(question, indent=1) + "\n")
    elif stored != question:
        raise UsageError(f"{folder} contains the result of another request; remove it or use another number")


def _read_request(folder: Path) -> object:
    try:
        return json.loads((folder / REQUEST_FILE).read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _strategy(chosen: JobScope, names: Mapping[TraceKey, str], session: Path) -> Strategy:
    wanted = chosen.settings.bisect
    if wanted.strategy == "documented":
        return CsitHalving()
    # A resumed session uses the deviations known when it began, not those of the nights since.
    records = _records(session)
    deviations = (
        records[0].get("options", {}).get("known_deviations", {})
        if records
        else read_deviations(chosen.settings, chosen.spec.name, names)
    )
    return Adaptive(
        confidence=wanted.confidence,
        maximum_measurements=_count_measured_before(records) + wanted.maximum_measurements,
        continued=sum(map(_is_undecided, records)),
        maximum_changes=wanted.maximum_changes,
        inside=wanted.search_equal_ends,
        known_deviations=deviations,
    )


def _count_measured_before(records: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of measurements after which the search last ended undecided; 0 if it did not."""
    measured = before = 0
    for each in records:
        measured += each["record"] == "measured"
        if _is_undecided(each):
            before = measured
    return before


def _is_undecided(record: Mapping[str, Any]) -> bool:
    return bool(record["record"] == "ended" and record["kind"] == OutcomeKind.UNDECIDED)


def _records(session: Path) -> list[dict[str, Any]]:
    if not session.is_file():
        return []
    with Journal(session) as journal:
        return journal.records


def search(
    plan: BisectPlan, product: Builds, show_step: ShowStep
) -> tuple[BisectOutcome, Sequence[ExplainedCulprit]]:
    """Build and measure until the strategy ends the search; recorded steps of the session are not repeated.

    :returns: the outcome, and the culprits whose instructions were counted.
    :raises TestbedError: if the testbed cannot be acquired, or Robot Framework could not run.
    """
    settings, spec = plan.chosen.settings, plan.chosen.spec
    places = _MeasurementFolders.of(plan)
    product.expect_durations_of(plan.state.measured)
    with (
        build_measurement.lock_testbed(
            settings,
            spec,
            product,
            plan.names,
            numbers=_numbers_check(plan, product),
            folder=plan.folder.parent,
            owner=plan.job,
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
        outcome = session.run()
        explained = list(_count_instructions(outcome, plan.state, product))
        return name_no_doubtful(outcome, explained), explained


def _count_instructions(
    outcome: BisectOutcome, state: BisectState, product: Builds
) -> Iterator[ExplainedCulprit]:
    """Compare the builds with and without each culprit; not if it only makes tests fail or work."""
    for culprit in outcome.culprits:
        if not any(math.isfinite(effect.relative) for effect in culprit.effects.values()):
            continue
        before, after = state.adjacent_commits(culprit)
        if difference := product.compare_instructions(before, after):
            yield ExplainedCulprit(culprit, before, after, difference)


def name_no_doubtful(outcome: BisectOutcome, explained: Sequence[ExplainedCulprit]) -> BisectOutcome:
    """Leave out the culprits that may be innocent; if none remains, the search is undecided.

    More measurements do not help then, but other layouts of the builds do.
    """
    doubts = {each.culprit: each.doubt for each in explained if each.doubt}
    culprits = tuple(each for each in outcome.culprits if each not in doubts)
    if culprits == outcome.culprits:
        return outcome
    if culprits:
        return replace(outcome, culprits=culprits)
    return replace(
        outcome,
        kind=OutcomeKind.UNDECIDED,
        reason=next(iter(doubts.values())),
        culprits=(),
        belief=(),
        smallest_visible={},
    )


def _numbers_check(plan: BisectPlan, product: Builds) -> NumbersCheck:
    old, new = plan.commit_range.old, plan.commit_range.history.new
    return NumbersCheck(
        old,
        lambda commit: product.build(new if commit == old else old),
        has_numbers=any(each.values for each in plan.state.measured),
    )


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

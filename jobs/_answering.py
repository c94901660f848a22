"""The result of a bisection, printed, written, archived and posted."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from jobs import _guilty as guilty
from jobs import _options as options
from jobs import _posting as posting
from jobs import _searching as searching
from jobs._question import Plan
from jobs._revisions import Review
from perftrend.bisect import Adaptive, Kind, Outcome, Range, State
from perftrend.builds import Builds
from perftrend.clients.git import without_password
from perftrend.errors import explained
from perftrend.report import bisection as report
from perftrend.report.bisection import Named, Report, Subject
from perftrend.report.prose import counted
from perftrend.settings import Settings

_REPORT = "report"
_DIFF_LINES, _LOG_LINES = 60, 20


def stopped(plan: Plan, error: BaseException) -> Outcome:
    """Return the outcome of a stopped search, as if no more could be measured."""
    if isinstance(error, KeyboardInterrupt):
        reason = "it was interrupted, and resumes when the same command is run again"
    else:
        reason = f"it could not continue: {explained(error)}"
    state, strategy = plan.state, plan.strategy
    if isinstance(strategy, Adaptive) and state.measured:
        known = replace(strategy, maximum_measurements=len(state.measured)).next(state)
        if isinstance(known, Outcome):
            return replace(known, reason=reason)
    return Outcome(Kind.UNDECIDED, reason, belief=state.steps[-1].belief if state.steps else ())


def command(given: argparse.Namespace, settings: Settings, searched: Range) -> str:
    """Return the command line that repeats the search."""
    wanted = settings.bisect
    pairs = [
        ("--settings", given.settings),
        ("--testbed", settings.testbed),
        *(_of_example(given) if given.example else _of_product(settings, searched)),
        ("--search", given.search),
        ("--strategy", wanted.strategy if wanted.strategy != "adaptive" else None),
    ]
    words = [word for name, value in pairs if value is not None for word in (name, str(value))]
    flags = {"--example": given.example, "--first-parent": wanted.first_parent}
    return shlex.join(["./run", "bisection", *words, *(name for name, is_given in flags.items() if is_given)])


def _of_product(settings: Settings, searched: Range) -> Iterator[tuple[str, object]]:
    wanted, project = settings.bisect, settings.project
    yield "--old", searched.old
    yield ("--change", wanted.change) if wanted.change else ("--new", searched.history.new)
    yield "--profile", project.profile
    if project.repository and not wanted.change:
        yield "--repository", without_password(project.repository)
    yield from (("--tags", tag) for tag in settings.tags)
    yield "--trial-duration", settings.trial.duration_s
    yield "--trial-multiplicity", settings.trial.multiplicity


def _of_example(given: argparse.Namespace) -> Iterator[tuple[str, object]]:
    """Yield the other options that were given: the example sets the rest again."""
    yield from (("--tags", tag) for tag in given.tags or ())
    yield "--trial-duration", given.trial_duration
    yield "--trial-multiplicity", given.trial_multiplicity


@dataclass(frozen=True, slots=True)
class Teller:
    """Reports of a search, and their output to the console, the archive and Gerrit."""

    plan: Plan
    product: Builds
    names: Mapping[str, Named]
    reviewed: Review | None
    command: str
    ending: posting.Ending

    def begin(self, extent: str) -> None:
        """Print what is about to be searched, and post it on the change."""
        plan, done = self.plan, len(self.plan.state.measured)
        extent += f", continuing after {counted(done, 'measurement')}" if done else ""
        options.say(f"{plan.job} #{plan.build}: {extent}")
        text = f"Looking for the commit that changed the performance: {extent}. {posting.build()}"
        posting.posted(plan.chosen.settings, self.reviewed, job=plan.job, text=text.rstrip())

    def report(self, outcome: Outcome) -> Report:
        """Return the report of an outcome."""
        plan, reviewed = self.plan, self.reviewed
        state, settings = plan.state, plan.chosen.settings
        subject = Subject(
            testbed=plan.chosen.spec.name,
            change=reviewed.change.number if reviewed else None,
            patch_set=reviewed.patch_set.number if reviewed else None,
            page=reviewed.page if reviewed else "",
            simulated=plan.chosen.spec.simulated and bool(plan.names),
        )
        return Report(
            outcome,
            state,
            subject,
            self.names,
            plan.job,
            plan.build,
            strategy=plan.strategy.name,
            formula=str(plan.strategy.options.get("formula", settings.analysis.formula)),
            confidence=settings.bisect.confidence,
            link=posting.link(),
            archive=posting.artifact(plan.folder) or str(plan.folder),
            notices=plan.chosen.notices,
            command=self.command,
            diffs={
                each.commits[0]: self.product.repository.diff(each.commits[0], most_lines=_DIFF_LINES)
                for each in outcome.culprits
                if len(each.commits) == 1
            },
            last_lines=self._last_lines(state) if outcome.kind is Kind.NOT_BUILT else (),
        )

    def _last_lines(self, state: State) -> Sequence[str]:
        """Return the last lines of the log of the end that does not build."""
        end = next(each for each in (state.range.old, state.history.new) if each in state.broken)
        log = self.product.log_of(end)
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
        return lines[-_LOG_LINES:]

    def tell(self, told: Report) -> int:
        """Print, post and write a report, and return the exit code of posting.

        Posting comes before writing files: the disk may be full, and an aborted build has little time left.
        """
        settings = self.plan.chosen.settings
        options.say(report.console(told))
        with posting.undisturbed():
            code = posting.posted(settings, self.reviewed, job=self.plan.job, text=report.message(told))
            self.ending.is_told = True
            guilty.tell(settings, self.reviewed, self.product.repository, told)
        searching.keep_logs(self.plan, self.product, told.state)
        report.write(settings.report, told)
        report.write(self.plan.folder / _REPORT, told)
        options.say(f"report: {settings.report / 'index.html'}")
        options.say_verdict(report.sentence(told))
        return code

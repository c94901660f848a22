"""The result of a bisection, printed, written, archived and posted, also on the change that caused it."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from perftrend import COMMAND, console
from perftrend.bisect import Adaptive, BisectOutcome, BisectState, CommitRange, OutcomeKind, runner
from perftrend.bisect.runner import BisectPlan, ExplainedCulprit
from perftrend.builds import Builds
from perftrend.clients.git import Repository, without_password
from perftrend.errors import PerftrendError, explain
from perftrend.execution.job_request import JobResult, NamedCulprit
from perftrend.execution.revisions import ReviewedPatch
from perftrend.report import gerrit_post
from perftrend.report.bisect import messages, page, texts
from perftrend.report.bisect.texts import BisectReport, BisectSubject, NamedCommit
from perftrend.settings import Settings
from perftrend.text import format_count

_REPORT = "report"
_DIFF_LINES, _LOG_LINES = 60, 20


def partial_outcome(plan: BisectPlan, error: BaseException) -> BisectOutcome:
    """Return the outcome of a stopped search, as if no more could be measured."""
    if isinstance(error, KeyboardInterrupt):
        reason = "it was interrupted, and resumes when the same command is run again"
    else:
        reason = f"it could not continue: {explain(error)}"
    state, strategy = plan.state, plan.strategy
    if isinstance(strategy, Adaptive) and state.measured:
        known = replace(strategy, maximum_measurements=len(state.measured)).next(state)
        if isinstance(known, BisectOutcome):
            return replace(known, reason=reason)
    return BisectOutcome(OutcomeKind.UNDECIDED, reason, belief=state.steps[-1].belief if state.steps else ())


def command(
    given: argparse.Namespace,
    settings: Settings,
    searched: CommitRange,
    *,
    testbed: str,
    program: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the command line that repeats the search.

    :param testbed: empty if none is involved.
    :param program: the options that describe a program that measures itself, with their values.
    """
    wanted = settings.bisect
    pairs = [
        ("--settings", given.settings),
        ("--testbed", testbed or None),
        *(_of_example(given) if given.example else _of_product(settings, searched)),
        *program,
        ("--search", given.search),
        ("--strategy", wanted.strategy if wanted.strategy != "adaptive" else None),
    ]
    words = [word for name, value in pairs if value is not None for word in (name, str(value))]
    flags = {"--example": given.example, "--first-parent": wanted.first_parent}
    return shlex.join([COMMAND, "bisect", *words, *(name for name, is_given in flags.items() if is_given)])


def _of_product(settings: Settings, searched: CommitRange) -> Iterator[tuple[str, object]]:
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
class Reporter:
    """Reports of a search, and their output to the console, the archive and Gerrit."""

    plan: BisectPlan
    product: Builds
    names: Mapping[str, NamedCommit]
    reviewed: ReviewedPatch | None
    command: str
    ending: gerrit_post.PostState

    def begin(self, extent: str) -> None:
        """Print what is about to be searched, and post it on the change."""
        plan, done = self.plan, len(self.plan.state.measured)
        extent += f", continuing after {format_count(done, 'measurement')}" if done else ""
        console.print_text(f"{plan.job} #{plan.build}: {extent}")
        text = f"Looking for the commit that changed the performance: {extent}. {gerrit_post.build()}"
        gerrit_post.post(plan.chosen.settings, self.reviewed, job=plan.job, text=text.rstrip())

    def report(self, outcome: BisectOutcome, explained: Sequence[ExplainedCulprit] = ()) -> BisectReport:
        """Return the report of an outcome.

        :param explained: the culprits whose instructions were counted.
        """
        plan, reviewed = self.plan, self.reviewed
        state, settings = plan.state, plan.chosen.settings
        subject = BisectSubject(
            testbed=plan.chosen.testbed,
            change=reviewed.change.number if reviewed else None,
            patch_set=reviewed.patch_set.number if reviewed else None,
            page=reviewed.page if reviewed else "",
            simulated=plan.chosen.spec.simulated and bool(plan.names),
        )
        return BisectReport(
            outcome,
            state,
            subject,
            self.names,
            plan.job,
            plan.build,
            strategy=plan.strategy.name,
            formula=str(plan.strategy.options.get("formula", settings.analysis.formula)),
            confidence=settings.bisect.confidence,
            link=gerrit_post.link(),
            archive=gerrit_post.artifact(plan.folder) or str(plan.folder),
            notices=plan.chosen.notices,
            explained=explained,
            command=self.command,
            settings=settings,
            diffs={
                each.commits[0]: self.product.repository.diff(each.commits[0], most_lines=_DIFF_LINES)
                for each in outcome.culprits
                if len(each.commits) == 1
            },
            last_lines=self._last_lines(state) if outcome.kind is OutcomeKind.NOT_BUILT else (),
        )

    def _last_lines(self, state: BisectState) -> Sequence[str]:
        """Return the last lines of the log of the end that does not build."""
        end = next(each for each in (state.range.old, state.history.new) if each in state.broken)
        log = self.product.log_of(end)
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
        return lines[-_LOG_LINES:]

    def publish(self, bisect_report: BisectReport) -> int:
        """Print, post and write a report, and return the exit code of posting.

        Posting comes before writing files: the disk may be full, and an aborted build has little time left.
        """
        settings = self.plan.chosen.settings
        console.print_text(messages.console(bisect_report, width=console.terminal_width()))
        with gerrit_post.ignore_sigterm():
            code = gerrit_post.post(
                settings, self.reviewed, job=self.plan.job, text=messages.message(bisect_report)
            )
            self.ending.is_posted = True
            notify_culprits(settings, self.reviewed, self.product.repository, bisect_report)
        runner.archive_logs(self.plan, self.product, bisect_report.state)
        page.write(settings.report, bisect_report)
        page.write(self.plan.folder / _REPORT, bisect_report)
        console.print_text(f"report: {settings.report / 'index.html'}")
        console.print_verdict(texts.sentence(bisect_report))
        return code


def result_of(bisect_report: BisectReport) -> JobResult:
    """Return what pages show of a search: its sentence, and the commits that it names."""
    return JobResult(
        texts.sentence(bisect_report),
        tuple(
            NamedCulprit(
                commit,
                bisect_report.names[commit].subject,
                texts.author(bisect_report, commit),
                texts.deed(bisect_report, culprit),
            )
            for culprit in bisect_report.outcome.culprits
            for commit in culprit.commits[:1]
            if len(culprit.commits) == 1
        ),
        bisect_report.link,
    )


def notify_culprits(
    settings: Settings, reviewed: ReviewedPatch | None, repository: Repository, bisect_report: BisectReport
) -> None:
    """Notify each change whose commit alone made a test worse, except the change under review.

    The message has no vote, and is posted only once, if the settings enable it.

    A notification that fails is only a warning: the result is on the change under review.

    :param reviewed: the change under review; None: no change is notified.
    """
    if reviewed is None or not settings.gerrit.notify_culprit:
        return
    for culprit in bisect_report.outcome.culprits:
        if len(culprit.commits) > 1 or not bisect_report.is_regression(culprit):
            continue
        commit = culprit.commits[0]
        try:
            found = _review_of(reviewed, repository, commit)
        except PerftrendError as error:
            console.warn(f"the change of {commit[:12]} got no message: {error}")
            continue
        if found is None:
            console.warn(f"no change in Gerrit is known for {commit[:12]}; nothing is posted")
        elif found.change.number != reviewed.change.number:
            gerrit_post.post(
                settings, found, job=bisect_report.job, text=messages.culprit_message(bisect_report, culprit)
            )


def _review_of(reviewed: ReviewedPatch, repository: Repository, commit: str) -> ReviewedPatch | None:
    change = reviewed.change
    found = reviewed.gerrit.patch_set_of(
        commit,
        project=change.project,
        change_id=repository.change_id(commit),
        branch=change.branch,
    )
    return ReviewedPatch(reviewed.gerrit, *found) if found else None

"""The answer of a bisection, brought to people: printed, written, archived and posted."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jobs import _options as options
from jobs import _posting as posting
from jobs import _searching as searching
from jobs._question import Plan
from jobs._revisions import Review
from perftrend.bisect import Adaptive, Kind, Outcome, Range, State
from perftrend.builds import Builds
from perftrend.clients.git import without_password
from perftrend.report import bisection as report
from perftrend.report.bisection import Named, Report, Subject
from perftrend.settings import Settings

_REPORT = "report"
_DIFF_LINES, _LOG_LINES = 60, 20


def interrupted(plan: Plan) -> Outcome:
    """Return what is known by now as an answer: what would be said if no more could be measured."""
    reason = "it was interrupted, and goes on where it stopped when the same is asked again"
    state, strategy = plan.state, plan.strategy
    if isinstance(strategy, Adaptive) and state.measured:
        known = replace(strategy, maximum_measurements=len(state.measured)).next(state)
        if isinstance(known, Outcome):
            return replace(known, reason=reason)
    return Outcome(Kind.UNDECIDED, reason, belief=state.steps[-1].belief if state.steps else ())


def command(given: argparse.Namespace, settings: Settings, searched: Range) -> str:
    """Return what a person types to search the same."""
    wanted, project = settings.bisect, settings.project
    new = ("--change", wanted.change) if wanted.change else ("--new", searched.history.new)
    repository = without_password(project.repository) if project.repository and not wanted.change else None
    pairs = [
        ("--settings", given.settings),
        ("--testbed", settings.testbed),
        ("--old", searched.old),
        new,
        ("--profile", project.profile),
        ("--repository", repository),
        *(("--tags", tag) for tag in settings.tags),
        ("--trial-duration", settings.trial.duration_s),
        ("--trial-multiplicity", settings.trial.multiplicity),
        ("--strategy", wanted.strategy if wanted.strategy != "adaptive" else None),
    ]
    words = [word for name, value in pairs if value is not None for word in (name, str(value))]
    return shlex.join(["./run", "bisection", *words, *(["--first-parent"] if wanted.first_parent else [])])


@dataclass(frozen=True, slots=True)
class Teller:
    """Makes reports of a search and brings them to people."""

    plan: Plan
    product: Builds
    names: Mapping[str, Named]
    reviewed: Review | None
    command: str

    def report(self, outcome: Outcome) -> Report:
        """Return the report of an end."""
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
        """Return what the end of the range that does not build said last."""
        end = next(each for each in (state.range.old, state.history.new) if each in state.broken)
        log = self.product.log_of(end)
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
        return lines[-_LOG_LINES:]

    def tell(self, told: Report, told_in: Review | None) -> int:
        """Print, write and post a report, and return the exit code of posting."""
        settings = self.plan.chosen.settings
        searching.keep_logs(self.plan, self.product, told.state)
        report.write(settings.report, told)
        report.write(self.plan.folder / _REPORT, told)
        options.say(report.console(told))
        options.say(f"report: {settings.report / 'index.html'}")
        code = posting.posted(settings, told_in, job=self.plan.job, text=report.message(told))
        options.say_verdict(report.sentence(told))
        return code

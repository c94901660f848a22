"""Find the commit that changed the performance, and report it in Gerrit."""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from perftrend import console, errors
from perftrend.bisect import CommitRange, MeasureStep, OutcomeKind, runner
from perftrend.bisect.runner import open_plan
from perftrend.builds import example
from perftrend.cli import options
from perftrend.clients.git import Repository
from perftrend.errors import BuildError, UsageError
from perftrend.execution import request_validation, revisions, scope
from perftrend.execution.job_request import JobRequest, read_request, record_progress, record_result
from perftrend.execution.revisions import ReviewedPatch, of_working_directory
from perftrend.measure import specification
from perftrend.model import BuildMeasurement
from perftrend.report import gerrit_post
from perftrend.report.bisect import BisectReport, NamedCommit, show_step, step
from perftrend.report.bisect.reporter import Reporter, command, partial_outcome, result_of
from perftrend.report.mails import delivery
from perftrend.settings import Settings
from perftrend.text import format_count

_CHOSEN_BY_EXAMPLE = ("old", "new", "change", "profile", "repository", "measure", "build")
_EXAMPLE_SETTINGS: Mapping[str, object] = {
    "testbed": "1n-veth",
    "suites": None,
    "tags": ("mrrAND64bAND1cANDethip4-ip4base",),
    "trial.duration_s": 0.25,
    "trial.multiplicity": 4,
    "trial.starts": 2,
    # Other processes may use the machine; disturbed trials are measured again.
    "trial.attempts": 8,
    # Excluding a second, small change takes long, and this history has none.
    "bisect.maximum_changes": 1,
    "bisect.maximum_measurements": 40,
}


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    described = options.Parser(
        "bisect",
        __doc__,
        examples=[
            "./run bisect --example",
            "./run bisect --old v2.0 --new v2.1 --measure './bench --repeat 5' --unit ms",
            "./run bisect --old 3ab5c9d --new 8e21f04 --testbed 2n-clx --tags mrrAND64b",
            "./run bisect --old 3ab5c9d --change 1234 --testbed 2n-clx --tags mrrAND64b",
        ],
    )
    commits = options.add_commits(described)
    add = commits.add_argument
    add("--old", metavar="COMMIT", help="the older commit, before the change in performance")
    add("--new", metavar="COMMIT", help="the newer commit, after it")
    add(
        "--change",
        metavar="N",
        type=options.count,
        help="a change in Gerrit, instead of --new: its newest patch set",
    )
    add("--first-parent", action="store_true", default=None, help="treat each merge as a single commit")
    options.add_product(commits)
    add("--example", action="store_true", help="create a small history with a slow commit, and find it")
    options.add_program(described)
    add = described.add_argument_group("search").add_argument
    add(
        "--strategy",
        choices=["adaptive", "documented"],
        help=f"how to choose and judge commits {options.show_default('bisect.strategy')}",
    )
    add(
        "--confidence",
        metavar="P",
        type=float,
        help=f"the probability that a commit needs to be named {options.show_default('bisect.confidence')}",
    )
    add(
        "--measurements",
        metavar="N",
        type=options.count,
        help=f"maximum number of measurements {options.show_default('bisect.maximum_measurements')}",
    )
    add("--dry-run", action="store_true", help="only show what would be searched, and how long it takes")
    add("--no-post", action="store_true", default=None, help="do not post in Gerrit")
    options.add_suites(described)
    return described


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    with options.report_errors() as outcome:
        given = parser().parse_args(argv)
        overrides = _overrides(given)
        settings = options.load_settings(given, overrides)
        job_request = None
        if given.example:
            settings = apply_example(settings, given, overrides)
        elif job_request := read_request(os.environ, "bisect", settings):
            settings = _with_request(settings, job_request, overrides)
        testbed = scope.involved_testbed(settings, is_requested=job_request is not None)
        with delivery.report_failure(settings, testbed=testbed):
            outcome.exit_code = bisection(given, settings, job_request)
    return outcome.exit_code


def _with_request(settings: Settings, job_request: JobRequest, given: Mapping[str, object]) -> Settings:
    """Return the settings with those that a comment requests, unless options override them."""
    requested = {name: value for name, value in job_request.overrides.items() if given.get(name) is None}
    if settings.bisect.old is None:
        requested["bisect.old"] = job_request.trigger.old
    if settings.bisect.new is None and settings.bisect.change is None:
        # A request of the dashboard is on no change: its revision is the newer commit.
        end = "bisect.change" if job_request.change else "bisect.new"
        requested[end] = job_request.change or job_request.revision or None
    return request_validation.apply_overrides(settings, requested)


def _overrides(given: argparse.Namespace) -> Mapping[str, object]:
    return {
        "testbed": given.testbed,
        "store": given.store,
        "bisect.old": given.old,
        "bisect.new": given.new,
        "bisect.change": given.change,
        "bisect.strategy": given.strategy,
        "bisect.first_parent": given.first_parent,
        "bisect.confidence": given.confidence,
        "bisect.maximum_measurements": given.measurements,
        "gerrit.post": None if given.no_post is None else not given.no_post,
        **options.of_product(given),
        **options.of_program(given),
        **options.of_suites(given),
    }


def bisection(given: argparse.Namespace, settings: Settings, job_request: JobRequest | None = None) -> int:
    """Search, report and post; return the exit code."""
    wanted = settings.bisect
    if not wanted.old or bool(wanted.new) == bool(wanted.change):
        raise errors.UsageError(
            "give the commits to search: --old COMMIT with --new COMMIT, or with --change N of a change"
        )
    is_its_own = job_request is not None and job_request.change == wanted.change
    reviewed = revisions.review(
        settings, wanted.change, job_request.patch_set if job_request and is_its_own else None
    )
    is_requested = job_request is not None
    if reviewed is None and not is_requested:
        settings = of_working_directory(settings)
    job = scope.job_name("bisect", settings, is_requested=is_requested)

    def show(event: MeasureStep | BuildMeasurement | BuildError, number: int) -> None:
        show_step(event, number)
        if isinstance(event, MeasureStep):
            record_progress(job_request, settings, step(event, number))

    with (
        gerrit_post.failure_posted(
            settings, reviewed, job=job, is_cancelled=lambda: is_cancelled(job_request, settings)
        ) as ending,
        full_one_named(settings),
        scope.open_scope(
            settings,
            revisions.project(settings, reviewed),
            is_under_review=reviewed is not None,
            is_requested=is_requested,
        ) as (chosen, product),
        admitted(job_request, settings, chosen),
    ):
        searched, names = _range(product.repository, settings, reviewed, is_by_hand=not is_requested)
        count = len(searched.history.commits)
        extent = f"{format_count(count, 'commit')}, {chosen.extent('bisect')}"
        if given.dry_run or (job_request and job_request.is_dry_run):
            text = f"Would search {extent}. Nothing was measured."
            console.print_verdict(text)
            return gerrit_post.post(settings, reviewed, job=job, text=text)
        with open_plan(chosen, product, searched, job=job) as plan:
            again = command(
                given, settings, searched, testbed=chosen.testbed, program=[*options.words_of_program(given)]
            )
            reporter = Reporter(plan, product, names, reviewed, again, ending)
            reporter.begin(extent)
            try:
                with full_one_named(settings):
                    outcome, explained = runner.search(plan, product, show)
            except (KeyboardInterrupt, errors.PerftrendError, OSError) as error:
                if plan.state.measured or isinstance(error, KeyboardInterrupt):
                    reporter.publish(reporter.report(partial_outcome(plan, error)))
                raise
            bisect_report = reporter.report(outcome, explained)
            code = reporter.publish(bisect_report)
            record_result(job_request, settings, result_of(bisect_report))
            if code == errors.EXIT_PASS and not plan.is_resumable:
                # Otherwise, the same command posts the report again, or resumes an undecided search.
                plan.close()
    return exit_code(bisect_report, unstable=settings.analysis.regression == "unstable") or code


def admitted(
    job_request: JobRequest | None, settings: Settings, chosen: scope.JobScope
) -> AbstractContextManager[None]:
    """Admit the job if a comment requests it."""
    if job_request is None:
        return nullcontext()
    from perftrend.execution import admission  # noqa: PLC0415 - the database loads slowly

    return admission.admitted(job_request, settings, chosen.plan)


def is_cancelled(job_request: JobRequest | None, settings: Settings) -> bool:
    """Return whether the listener has ended the job."""
    if job_request is None:
        return False
    from perftrend.execution import admission  # noqa: PLC0415 - the database loads slowly

    return admission.is_cancelled(job_request, settings)


def exit_code(bisect_report: BisectReport, *, unstable: bool = False) -> int:
    """Return the exit code of the job: a regression that was found fails it, as in trending.

    :param unstable: whether a regression makes the job unstable instead of failing it.
    """
    if bisect_report.outcome.kind is OutcomeKind.NOT_BUILT:
        return errors.EXIT_USAGE
    if bisect_report.outcome.kind is OutcomeKind.UNDECIDED:
        return errors.EXIT_TESTBED
    if bisect_report.state.measured and not any(each.values for each in bisect_report.state.measured):
        return errors.EXIT_TESTBED
    if bisect_report.regressed:
        return errors.EXIT_UNSTABLE if unstable else errors.EXIT_REGRESSION
    return errors.EXIT_PASS


def _range(
    repository: Repository, settings: Settings, reviewed: ReviewedPatch | None, *, is_by_hand: bool
) -> tuple[CommitRange, dict[str, NamedCommit]]:
    """Return the commits to search, and their subjects and authors.

    :param is_by_hand: whether no comment started the job, so that names other than hashes are trusted.
    :raises UsageError: if a commit does not exist, both are the same, or they are not on one branch.
    """
    wanted = settings.bisect
    assert wanted.old is not None  # noqa: S101 - checked by the caller
    resolve = repository.resolve_name if is_by_hand else repository.resolve
    new = revisions.of_review(repository, reviewed).patch if reviewed else resolve(wanted.new or "")
    old = resolve(wanted.old)
    if old == new:
        raise errors.UsageError(f"old and new are the same commit {old[:12]}; give an older one")
    if not reviewed and repository.is_ancestor(new, old):
        revisions.warn_of_swap(wanted.old, wanted.new or "")
        old, new = new, old
    elif not repository.is_ancestor(old, new):
        raise errors.UsageError(
            f"{old[:12]} is not an ancestor of {new[:12]}; {_advice(repository, old, new)}"
        )
    commits = repository.history(old, new, wanted.first_parent)
    named = {each.hash: NamedCommit(each.subject, each.author) for each in (repository.commit(old), *commits)}
    return CommitRange.of(old, commits, first_parent=wanted.first_parent), named


def _advice(repository: Repository, old: str, new: str) -> str:
    """Return what to give instead of an old end that is not in the history of the new one."""
    common = repository.common_ancestor(old, new)
    if common is None or common == new:
        return "give a commit of its history"
    return f"give a commit of its history, such as --old {common[:12]}, where their branches part"


@contextmanager
def full_one_named(settings: Settings) -> Iterator[None]:
    """Add the folder of the settings with the least free space to ENOSPC errors that name no file.

    The kernel does not report the file if it is open already.
    """
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC and not error.filename:
            folders = (settings.archive, settings.report, settings.bisect.sessions, settings.project.builds)
            there = [each for each in folders if each.is_dir()] or [Path()]
            error.filename = str(min(there, key=lambda each: shutil.disk_usage(each).free))
        raise


def apply_example(settings: Settings, given: argparse.Namespace, overrides: Mapping[str, object]) -> Settings:
    """Create the history of ``--example``, and return the settings that search it.

    Its trials are short enough to wait for.

    :param overrides: the settings from options; they override those of the example.
    :raises UsageError: if an option chooses what is searched.
    """
    for name in _CHOSEN_BY_EXAMPLE:
        if getattr(given, name) is not None:
            raise UsageError(f"--example creates the commits that it searches; omit --{name}")
    how = {name: value for name, value in _EXAMPLE_SETTINGS.items() if overrides.get(name) is None}
    settings = request_validation.apply_overrides(settings, how)
    # Raise errors in the selection of tests before creating files.
    scope.select_traces(settings, specification.load(settings.testbed, settings.testbeds))
    made = example.make(settings.project.builds / "example.git")
    searched: Mapping[str, object] = {
        "project.profile": example.PROFILE,
        "project.profiles": None,
        "project.parameters": {},
        "project.repository": str(made.folder),
        "bisect.old": made.old,
        "bisect.new": made.new,
        "bisect.change": None,
    }
    return request_validation.apply_overrides(settings, searched)


if __name__ == "__main__":
    sys.exit(main())

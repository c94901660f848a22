"""Compare a change under review with its parent, and post the verdict in Gerrit."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from perftrend import COMMAND, console, errors
from perftrend.analysis.instructions import InstructionDifference
from perftrend.archive import patch_report
from perftrend.builds import Builds
from perftrend.cli import options
from perftrend.execution import admission, build_measurement, revisions, scope
from perftrend.execution.build_measurement import read_deviations
from perftrend.execution.job_request import JobRequest, JobResult, read_request, record_result
from perftrend.execution.revisions import ReviewedPatch, Revisions, of_working_directory
from perftrend.execution.scope import JobScope
from perftrend.perftest import BuildSide, PatchVerdict, Round, runner
from perftrend.perftest.runner import PatchComparison, PerftestPlan, find_earlier_build
from perftrend.report import gerrit_post
from perftrend.report import perftest as report
from perftrend.report.mails import delivery
from perftrend.report.perftest import PerftestReport, PerftestSubject
from perftrend.settings import Settings
from perftrend.store import Store


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    described = options.Parser(
        "perftest",
        __doc__,
        examples=[
            "./run perftest --change 1234 --testbed 2n-clx --tags mrrAND64b",
            "./run perftest --new HEAD --measure './bench --repeat 5' --unit ms",
            "./run perftest --new 8e21f04 --profile vpp --testbed 2n-clx --tags mrrAND64b --no-post",
        ],
    )
    commits = options.add_commits(described)
    add = commits.add_argument
    add("--change", metavar="N", type=options.count, help="number of the change in Gerrit")
    add("--new", metavar="COMMIT", help="without Gerrit: the commit to compare")
    add("--old", metavar="COMMIT", help="without Gerrit: the commit to compare it with (default: its parent)")
    options.add_product(commits)
    options.add_program(described)
    add = described.add_argument_group("comparison").add_argument
    add(
        "--rounds",
        metavar="N",
        type=options.count,
        help=f"maximum number of rounds of both builds {options.show_default('perftest.maximum_rounds')}",
    )
    add("--resume", action="store_true", help="continue the newest archived build of this job")
    add("--dry-run", action="store_true", help="only show what would be measured, and how long it takes")
    add("--no-post", action="store_true", default=None, help="do not post in Gerrit")
    options.add_suites(described)
    return described


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    with options.report_errors() as outcome:
        given = parser().parse_args(argv)
        by_hand = {name: value for name, value in _overrides(given).items() if value is not None}
        settings = options.load_settings(given, by_hand)
        job_request = read_request(os.environ, "perftest", settings)
        if job_request:
            change = settings.perftest.change or job_request.change
            requested = {**job_request.overrides, "perftest.change": change, **by_hand}
            settings = options.load_settings(given, requested)
            if not change:
                # A request of the dashboard is on no change: its revision is compared with its parent.
                given.new = given.new or job_request.revision or None
        testbed = scope.involved_testbed(settings, is_requested=job_request is not None)
        with delivery.report_failure(settings, testbed=testbed):
            outcome.exit_code = perftest(given, settings, job_request)
    return outcome.exit_code


def _overrides(given: argparse.Namespace) -> Mapping[str, object]:
    return {
        "testbed": given.testbed,
        "store": given.store,
        "perftest.change": given.change,
        "perftest.maximum_rounds": given.rounds,
        "gerrit.post": None if given.no_post is None else not given.no_post,
        **options.of_product(given),
        **options.of_program(given),
        **options.of_suites(given),
    }


def perftest(given: argparse.Namespace, settings: Settings, job_request: JobRequest | None = None) -> int:
    """Compare, report and post; return the exit code."""
    if bool(given.new) == bool(settings.perftest.change) or (given.old and not given.new):
        raise errors.UsageError(
            "give what to compare: --change N of a change in Gerrit, or --new COMMIT without Gerrit"
        )
    is_its_own = job_request is not None and job_request.change == settings.perftest.change
    patch_set = job_request.patch_set if job_request and is_its_own else None
    reviewed = None if given.new else revisions.review(settings, settings.perftest.change, patch_set)
    is_requested = job_request is not None
    if reviewed is None and not is_requested:
        settings = of_working_directory(settings)
    job = scope.job_name("perftest", settings, is_requested=is_requested)
    with (
        gerrit_post.failure_posted(
            settings,
            reviewed,
            job=job,
            is_cancelled=lambda: admission.is_cancelled(job_request, settings),
        ),
        scope.open_scope(
            settings,
            revisions.project(settings, reviewed),
            is_under_review=reviewed is not None,
            is_requested=is_requested,
        ) as (chosen, product),
        admission.admitted(job_request, settings, chosen.plan),
    ):
        if reviewed:
            compared = revisions.of_review(product.repository, reviewed)
        else:
            compared = revisions.resolve(product.repository, given.old, given.new)
        if given.dry_run or (job_request and job_request.is_dry_run):
            text = f"Would measure {_extent(chosen)}. Nothing was measured."
            code = gerrit_post.post(settings, reviewed, job=job, text=text)
            console.print_verdict(text)
            return code
        request = job_request.request if job_request else ""
        plan = _make_plan(chosen, product, compared, reviewed, job=job, request=request, resume=given.resume)
        subject = _subject(chosen, compared, reviewed)

        def in_progress(verdict: PatchVerdict, done: Sequence[Round]) -> None:
            _retain(plan, _report(plan, verdict, done, subject, chosen.notices, ended=False))

        verdict, done, instructions = runner.compare(plan, product, in_progress)
        perftest_report = _report(plan, verdict, done, subject, chosen.notices, instructions=instructions)
        stored = _retain(plan, perftest_report)
    console.print_text(report.console(perftest_report, width=console.terminal_width()))
    code = gerrit_post.post(
        settings, reviewed, job=job, text=report.message(perftest_report), vote=verdict.vote
    )
    result = JobResult(report.sentence(perftest_report), link=gerrit_post.link())
    record_result(job_request, settings, result)
    print(f"report: {report.write(settings.report, perftest_report)}", flush=True)
    console.print_verdict(report.sentence(perftest_report))
    return verdict.exit_code(unstable=settings.analysis.regression == "unstable") or code or stored


def _make_plan(
    chosen: JobScope, product: Builds, compared: Revisions, reviewed: ReviewedPatch | None,
    *, job: str, request: str, resume: bool,
) -> PerftestPlan:  # fmt: skip
    """Choose the folder in the archive, and print what is about to be measured.

    :raises UsageError: if the folder has rounds of another comparison.
    """
    names = build_measurement.names_of(chosen.keys)
    comparison = PatchComparison(
        testbed=chosen.testbed,
        parent=compared.parent,
        patch=compared.patch,
        tests=tuple(names.values()),
        how=scope.how(chosen.settings, product),
        change=reviewed.change.number if reviewed else None,
        patch_set=reviewed.patch_set.number if reviewed else None,
        request=request,
    )
    folder = scope.archive_of(chosen.settings, job)
    build = scope.build_number(folder, resume=resume, begun=find_earlier_build(folder, comparison))
    comparison.save(folder / str(build))
    print(f"{job} #{build}: {_extent(chosen)}", flush=True)
    commits = {BuildSide.PARENT: compared.parent, BuildSide.CURRENT: compared.patch}
    deviations = read_deviations(chosen.settings, chosen.spec.name, names)
    return PerftestPlan(
        chosen.settings, chosen.spec, commits, names, job, build, folder / str(build), deviations
    )


def _extent(chosen: JobScope) -> str:
    most = chosen.settings.perftest.maximum_rounds
    return f"{chosen.extent('perftest')}, {most} rounds of both builds or less"


def _subject(chosen: JobScope, compared: Revisions, reviewed: ReviewedPatch | None) -> PerftestSubject:
    return PerftestSubject(
        testbed=chosen.testbed,
        parent=compared.parent,
        patch=compared.patch,
        change=reviewed.change.number if reviewed else None,
        patch_set=reviewed.patch_set.number if reviewed else None,
        page=reviewed.page if reviewed else "",
        is_merge=compared.is_merge,
        simulated=chosen.spec.simulated and bool(chosen.keys),
    )


def _retain(plan: PerftestPlan, perftest_report: PerftestReport) -> int:
    """Archive a report and enter it into the store; return the exit code of the store.

    A store that is not there is not made.
    """
    report.write(plan.folder / patch_report.PLACE.parent, perftest_report)
    try:
        if Store.may_be_there(plan.settings.store):
            content = (plan.folder / patch_report.PLACE).read_bytes()
            name, archive = f"{perftest_report.job}/{perftest_report.build}", str(plan.folder.resolve())
            test, traces = patch_report.parse(
                content, job=perftest_report.job, build=perftest_report.build, name=name, archive=archive
            )
            with Store.open(plan.settings.store) as store:
                store.patch_tests.add(test, traces)
    except (errors.ArchiveError, errors.StoreError) as error:
        console.warn(
            f"the rounds are archived, but not stored: {error}; {COMMAND} ingest {plan.folder} stores them"
        )
        return error.exit_code
    return errors.EXIT_PASS


def _report(
    plan: PerftestPlan,
    verdict: PatchVerdict,
    done: Sequence[Round],
    subject: PerftestSubject,
    notices: Sequence[str],
    *,
    ended: bool = True,
    instructions: InstructionDifference | None = None,
) -> PerftestReport:
    measured = [each[side] for each in done for side in BuildSide]
    now = datetime.now(UTC)
    return PerftestReport(
        verdict,
        subject,
        plan.job,
        plan.build,
        started=min((each.started for each in measured), default=now),
        finished=max((each.finished for each in measured), default=now),
        threshold=plan.criteria.threshold,
        confidence=plan.criteria.confidence,
        formula=plan.criteria.formula,
        maximum_rounds=plan.criteria.maximum_rounds,
        link=gerrit_post.link(),
        archive=gerrit_post.artifact(plan.folder) or str(plan.folder),
        notices=notices,
        ended=ended,
        instructions=instructions,
        settings=plan.settings,
    )


if __name__ == "__main__":
    sys.exit(main())

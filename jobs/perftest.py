"""Compare a change under review with its parent, and post the verdict in Gerrit."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from jobs import _chosen as choosing
from jobs import _comment as comment
from jobs import _mails as mails
from jobs import _options as options
from jobs import _posting as posting
from jobs import _revisions as revisions
from jobs import _rounds as rounds
from jobs._chosen import Chosen
from jobs._noise import known_deviations
from jobs._revisions import Review, Revisions
from jobs._rounds import Plan
from perftrend import errors
from perftrend.archive import patch_report
from perftrend.builds import Builds
from perftrend.keywords import measuring_builds
from perftrend.perftest import Asked, Round, Side, Verdict, begun
from perftrend.report import perftest as report
from perftrend.report.perftest import Report, Subject
from perftrend.settings import Settings
from perftrend.store import Store


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    described = options.Parser(
        "perftest",
        __doc__,
        examples=[
            "./run perftest --change 1234 --testbed 2n-clx --tags mrrAND64b",
            "./run perftest --new 8e21f04 --profile vpp --testbed 2n-clx --tags mrrAND64b --no-post",
        ],
    )
    commits = described.add_argument_group("commits")
    add = commits.add_argument
    add("--change", metavar="N", type=options.count, help="number of the change in Gerrit")
    add("--new", metavar="HASH", help="without Gerrit: the commit to compare")
    add("--old", metavar="HASH", help="without Gerrit: the commit to compare it with (default: its parent)")
    options.add_product(commits)
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
    with options.reported() as outcome:
        given = parser().parse_args(argv)
        by_hand = {name: value for name, value in _overrides(given).items() if value is not None}
        settings = Settings.load(given.settings, overrides=by_hand)
        asked = comment.asked(os.environ, "perftest", settings)
        if asked:
            change = settings.perftest.change or asked.change
            requested = {**asked.overrides, "perftest.change": change, **by_hand}
            settings = Settings.load(given.settings, overrides=requested)
        with mails.failure_told(settings):
            outcome.exit_code = perftest(given, settings, asked)
    return outcome.exit_code


def _overrides(given: argparse.Namespace) -> Mapping[str, object]:
    return {
        "testbed": given.testbed,
        "store": given.store,
        "perftest.change": given.change,
        "perftest.maximum_rounds": given.rounds,
        "gerrit.post": None if given.no_post is None else not given.no_post,
        **options.of_product(given),
        **options.of_suites(given),
    }


def perftest(given: argparse.Namespace, settings: Settings, asked: comment.Asked | None = None) -> int:
    """Compare, report and post; return the exit code."""
    if bool(given.new) == bool(settings.perftest.change) or (given.old and not given.new):
        raise errors.UsageError(
            "give what to compare: --change N of a change in Gerrit, or --new HASH without Gerrit"
        )
    is_its_own = asked is not None and asked.change == settings.perftest.change
    patch_set = asked.patch_set if asked and is_its_own else None
    reviewed = None if given.new else revisions.review(settings, settings.perftest.change, patch_set)
    job = os.environ.get("JOB_NAME") or f"perftrend-perftest-{settings.testbed}"
    with (
        posting.failure_posted(settings, reviewed, job=job),
        choosing.opened(settings, revisions.project(settings, reviewed)) as (chosen, product),
    ):
        if reviewed:
            compared = revisions.of_review(product.repository, reviewed)
        else:
            compared = revisions.named(product.repository, given.old, given.new)
        if given.dry_run or (asked and asked.is_dry_run):
            text = f"Would measure {_extent(chosen)}. Nothing was measured."
            code = posting.posted(settings, reviewed, job=job, text=text)
            options.say_verdict(text)
            return code
        request = asked.request if asked else ""
        plan = _planned(chosen, product, compared, reviewed, job=job, request=request, resume=given.resume)
        subject = _subject(plan, compared, reviewed)

        def in_progress(verdict: Verdict, done: Sequence[Round]) -> None:
            _retain(plan, _report(plan, verdict, done, subject, chosen.notices, ended=False))

        verdict, done = rounds.compared(plan, product, in_progress)
        told = _report(plan, verdict, done, subject, chosen.notices)
        stored = _retain(plan, told)
    options.say(report.console(told))
    code = posting.posted(settings, reviewed, job=job, text=report.message(told), vote=verdict.vote)
    print(f"report: {report.write(settings.report, told)}", flush=True)
    options.say_verdict(report.sentence(told))
    return verdict.exit_code(unstable=settings.analysis.regression == "unstable") or code or stored


def _planned(
    chosen: Chosen, product: Builds, compared: Revisions, reviewed: Review | None,
    *, job: str, request: str, resume: bool,
) -> Plan:  # fmt: skip
    """Choose the folder in the archive, and print what is about to be measured.

    :raises UsageError: if the folder has rounds of another comparison.
    """
    names = measuring_builds.names_of(chosen.keys)
    asked = Asked(
        testbed=chosen.spec.name,
        parent=compared.parent,
        patch=compared.patch,
        tests=tuple(names.values()),
        how=choosing.how(chosen.settings, product),
        change=reviewed.change.number if reviewed else None,
        patch_set=reviewed.patch_set.number if reviewed else None,
        request=request,
    )
    folder = choosing.archive_of(chosen.settings, job)
    build = choosing.build_number(folder, resume=resume, begun=begun(folder, asked))
    asked.keep(folder / str(build))
    print(f"{job} #{build}: {_extent(chosen)}", flush=True)
    commits = {Side.PARENT: compared.parent, Side.CURRENT: compared.patch}
    deviations = known_deviations(chosen.settings, chosen.spec.name, names)
    return Plan(chosen.settings, chosen.spec, commits, names, job, build, folder / str(build), deviations)


def _extent(chosen: Chosen) -> str:
    most = chosen.settings.perftest.maximum_rounds
    return f"{chosen.extent('perftest')}, {most} rounds of both builds or less"


def _subject(plan: Plan, compared: Revisions, reviewed: Review | None) -> Subject:
    return Subject(
        testbed=plan.spec.name,
        parent=compared.parent,
        patch=compared.patch,
        change=reviewed.change.number if reviewed else None,
        patch_set=reviewed.patch_set.number if reviewed else None,
        page=reviewed.page if reviewed else "",
        is_merge=compared.is_merge,
        simulated=plan.spec.simulated and bool(plan.names),
    )


def _retain(plan: Plan, told: Report) -> int:
    """Archive a report and enter it into the store; return the exit code of the store.

    A store that is not there is not made.
    """
    report.write(plan.folder / patch_report.PLACE.parent, told)
    try:
        if Store.may_be_there(plan.settings.store):
            content = (plan.folder / patch_report.PLACE).read_bytes()
            name, archive = f"{told.job}/{told.build}", str(plan.folder.resolve())
            test, traces = patch_report.parse(
                content, job=told.job, build=told.build, name=name, archive=archive
            )
            with Store.open(plan.settings.store) as store:
                store.patch_tests.add(test, traces)
    except (errors.ArchiveError, errors.StoreError) as error:
        options.warn(
            f"the rounds are archived, but not stored: {error}; ./run ingest {plan.folder} stores them"
        )
        return error.exit_code
    return errors.EXIT_PASS


def _report(
    plan: Plan, verdict: Verdict, done: Sequence[Round], subject: Subject, notices: Sequence[str],
    *, ended: bool = True,
) -> Report:  # fmt: skip
    measured = [each[side] for each in done for side in Side]
    now = datetime.now(UTC)
    return Report(
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
        link=posting.link(),
        archive=posting.artifact(plan.folder) or str(plan.folder),
        notices=notices,
        ended=ended,
    )


if __name__ == "__main__":
    sys.exit(main())

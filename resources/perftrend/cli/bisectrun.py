"""Judge the commit that is checked out, as the command of git bisect run."""

from __future__ import annotations

import argparse
import math
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from typing_extensions import override

from perftrend import COMMAND, builds, console, errors
from perftrend.bisect import single_step_runner
from perftrend.bisect.single_step import CommitSide, SideVerdict, range_around
from perftrend.cli import options
from perftrend.clients.git import Repository
from perftrend.clients.git.checkout import Underway, underway
from perftrend.execution import scope
from perftrend.execution.revisions import in_checkout
from perftrend.report.bisect import show_step
from perftrend.settings import Settings
from perftrend.text import HASH, format_probability, line, span

SKIP = 125
"""The exit code for a commit that cannot be tested; git bisect run skips it."""
ALIKE = 200
"""The ends do not differ."""
STOPPED = 200
"""Added to the exit codes of errors, because git would interpret those below 128 as a verdict."""
_CODES = {CommitSide.OLD: 0, CommitSide.NEW: 1, CommitSide.UNKNOWN: SKIP, CommitSide.NONE: ALIKE}
_WORDS = {
    CommitSide.OLD: "is like the old end",
    CommitSide.NEW: "is like the new end",
    CommitSide.UNKNOWN: "cannot be judged",
    CommitSide.NONE: "cannot be judged by these ends",
}
_DEFECT = 1
"""Python's exit code after an unexpected exception."""
_PROGRAM = "~/perftrend/run" if COMMAND == "./run" else COMMAND
_EXIT_CODES = """\
exit codes, of which those from 128 on stop git bisect run:
  0    the commit is like the old end
  1    the commit is like the new end
  125  the commit cannot be built or judged, and is skipped
  130  interrupted
  200  the ends do not differ
  201  a defect
  202  bad use or bad input
  203  a service failed
  204  the testbed failed"""


class _BisectrunParser(options.Parser):
    @override
    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        super().exit(stop_code(status) if status else 0, message)


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    described = _BisectrunParser(
        "bisectrun",
        __doc__,
        notes=_EXIT_CODES,
        examples=[
            f"git bisect start v2.1 v2.0; git bisect run {_PROGRAM} bisectrun --measure ./bench --unit ms"
        ],
    )
    add = options.add_commits(described).add_argument
    add("--old", metavar="COMMIT", help="the old end (default: the first good commit of git bisect)")
    add("--new", metavar="COMMIT", help="the new end (default: the first bad commit of git bisect)")
    options.add_program(described)
    add = described.add_argument_group("decision").add_argument
    add(
        "--confidence",
        metavar="P",
        type=float,
        help=f"the probability that an answer needs {options.show_default('bisect.confidence')}",
    )
    add(
        "--measurements",
        metavar="N",
        type=options.count,
        help=f"maximum for one commit {options.show_default('bisect.maximum_measurements')}",
    )
    options.add_suites(described, report=False)
    return described


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    try:
        with options.report_errors() as outcome:
            given = parser().parse_args(argv)
            settings = options.load_settings(given, _overrides(given))
            return bisectrun(settings, underway(Path.cwd()))
    except Exception:  # noqa: BLE001 - git would interpret 1, the exit code of a defect in Python, as bad
        traceback.print_exc()
        return stop_code(_DEFECT)
    return stop_code(outcome.exit_code)


def _overrides(given: argparse.Namespace) -> Mapping[str, object]:
    return {
        "testbed": given.testbed,
        "store": given.store,
        "bisect.old": given.old,
        "bisect.new": given.new,
        "bisect.confidence": given.confidence,
        "bisect.maximum_measurements": given.measurements,
        **options.of_program(given),
        **options.of_suites(given),
    }


def stop_code(code: int) -> int:
    """Return the exit code for an error, changed so that it stops git bisect run."""
    return code if code == errors.EXIT_INTERRUPTED else STOPPED + code


def bisectrun(settings: Settings, checkout: Underway) -> int:
    """Judge the commit and print the verdict; return the exit code."""
    settings = in_checkout(settings, checkout.checkout)
    job = scope.job_name("bisectrun", settings)
    marked = ""
    with builds.open_builds(settings.project, log=console.warn) as product:
        if checkout.refs:
            product.repository.fetch(*checkout.refs)
        old, new = _ends(product.repository, settings, checkout)
        commit = product.repository.commit(checkout.commit)
        if commit.hash in (old, new):
            judged = SideVerdict(CommitSide.OLD if commit.hash == old else CommitSide.NEW, "it is that end")
        else:
            chosen = scope.choose_scope(settings, product.profile)
            marked = "SIMULATED: " if chosen.spec.simulated and chosen.keys else ""
            plan = single_step_runner.SingleStepPlan.of(
                chosen, product, range_around(old, commit.hash, new), job=job
            )
            judged = single_step_runner.judge_commit(plan, product, show_step)
    message = f'{marked}{commit.hash[:HASH]} "{line(commit.subject)}" {_describe(judged)}'
    if judged.side in (CommitSide.UNKNOWN, CommitSide.NONE):
        console.warn(message)
    console.print_verdict(message)
    return _CODES[judged.side]


def _describe(judged: SideVerdict) -> str:
    text = _WORDS[judged.side]
    if not math.isnan(judged.confidence):
        text += f", with a probability of {format_probability(judged.confidence)}"
    if judged.reason:
        text += f": {line(judged.reason)}"
    visible = span(judged.smallest_visible.values())
    return f"{text}; one of {visible} would probably have been shown" if visible else text


def _ends(repository: Repository, settings: Settings, checkout: Underway) -> tuple[str, str]:
    """Return the whole hashes of both ends.

    :raises UsageError: if one is unknown, or both are the same.
    """
    wanted = settings.bisect
    old, new = (
        repository.resolve_name(given) if given else found
        for given, found in ((wanted.old, checkout.old), (wanted.new, checkout.new))
    )
    if old is None or new is None:
        raise errors.UsageError(
            f"no {'old' if old is None else 'new'} end is known; give git one good and one bad commit, "
            "or give --old COMMIT and --new COMMIT"
        )
    if old == new:
        raise errors.UsageError(f"both ends are the commit {old[:HASH]}; name two")
    if repository.is_ancestor(new, old):
        # Not swapped here: git would interpret the exit codes the wrong way round.
        raise errors.UsageError(
            f"the old end is newer than the new one; give --old {line(wanted.new or new[:HASH])} "
            f"and --new {line(wanted.old or old[:HASH])}"
        )
    return old, new


if __name__ == "__main__":
    sys.exit(main())

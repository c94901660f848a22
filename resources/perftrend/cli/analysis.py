"""Judge the newest run in the store, or a given one, and write the report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from perftrend import COMMAND, errors
from perftrend.cli import options
from perftrend.model import Run
from perftrend.report.mails import delivery
from perftrend.report.run_judgement import format_moment, judge_run
from perftrend.store import Store


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    described = options.Parser(
        "analysis",
        __doc__,
        examples=[
            "./run analysis --testbed 2n-clx --specification team.yaml",
            "./run --with cluster analysis --testbed 2n-clx --cluster tcp://scheduler:8786",
        ],
    )
    add = described.add_argument_group("run").add_argument
    add("--testbed", metavar="NAME", help=f"the testbed {options.show_default('testbed')}")
    add("--job", metavar="NAME", help="the job whose run is judged (default: that of the newest run)")
    add("--build", metavar="N", type=options.count, help="the run of that job (default: the newest)")
    add("--as-of", metavar="DATE", help="judge as on this day, with the results of that time")
    add = options.add_analysis(described).add_argument
    add(
        "--formula",
        choices=["jumpavg-0.4", "jumpavg-0.1"],
        help=f"the description length of --method mdl {options.show_default('analysis.formula')}",
    )
    add(
        "--samples",
        choices=["runs", "trials"],
        help=f"whether mdl uses averages of runs, or all trials {options.show_default('analysis.samples')}",
    )
    add(
        "--outliers",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="separate single bad runs from the groups (default: yes)",
    )
    add = described.add_argument_group("workers").add_argument
    add(
        "--workers",
        metavar="N",
        type=options.count,
        help="processes that evaluate the traces (default: one on each core, up to 8, from 512 traces on)",
    )
    add("--cluster", metavar="ADDRESS", help="the dask scheduler whose workers evaluate them")
    add = options.add_files(described, archive=False).add_argument
    add("--specification", metavar="FILE", help="YAML file with the tests, their thresholds and owners")
    add("--json", metavar="FILE", type=Path, help="also write the report as JSON; - for standard output")
    return described


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    with options.report_errors() as outcome:
        given = parser().parse_args(argv)
        overrides = {
            "analysis.formula": given.formula,
            "analysis.samples": given.samples,
            "analysis.outliers": given.outliers,
            "analysis.specification": given.specification,
            "analysis.job": given.job,
            "analysis.build": given.build,
            "analysis.as_of": given.as_of,
            "analysis.workers": given.workers,
            "analysis.cluster": given.cluster,
        }
        settings = options.settings(given, overrides)
        as_of = settings.analysis.as_of
        with delivery.report_failure(settings), Store.open(settings.store, create=False) as store:
            run = choose_run(
                store,
                settings.testbed,
                job=settings.analysis.job,
                build=settings.analysis.build,
                as_of=as_of,
            )
            elsewhere = f"testbed {settings.testbed} was requested; this run was measured on {run.testbed}"
            notices = [elsewhere] if run.testbed != settings.testbed else []
            outcome.exit_code = judge_run(
                settings, store, run, notices=notices, as_of=as_of, json_file=given.json
            )
    return outcome.exit_code


def choose_run(
    store: Store,
    testbed: str,
    *,
    job: str | None = None,
    build: int | None = None,
    as_of: datetime | None = None,
) -> Run:
    """Return the newest matching run of a testbed that is not an experiment and had finished by a given time.

    Experiments are judged if the build is named, or if the store has no other run.

    A named build is judged on the testbed that it was measured on, which may be the fallback of the requested
    testbed.

    :param job: the job of the run; None for any job.
    :param build: the number of the run in that job; None for its newest.
    :raises UsageError: if the store has no such run, or a build is given without its job.
    """
    if build and not job:
        raise errors.UsageError(f"--build {build}: builds are counted by job; add --job NAME")
    runs = store.runs(testbed)
    fitting = [run for run in runs if job in (None, run.job) and build in (None, run.build)]
    if not build:
        fitting = [run for run in fitting if not run.experiment] or fitting
    if job and build and not fitting:
        elsewhere = store.run(job, build)
        fitting = [elsewhere] if elsewhere else []
    if not fitting and not runs:
        raise errors.UsageError(
            f"the store has no run of testbed {testbed}; "
            f"measure one first: {COMMAND} trending --testbed {testbed}"
        )
    if not fitting:
        raise errors.UsageError(
            f"the store has no run {f'{job}/{build}' if build else f'of job {job} on testbed {testbed}'}; "
            "did it end before it was stored?"
        )
    finished = [run for run in fitting if as_of is None or run.finished <= as_of]
    if not finished:
        first = min(run.finished for run in fitting)
        raise errors.UsageError(
            f"--as-of: no run of testbed {testbed} had finished by then; "
            f"the first did at {format_moment(first)}"
        )
    return finished[-1]


if __name__ == "__main__":
    sys.exit(main())

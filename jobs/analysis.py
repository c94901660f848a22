"""Judge the newest run in the store, and write the report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Sequence

from jobs import _options as options
from perftrend import errors, report
from perftrend.analysis import Criteria, Method, Significance, evaluate_all
from perftrend.model import Outcome, Run, TraceKey, Verdict
from perftrend.settings import Settings
from perftrend.store import Store

METHODS = {
    Method.MDL: "groups of minimum description length",
    Method.THREE_SIGMA: "three-sigma rule",
}
"""What the report calls them."""


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    described = options.Parser(prog="./run analysis", description=__doc__)
    options.add_common(described)
    options.add_analysis(described)
    return described


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    given = parser().parse_args(argv)
    with errors.reported() as outcome:
        settings = options.settings(given, {})
        with Store.open(settings.store) as store:
            outcome.exit_code = judge(settings, store, newest_run(store, settings.testbed))
    return outcome.exit_code


def newest_run(store: Store, testbed: str) -> Run:
    """Return the newest run of a testbed. :raises UsageError: if the store has none."""
    runs = store.runs(testbed, last=1)
    if not runs:
        raise errors.UsageError(
            f"the store has no run of testbed {testbed}; "
            f"measure one first: ./run trending --testbed {testbed}"
        )
    return runs[-1]


def judge(
    settings: Settings,
    store: Store,
    run: Run,
    *,
    expected: Collection[TraceKey] | None = None,
    new_runs: int = 1,
    notices: Sequence[str] = (),
) -> int:
    """Evaluate a run against the history, write the report, and return the exit code.

    :param expected: the traces that the run should have; by default those of the job's run before.
    :param new_runs: how many of the newest runs nobody has judged before.
    """
    series = store.series(run.testbed, last=settings.analysis.history, until=run)
    criteria = Criteria(
        method=Method(settings.analysis.method),
        window=settings.analysis.window,
        week_runs=settings.analysis.week_runs,
        new_runs=new_runs,
        significance=Significance(minimum_change=settings.analysis.minimum_change),
    )
    verdicts = evaluate_all(series, run=run, expected=expected, criteria=criteria)
    page = report.write(
        settings.report,
        verdicts,
        run=run,
        method=METHODS[criteria.method],
        window=settings.analysis.window,
        notices=notices,
        results=store.results(run),
    )
    report.terminal_table(verdicts, stream=sys.stdout)
    print(f"report: {page}")
    return exit_code(verdicts)


def exit_code(verdicts: Collection[Verdict]) -> int:
    """Return what a job ends with: a regression outweighs a test without a result.

    Source: "Continuous Performance Trending and Analysis", section Anomaly Detection.
    """
    outcomes = {verdict.outcome for verdict in verdicts}
    if Outcome.REGRESSION in outcomes:
        return errors.EXIT_REGRESSION
    if outcomes & {Outcome.FAILED, Outcome.MISSING, Outcome.NOT_VALID}:
        return errors.EXIT_TESTBED
    return errors.EXIT_PASS


if __name__ == "__main__":
    sys.exit(main())

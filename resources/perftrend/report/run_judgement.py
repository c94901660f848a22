"""The judgement of a run against the history: its verdicts, the report, the mails and the exit code."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path

from perftrend import console, errors, report
from perftrend.analysis import Criteria, Method, Significance, evaluate_all, series_known_at
from perftrend.analysis.cycles import explain_by_cycles
from perftrend.analysis.families import SharedChange, find_shared_changes
from perftrend.analysis.reference import explain_shared_changes, judge_by_reference
from perftrend.execution import selection
from perftrend.execution.selection import CurrentWatchlist
from perftrend.execution.workers import EvaluationWorkers
from perftrend.model import REFERENCE, Outcome, Run, Series, TraceKey, Verdict, reported_change
from perftrend.report.mails import delivery, reportable
from perftrend.report.references import References
from perftrend.report.texts import describe_environment, describe_shared_change
from perftrend.settings import AnalysisSettings, Settings
from perftrend.store import Store
from perftrend.store.verdicts import RunVerdict
from perftrend.watchlist import WatchlistEntry

STANDARD_OUTPUT = Path("-")


def judge_run(
    settings: Settings,
    store: Store,
    run: Run,
    *,
    expected: Collection[TraceKey] | None = None,
    new_runs: int = 1,
    notices: Sequence[str] = (),
    as_of: datetime | None = None,
    json_file: Path | None = None,
) -> int:
    """Evaluate a run against the history, write the report, and return the exit code.

    :param expected: the traces that the run should have; by default those of the job's previous run.
    :param new_runs: the number of newest runs that have not been judged before.
    :param notices: notices for readers of the report.
    :param as_of: the analysis time: runs that had not finished by then are ignored; None for now.
    :param json_file: also receives the report as JSON; ``-`` for standard output.
    """
    if json_file and json_file != STANDARD_OUTPUT and (json_file.is_dir() or not json_file.parent.is_dir()):
        raise errors.UsageError(f"--json {json_file}: name a file in a folder that exists")

    @cache
    def watched_until(newest: Run) -> CurrentWatchlist:
        return selection.choose_traces(
            settings,
            newest,
            series=_series(settings, store, newest, as_of),
            results=store.results(run) if newest == run else (),
            expected=expected if newest == run else (),
            names=store.renames.names(),
        )

    watched = watched_until(run)

    @cache
    def evaluated(at: Run, new_runs: int, without: tuple[Run, ...]) -> tuple[Verdict, ...]:
        known = watched if at.started <= run.started else watched_until(at)
        with EvaluationWorkers(settings.analysis.workers, settings.analysis.cluster or "") as workers:
            verdicts = evaluate_all(
                known.series if at == run and not without else _series_until(known.series, at, without),
                run=at,
                expected=known.expected if at == run else (),
                criteria=criteria_of(settings.analysis, new_runs),
                minimum_changes={
                    key: entry.minimum_change
                    for key, entry in known.entries.items()
                    if entry.minimum_change is not None
                },
                mapped=workers.map,
            )
        reference = {kind: trend.until(at.started) for kind, trend in known.reference.items()}
        judged = [judge_by_reference(verdict, reference) for verdict in verdicts]
        return tuple(
            _with_owners(verdict, known.entries, settings.mail.lab)
            for verdict in explain_by_cycles(judged, _series_until(known.cycles, at, without))
        )

    def evaluate(at: Run, *, new_runs: int = 1, without: Collection[Run] = ()) -> tuple[Verdict, ...]:
        return evaluated(at, new_runs, tuple(without))

    verdicts = evaluate(run, new_runs=new_runs)
    families = _shared_changes(watched, run)
    notices = [*notices, *watched.notices, *_number_notice(store, run), *_time_notice(as_of)]
    page = report.write(
        settings.report,
        verdicts,
        run=run,
        method=_method(settings),
        window=settings.analysis.window,
        notices=notices,
        results=watched.results,
        families=families,
        settings=settings,
    )
    if json_file:
        _copy(page.with_name("report.json"), json_file)
    if json_file != STANDARD_OUTPUT:
        _print(verdicts, families, settings, page)
        console.print_verdict(f"{run.name}: {report.sentence(verdicts)}")
    code = exit_code(verdicts, unstable=settings.analysis.regression == "unstable")
    if as_of is not None:
        return code
    store.verdicts.save(run, RunVerdict.of(verdicts, judged=datetime.now(UTC)))
    if run.experiment not in {"", REFERENCE}:
        return code
    mailed = delivery.write_and_send(
        settings,
        partial(reportable, evaluate),
        run=run,
        runs=lambda: _runs_known_to(watched, run, store),
        notices=[*notices, *(describe_shared_change(each) for each in families if each.is_new)],
        new_runs=new_runs,
    )
    return code or mailed


def _environments(verdicts: Sequence[Verdict], settings: Settings) -> Iterator[str]:
    """Yield once for each pair of builds around new changes what else differs between them."""
    references, named = References(settings), set()
    for verdict in verdicts:
        change = reported_change(verdict)
        if change is None or change.position >= len(verdict.series.runs):
            continue
        found = references.change(change, verdict)
        text = describe_environment(found.environment)
        if text and (found.before.number, found.after.number) not in named:
            named.add((found.before.number, found.after.number))
            yield f"between builds {found.before} and {found.after}, {text}"


def _print(
    verdicts: Sequence[Verdict], families: Sequence[SharedChange], settings: Settings, page: Path
) -> None:
    """Print the table, changes that many traces share, what else changed, and the report's address."""
    report.terminal_table(verdicts, stream=sys.stdout)
    for change in families:
        console.print_text(
            f"{describe_shared_change(change)}; between {change.last_good.name} and "
            f"{change.first_changed.name}{'' if change.is_new else ', reported before'}"
        )
    for text in _environments(verdicts, settings):
        console.print_text(text)
    console.print_text(f"report: {page}")


def exit_code(verdicts: Collection[Verdict], *, unstable: bool = False) -> int:
    """Return the exit code of a job: a regression takes precedence over a testbed that fails or has changed.

    :param unstable: whether a regression makes the job unstable instead of failing it.

    Source: "Continuous Performance Trending and Analysis", section Anomaly Detection.
    """
    outcomes = {verdict.outcome for verdict in verdicts}
    if Outcome.REGRESSION in outcomes:
        return errors.EXIT_UNSTABLE if unstable else errors.EXIT_REGRESSION
    if outcomes & {Outcome.TESTBED, Outcome.FAILED, Outcome.MISSING, Outcome.NOT_VALID}:
        return errors.EXIT_TESTBED
    return errors.EXIT_PASS


def _series(settings: Settings, store: Store, run: Run, as_of: datetime | None) -> list[Series]:
    series = store.series(run.testbed, last=settings.analysis.history, until=run)
    if as_of is None:
        return series
    known = [series_known_at(one, as_of) for one in series]
    return [one for one in known if one.runs]


def _runs_known_to(watched: CurrentWatchlist, run: Run, store: Store) -> list[Run]:
    """Return the runs of a testbed, except earlier ones than the run that were stored during the analysis."""
    known = {_identity(each) for one in watched.series for each in one.runs}
    return [
        each for each in store.runs(run.testbed) if each.started > run.started or _identity(each) in known
    ]


def _series_until(series: Collection[Series], run: Run, without: Collection[Run]) -> list[Series]:
    """Return the series up to and including a run, without some runs."""
    ended = run.started, run.build
    unknown = {_identity(each) for each in without}
    known = [
        one.at(
            [
                index
                for index, each in enumerate(one.runs)
                if (each.started, each.build) <= ended and _identity(each) not in unknown
            ]
        )
        for one in series
    ]
    return [one for one in known if one.runs]


def _identity(run: Run) -> tuple[str, int, datetime]:
    return run.job, run.build, run.started


def criteria_of(chosen: AnalysisSettings, new_runs: int = 1) -> Criteria:
    """Return the parameters of the evaluation that settings describe.

    :param new_runs: the number of newest runs that have not been judged before.
    """
    return Criteria(
        method=Method(chosen.method),
        window=chosen.window,
        formula=chosen.formula,
        outliers=chosen.outliers,
        trials=chosen.samples == "trials",
        week_runs=chosen.week_runs,
        new_runs=new_runs,
        significance=Significance(minimum_change=chosen.minimum_change),
    )


def _shared_changes(watched: CurrentWatchlist, run: Run) -> list[SharedChange]:
    """Return the changes that traces of runs of this kind share."""
    own = [one for one in watched.series if one.key.experiment == run.experiment]
    return list(explain_shared_changes(find_shared_changes(own), watched.reference))


def _with_owners(
    verdict: Verdict, entries: Mapping[TraceKey, WatchlistEntry], lab: tuple[str, ...]
) -> Verdict:
    """Return a verdict with the persons responsible: for the testbed, those of the lab."""
    if verdict.outcome is Outcome.TESTBED and lab:
        return replace(verdict, owners=lab, mail=lab)
    entry = entries[verdict.series.key]
    return replace(verdict, owners=entry.owners, mail=entry.mail)


def _method(settings: Settings) -> str:
    """Return the name of the method in the report."""
    chosen = settings.analysis
    if Method(chosen.method) is Method.THREE_SIGMA:
        return "three-sigma rule"
    if chosen.samples == "trials":
        seen = ", all trials of each run"
    else:
        seen = "" if chosen.outliers else ", single bad runs included"
    return f"groups of minimum description length ({chosen.formula}{seen})"


def _number_notice(store: Store, run: Run) -> list[str]:
    earlier = [each for each in store.executions(run) if each.started < run.started]
    if not earlier:
        return []
    before = format_moment(earlier[-1].started)
    return [f"{run.job} restarted its numbering: the run of {before} is also number {run.build}"]


def _time_notice(as_of: datetime | None) -> list[str]:
    return [f"as of {format_moment(as_of)}, with the results known then"] if as_of else []


def format_moment(moment: datetime) -> str:
    """Return a time in UTC, to the minute."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _copy(document: Path, file: Path) -> None:
    text = document.read_text(encoding="utf-8")
    if file == STANDARD_OUTPUT:
        sys.stdout.write(text)
    else:
        file.write_text(text, encoding="utf-8")

"""Enters archived outputs into the store, completely or not at all.

An archived run is described in a file of its own, which is removed after the store has the run. Runs left
over after a full disk, an unavailable store or a kill are thus found by the next start, and none is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from perftrend.archive.reader import Output, Sources, Unknown
from perftrend.archive.source import name_of
from perftrend.errors import ArchiveError, UnstorableError
from perftrend.files import hold_lock
from perftrend.model import Result, Run, TraceKey

if TYPE_CHECKING:  # reading alone should not import the libraries of the database
    from perftrend.store import Store


OUTPUT = "output.xml"
UNSTORED_MARK = "not-stored.json"
LOCK = ".lock"
"""Held by the process that enters the marked runs of a job's folder."""

_RUN = TypeAdapter(Run)


@dataclass(frozen=True, slots=True)
class OutputIngestion:
    """The result of ingesting an output."""

    run: Run
    """The run as it was stored: missing fields are completed from the output."""
    results: tuple[Result, ...]
    added: bool
    """False if the store already had this run, which is then unchanged."""
    unknown: Mapping[str, Unknown] = field(default_factory=dict, hash=False)
    """Unknown parts of the output, by their form."""
    unsupported: frozenset[TraceKey] = frozenset()
    """The traces of tests that were skipped because the testbed cannot run them."""


def ingest(store: Store, run: Run, source: Sources) -> OutputIngestion:
    """Read an output and enter its results into the store, in one transaction.

    :param run: the run of the output. Versions are completed from the tests' messages; a run with a
        simulated test is a simulated run.
    :param source: as for :func:`read_output`.
    :raises ArchiveError: if the output is damaged, contains no performance test, or is of another testbed
        than the run; the store is unchanged.
    :raises StoreError: if the store cannot be written; it is unchanged.
    """
    name = _name(source)
    output = Output(source, testbed=run.testbed)
    results = without_doubles(output)
    if not results and output.unsupported:
        raise ArchiveError(
            f"{name}: testbed {run.testbed} supports none of the tests; choose others by their tags"
        )
    if not results:
        raise ArchiveError(f"{name}: contains no performance test; do its tests have the tag MRR or NDRPDR?")
    for result in results:
        if result.key["testbed"] != run.testbed:
            raise ArchiveError(
                f"{name}: test {result.key['test']} was run on testbed {result.key['testbed']}, "
                f"but run {run.name} is of {run.testbed}"
            )
    run = replace(
        run,
        experiment=run.experiment or output.experiment,
        environment=run.environment or output.environment,
        versions={**output.versions, **run.versions},
        simulated=run.simulated or output.simulated,
        suites_started=output.started,
        suites_finished=output.finished,
    )
    results = of_experiment(results, run.experiment)
    unsupported = frozenset(key.of_experiment(run.experiment) for key in output.unsupported)
    return OutputIngestion(run, results, store.add(run, results), output.unknown, unsupported)


def _name(source: Sources) -> str:
    """Return the name of a source for messages; of several files, the first."""
    if isinstance(source, (list, tuple)):
        return f"{name_of(source[0])}, …" if source else "no file"
    return name_of(source)


def of_experiment(results: Iterable[Result], experiment: str) -> tuple[Result, ...]:
    """Assign the results of an experiment to separate traces; those of a nightly run are unchanged.

    :param experiment: see :class:`perftrend.model.Run`.
    """
    return tuple(replace(result, key=result.key.of_experiment(experiment)) for result in results)


def without_doubles(results: Iterable[Result]) -> tuple[Result, ...]:
    """Return one result per trace, invalid if there are several: it is unknown which one counts."""
    by_trace: dict[TraceKey, Result] = {}
    for result in results:
        doubt = "the output holds several tests of this name in this suite" if result.key in by_trace else ""
        by_trace[result.key] = replace(result, invalid=doubt) if doubt else result
    return tuple(by_trace.values())


def mark_unstored(archive: Path, run: Run) -> None:
    """Mark an archive folder with its run, which is not in the store yet."""
    (archive / UNSTORED_MARK).write_bytes(_RUN.dump_json(run, indent=1))


def store_pending(
    store: Store, folder: Path, *, report: Callable[[str], None] = lambda _: None
) -> Iterator[OutputIngestion]:
    """Enter the marked runs of a job's folder into the store, in the order of their builds.

    Jobs of the same name, on a testbed with several instances, wait for each other.

    :param report: called for a run that cannot be read, or that no store can hold: it stays archived, and is
        not tried again.
    :raises StoreError: if the store cannot be written; the runs stay marked.
    """
    if not folder.is_dir():
        return
    with hold_lock(folder / LOCK):
        try:
            yield from _store_marked(store, folder, report)
        finally:
            # A job that waits for it notices, and locks a new one.
            (folder / LOCK).unlink(missing_ok=True)


def _store_marked(store: Store, folder: Path, report: Callable[[str], None]) -> Iterator[OutputIngestion]:
    marks = folder.glob(f"*/{UNSTORED_MARK}")
    for path in sorted(marks, key=lambda path: (len(path.parent.name), path.parent.name)):
        try:
            run = _RUN.validate_json(path.read_bytes())
            ingestion = ingest(store, run, path.parent / OUTPUT)
        except (ArchiveError, UnstorableError, ValidationError) as error:
            report(f"{path.parent}: the run is archived, but cannot be stored: {error}")
        else:
            yield ingestion
        path.unlink()

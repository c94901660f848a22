"""Puts an archived output into the store: all of it or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from perftrend.archive.reading import Output, Sources, Unknown
from perftrend.archive.source import name_of
from perftrend.errors import ArchiveError
from perftrend.model import Result, Run, TraceKey

if TYPE_CHECKING:  # reading alone shall not have to load a database's libraries
    from perftrend.store import Store


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of an output."""

    run: Run
    """The run as it was stored: what it did not say of itself is taken from the output."""
    results: tuple[Result, ...]
    added: bool
    """False if the store already had this run; it is then as it was before."""
    unknown: Mapping[str, Unknown] = field(default_factory=dict, hash=False)
    """What of the output was not understood, by its form."""


def ingest(store: Store, run: Run, source: Sources) -> Ingested:
    """Read an output and put its results into the store, in one transaction.

    :param run: which run it is. Versions are completed from the tests' messages; a run with a
        simulated test is a simulated run.
    :param source: as :func:`read_output` takes it.
    :raises ArchiveError: if the output is damaged, holds no performance test, or is of another
        testbed than the run; the store is as it was before.
    :raises StoreError: if the store cannot be written; it is as it was before.
    """
    name = _name(source)
    output = Output(source, testbed=run.testbed)
    results = without_doubles(output)
    if not results:
        raise ArchiveError(f"{name}: holds no performance test; have its tests the tag MRR or NDRPDR?")
    for result in results:
        if result.key["testbed"] != run.testbed:
            raise ArchiveError(
                f"{name}: test {result.key['test']} was run on testbed {result.key['testbed']}, "
                f"but run {run.name} is of {run.testbed}"
            )
    run = replace(
        run,
        experiment=run.experiment or output.experiment,
        versions={**output.versions, **run.versions},
        simulated=run.simulated or output.simulated,
        suites_started=output.started,
        suites_finished=output.finished,
    )
    results = of_experiment(results, run.experiment)
    return Ingested(run, results, store.add(run, results), output.unknown)


def _name(source: Sources) -> str:
    """Return what messages call a source; of several files, the first."""
    if isinstance(source, (list, tuple)):
        return f"{name_of(source[0])}, …" if source else "no file"
    return name_of(source)


def of_experiment(results: Iterable[Result], experiment: str) -> tuple[Result, ...]:
    """Give the results of an experiment to traces of their own; those of a nightly run stay as they are.

    :param experiment: see :class:`perftrend.model.Run`.
    """
    return tuple(replace(result, key=result.key.of_experiment(experiment)) for result in results)


def without_doubles(results: Iterable[Result]) -> tuple[Result, ...]:
    """Keep one result per trace, not valid where there are several: which one counts is unknown."""
    kept: dict[TraceKey, Result] = {}
    for result in results:
        doubt = "the output holds several tests of this name in this suite" if result.key in kept else ""
        kept[result.key] = replace(result, invalid=doubt) if doubt else result
    return tuple(kept.values())

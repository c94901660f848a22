"""From fetched files to a run in the store: which run it is, and all of its results or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from perftrend.archive import patch_report
from perftrend.archive.fetch import unpack
from perftrend.archive.fetch.choice import Kind
from perftrend.archive.ingest import of_experiment, without_doubles
from perftrend.archive.reading import Output, Unknown
from perftrend.archive.results import UNKNOWN
from perftrend.errors import ArchiveError
from perftrend.model import Result, Run, TraceKey
from perftrend.store import Store


@dataclass(frozen=True, slots=True)
class Claim:
    """What is known of a run before its output was read."""

    job: str
    build: int
    archive: str = ""
    """Where the run's files lie: a path or a URL."""
    started: datetime | None = None
    finished: datetime | None = None
    testbed: str = ""
    """What a person says it is. An output that says something else is refused."""
    likely_testbed: str = ""
    """What the job's name says: it counts where the output says nothing."""
    version: str = ""
    """Of the archive, as its source lists it; empty if that is not known."""

    @property
    def name(self) -> str:
        """``job/build``."""
        return f"{self.job}/{self.build}"


@dataclass(frozen=True, slots=True)
class Readable:
    """A file that was fetched."""

    path: Path
    name: str
    """What messages call it."""


@dataclass(frozen=True, slots=True)
class Entered:
    """What became of a run."""

    testbed: str
    results: int
    added: bool
    """False if the store had it."""
    unknown: Mapping[str, Unknown] = field(default_factory=dict, hash=False)
    """What of the files was not understood, by its form."""
    ended: bool = True
    """False: it is a per-patch test in progress."""


def enter(
    store: Store, claim: Claim, files: Sequence[Readable], maximum_bytes: int, kind: Kind = Kind.OUTPUT
) -> Entered:
    """Read the files of one run or per-patch test and put its results into the store, in one transaction.

    :param maximum_bytes: what one file may unpack to.
    :param kind: what the files hold.
    :raises ArchiveError: if a file is damaged or refused, they hold no performance test, or it stays
        unknown on which testbed or when they ran; the store is as it was before.
    :raises StoreError: if the store cannot be written; it is as it was before.
    """
    if kind is Kind.PATCH:
        return _enter_patch(store, claim, files[0], maximum_bytes)
    name = files[0].name
    output = Output(
        [unpack.stream(file.path, file.name, maximum_bytes) for file in files], testbed=claim.testbed
    )
    results = [_placed(result, claim.likely_testbed) for result in output]
    if not results:
        raise ArchiveError(f"{name}: holds no performance test; have its tests the tag MRR or NDRPDR?")
    run = _run(claim, _testbed(results, claim, name), output, name)
    added = store.add(run, of_experiment(without_doubles(results), run.experiment), version=claim.version)
    return Entered(run.testbed, len(results), added, output.unknown)


def _enter_patch(store: Store, claim: Claim, report: Readable, maximum_bytes: int) -> Entered:
    most = min(maximum_bytes, patch_report.MOST_BYTES)
    content = unpack.stream(report.path, report.name, most).read()
    test, traces = patch_report.parse(
        content, job=claim.job, build=claim.build, name=report.name, archive=claim.archive
    )
    if claim.testbed and test.testbed != claim.testbed:
        raise ArchiveError(
            f"{report.name}: was run on testbed {test.testbed}, but --testbed says {claim.testbed}"
        )
    added = store.patch_tests.add(test, traces, version=claim.version)
    return Entered(test.testbed, len(traces), added, ended=test.ended)


def _placed(result: Result, likely_testbed: str) -> Result:
    """Put a result on the testbed that the job's name tells, where the output tells none."""
    if not likely_testbed or result.key["testbed"] != UNKNOWN:
        return result
    return replace(result, key=TraceKey.of(**result.key.as_dict() | {"testbed": likely_testbed}))


def _testbed(results: Iterable[Result], claim: Claim, name: str) -> str:
    found = sorted({result.key["testbed"] for result in results})
    if len(found) > 1:
        raise ArchiveError(f"{name}: was run on several testbeds, {', '.join(found)}; a run is of one")
    [testbed] = found
    if testbed == UNKNOWN:
        raise ArchiveError(
            f"{name}: does not say on which testbed it was run, "
            f"and job {claim.job!r} names none; give --testbed"
        )
    if claim.testbed and testbed != claim.testbed:
        raise ArchiveError(f"{name}: was run on testbed {testbed}, but --testbed says {claim.testbed}")
    return testbed


def _run(claim: Claim, testbed: str, output: Output, name: str) -> Run:
    started = claim.started or output.started or output.finished
    finished = claim.finished or output.finished or output.started
    if started is None or finished is None:
        raise ArchiveError(f"{name}: does not say when it was run, and neither does its source")
    return Run(
        testbed=testbed,
        job=claim.job,
        build=claim.build,
        started=started,
        finished=finished,
        versions=output.versions,
        archive=claim.archive,
        simulated=output.simulated,
        suites_started=output.started,
        suites_finished=output.finished,
        experiment=output.experiment,
    )

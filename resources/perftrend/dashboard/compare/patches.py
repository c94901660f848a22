"""What per-patch tests found, as their reports in the archive tell it, or those that Jenkins keeps.

Nothing that somebody types becomes a part of a path: the archive is listed, and what was typed is looked for
in that list.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from perftrend.analysis.ratios import noise_of_samples
from perftrend.dashboard.compare.fetching import MOST_BYTES, fetched, named
from perftrend.errors import ArchiveError, UsageError, nearest
from perftrend.model import Better, TraceKey
from perftrend.settings import JenkinsSettings

FORMAT = "perftrend-perftest-1"
REPORT = Path("report") / "perftest.json"
MOST_LISTED = 50
"""The newest builds of all jobs together that are offered."""
_MOST_LOOKED_AT = 500
_MOST_TESTS = 2000
_JOB = re.compile(r"[\w.-]{1,200}")
_BUILD = re.compile(r"[1-9][0-9]{0,8}")


class _Told(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class _Round(_Told):
    round: int
    samples: list[float | None]


class _Observed(_Told):
    rounds: list[_Round]


class _Test(_Told):
    test: str
    unit: str
    better: str
    finding: str
    parent: _Observed
    current: _Observed


class _Report(_Told):
    format: str
    sentence: str
    testbed: str
    simulated: bool
    parent: str
    patch: str
    change: int | None
    patch_set: int | None
    page: str | None
    tests: list[_Test]


@dataclass(frozen=True, slots=True)
class Build:
    """A build that measured a patch set."""

    job: str
    number: int
    finished: datetime
    """When its report was written, UTC; of one that Jenkins has, when it was fetched."""
    file: Path = Path()
    """Where it lies in the archive."""

    @property
    def name(self) -> str:
        """``job/build``: what it is chosen by."""
        return f"{self.job}/{self.number}"


@dataclass(frozen=True, slots=True)
class Sampled:
    """What one of the builds of the product gave for one test."""

    value: float
    """The average of all samples; NaN where there are none."""
    error: float
    """Its relative standard error; NaN where that is not known."""
    freedom: int
    samples: int


@dataclass(frozen=True, slots=True)
class PatchTest:
    """One test of a patch set."""

    test: str
    unit: str
    better: Better
    finding: str
    """What the per-patch test itself says of it."""
    parent: Sampled
    current: Sampled


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch set that was measured."""

    build: Build
    sentence: str
    testbed: str
    simulated: bool
    parent: str
    """The commits, as whole hashes."""
    commit: str
    change: int | None
    patch_set: int | None
    page: str
    tests: tuple[PatchTest, ...]


def builds(archive: Path, *, most: int = MOST_LISTED) -> list[Build]:
    """Return the builds that have a report, the newest first."""
    found = sorted(_builds(archive), key=lambda build: (build.finished, build.name), reverse=True)
    return found[:most]


def read_patch(archive: Path, name: str, *, jenkins: JenkinsSettings | None = None) -> Patch:
    """Return what a build found.

    :param name: ``job/build``, as somebody typed it.
    :param jenkins: where builds are looked for that the archive has not; with an address.
    :raises UsageError: if there is no such build with a report.
    :raises ArchiveError: if its report cannot be read.
    :raises ServiceError: if Jenkins refuses, fails, or has no such report.
    """
    known = {build.name: build for build in _builds(archive)}
    build = known.get(name)
    if build:
        report = _read(build.file)
    elif jenkins and jenkins.url:
        job, number = named(name, str(jenkins.url).rstrip("/"))
        content, at = fetched(jenkins, job, number)
        build, report = Build(job, number, at), _parsed(content)
    else:
        raise UsageError(
            f"the archive has no report of {name[:100]!r}{nearest(name, list(known)[:MOST_LISTED])}"
        )
    if report.format != FORMAT:
        raise ArchiveError(f"the report of {name} is of another format than {FORMAT}; upgrade perftrend")
    return Patch(
        build=build,
        sentence=report.sentence,
        testbed=report.testbed,
        simulated=report.simulated,
        parent=report.parent,
        commit=report.patch,
        change=report.change,
        patch_set=report.patch_set,
        page=report.page if report.page and report.page.startswith(("http://", "https://")) else "",
        tests=tuple(
            PatchTest(
                each.test,
                each.unit,
                Better.LOWER if each.better == Better.LOWER else Better.HIGHER,
                each.finding,
                _sampled(each.parent),
                _sampled(each.current),
            )
            for each in report.tests[:_MOST_TESTS]
        ),
    )


def traces_of(
    names: Sequence[str], keys: Mapping[int, TraceKey], *, former: Mapping[str, str] | None = None
) -> list[int | None]:
    """Return the trace that each test of a report belongs to; None where none or several can be meant.

    A report names a test alone where that says enough. It names the metric behind it and the suite before it
    where tests have several, and of a search for both rates it has PDR only.

    :param keys: the traces of the testbed, by their places.
    :param former: current names of tests by former ones, which an older report has.
    """
    tests_of: dict[str, list[str]] = {}
    for old, new in (former or {}).items():
        tests_of.setdefault(new, []).append(old)
    meant: dict[str, list[int]] = {}
    for place, key in keys.items():
        parameters = key.as_dict()
        test, metric, suite = (parameters.get(name, "") for name in ("test", "metric", "suite"))
        tests = (test, *tests_of.get(test, ()))
        for name in {*tests, *(f"{suite}.{each}" for each in tests)}:
            meant.setdefault(name, []).append(place)
            meant.setdefault(f"{name} {metric}", []).append(place)
    return [_only(meant.get(name, []), keys) for name in names]


def _only(places: Sequence[int], keys: Mapping[int, TraceKey]) -> int | None:
    if len(places) > 1:
        metrics = {keys[place].as_dict().get("metric", ""): place for place in places}
        # NDR and PDRs of one search: the report has PDR.
        return metrics["pdr"] if len(places) == len(metrics) and {"ndr", "pdr"} <= metrics.keys() else None
    return places[0] if places else None


def _builds(archive: Path) -> Iterator[Build]:
    """Yield the newest builds of each job that have a report; links are not followed."""
    for job in _folders(archive, _JOB):
        numbers = sorted((int(folder.name) for folder in _folders(job, _BUILD)), reverse=True)
        for number in numbers[:_MOST_LOOKED_AT]:
            file = job / str(number) / REPORT
            try:
                told = file.lstat()
            except OSError:
                continue
            if not file.is_symlink() and not file.parent.is_symlink():
                yield Build(job.name, number, datetime.fromtimestamp(told.st_mtime, UTC), file)


def _folders(folder: Path, form: re.Pattern[str]) -> Iterator[Path]:
    try:
        entries = list(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        if form.fullmatch(entry.name) and not entry.is_symlink() and entry.is_dir():
            yield entry


def _read(file: Path) -> _Report:
    try:
        with file.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
    except OSError:
        raise ArchiveError("the report cannot be read; is it still in the archive?") from None
    if len(content) > MOST_BYTES:
        raise ArchiveError(f"the report is larger than {MOST_BYTES} bytes, which no per-patch test writes")
    return _parsed(content)


def _parsed(content: bytes) -> _Report:
    try:
        return _Report.model_validate_json(content)
    except ValidationError:
        raise ArchiveError("the report is broken; let the per-patch test write it again") from None


def _sampled(observed: _Observed) -> Sampled:
    """Return the average of all rounds; rounds are starts of the product, so their course is the noise."""
    rounds = [[sample for sample in each.samples if sample is not None] for each in observed.rounds]
    rounds = [samples for samples in rounds if samples]
    samples = [sample for each in rounds for sample in each]
    if not samples:
        return Sampled(math.nan, math.nan, 0, 0)
    several = len(rounds) > 1
    error, freedom = noise_of_samples([float(np.mean(each)) for each in rounds] if several else samples)
    return Sampled(float(np.mean(samples)), error, freedom, len(samples))

"""Results of per-patch tests, from the store or from the reports on Jenkins.

A build on Jenkins is selected by its name or its address. Only its report is requested, from the Jenkins in
the settings. Reports do not change, so the most recently used ones are cached in memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

import numpy as np

from perftrend.analysis.ratios import noise_of_samples
from perftrend.archive import patch_report
from perftrend.archive.patch_report import MOST_BYTES
from perftrend.clients.jenkins import connect
from perftrend.clients.jenkins.builds import job_path
from perftrend.errors import ArchiveError, UsageError, nearest
from perftrend.model import TraceKey, Trials
from perftrend.settings import JenkinsSettings
from perftrend.store import Store
from perftrend.store.verdicts import PatchTest, PatchTrace

MOST_LISTED = 50
"""Maximum number of tests that are offered; the newest ones."""
_BUILD = re.compile(r"(.{1,255})/([1-9][0-9]{0,8})", re.ASCII)
_PATCH_SET = re.compile(r"([1-9][0-9]{0,8})/([1-9][0-9]{0,5})", re.ASCII)
REPORT = "artifact/report/perftest.json"
"""Path of the report in a build on Jenkins."""
_CACHE_SIZE = 16
_PATIENCE_S = 10.0
"""Maximum time that a page waits for a server that does not respond."""
_NAME = re.compile(r"([\w.-]{1,100}(?:/[\w.-]{1,100}){0,5})/([1-9][0-9]{0,8})", re.ASCII)
_ADDRESS = re.compile(r"((?:job/[^/?#]+/)+)([1-9][0-9]{0,8})(?:/.*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class PatchSamples:
    """Result of one build of the product for one test."""

    value: float
    """Average of all samples; NaN if there are none."""
    error: float
    """Its relative standard error; NaN if unknown."""
    freedom: int
    samples: int


@dataclass(frozen=True, slots=True)
class ComparedTest:
    """One test of a patch set."""

    trace: PatchTrace
    parent: PatchSamples
    current: PatchSamples


@dataclass(frozen=True, slots=True)
class Patch:
    """A measured patch set."""

    test: PatchTest
    tests: tuple[ComparedTest, ...]


def read_patch(store: Store, name: str, *, jenkins: JenkinsSettings | None = None) -> Patch:
    """Return the results of a per-patch test.

    :param name: ``job/build``, or ``change/patch set`` for the newest test of a patch set; if Jenkins has an
        address, also the address of the build.
    :param jenkins: the Jenkins to search for builds that the store does not have.
    :raises UsageError: if the test does not exist, or is marked as invalid.
    :raises ArchiveError: if the report that Jenkins has is broken.
    :raises ServiceError: if Jenkins refuses, fails, or has no such report.
    """
    test = _find_patch_test(store, name)
    if test is None and jenkins and jenkins.url:
        job, number = parse_build(name, str(jenkins.url).rstrip("/"))
        test = store.patch_tests.of_build(job, number)
        if test is None:
            content = fetch_report(jenkins, job, number)
            fetched_test, traces = patch_report.parse(content, job=job, build=number, name=f"{job}/{number}")
            return _patch(fetched_test, traces)
    if test is None:
        known = [each.name for each in store.patch_tests.newest(MOST_LISTED)]
        raise UsageError(f"the store has no per-patch test {name[:100]!r}{nearest(name, known)}")
    if test.invalid:
        raise UsageError(f"per-patch test {test.name} is marked as invalid: {test.invalid}")
    return _patch(test, store.patch_tests.traces(test))


def traces_of(
    names: Sequence[str], keys: Mapping[int, TraceKey], *, former: Mapping[str, str] | None = None
) -> list[int | None]:
    """Return the trace that each test of a report belongs to; None if no trace or several traces match.

    A report contains only the name of a test if that is unique. If tests have several metrics, the metric
    follows the name, and if they have several suites, the suite precedes it. For a search for both rates, the
    report contains only PDR.

    :param keys: the traces of the testbed, by their places.
    :param former: current names of tests by the former names in older reports.
    """
    tests_of: dict[str, list[str]] = {}
    for old, new in (former or {}).items():
        tests_of.setdefault(new, []).append(old)
    meant: dict[str, list[int]] = {}
    for place, key in keys.items():
        if key.is_optional:
            continue  # Builds are compared by the rates of a test.
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
        # NDR and PDR of one search: the report has PDR.
        return metrics["pdr"] if len(places) == len(metrics) and {"ndr", "pdr"} <= metrics.keys() else None
    return places[0] if places else None


def patch_name(test: PatchTest) -> str:
    """Return the display name of the patch."""
    if test.change:
        return f"change {test.change}, patch set {test.patch_set}"
    return f"patch {test.patch[:12]}"


def _find_patch_test(store: Store, name: str) -> PatchTest | None:
    build, patch_set = _BUILD.fullmatch(name), _PATCH_SET.fullmatch(name)
    found = store.patch_tests.of_build(build[1], int(build[2])) if build else None
    if found is None and patch_set:
        found = store.patch_tests.of_patch_set(int(patch_set[1]), int(patch_set[2]))
    return found


def _patch(test: PatchTest, traces: Sequence[PatchTrace]) -> Patch:
    valid = (each for each in traces if not each.invalid)
    return Patch(
        test,
        tuple(
            ComparedTest(each, _average_rounds(each.parent), _average_rounds(each.current)) for each in valid
        ),
    )


def _average_rounds(rounds: Trials) -> PatchSamples:
    """Return the average of all rounds; the noise is that between rounds, which are starts of the product."""
    rounds = tuple(samples for samples in rounds if samples)
    samples = [sample for each in rounds for sample in each]
    if not samples:
        return PatchSamples(math.nan, math.nan, 0, 0)
    several = len(rounds) > 1
    error, freedom = noise_of_samples([float(np.mean(each)) for each in rounds] if several else samples)
    return PatchSamples(float(np.mean(samples)), error, freedom, len(samples))


def parse_build(text: str, jenkins: str) -> tuple[str, int]:
    """Return the job and the number of a build that a user entered.

    :param text: ``folder/job/7``, or the address of the build.
    :param jenkins: the address of the Jenkins.
    :raises UsageError: if it is neither.
    """
    address = _ADDRESS.fullmatch(text.removeprefix(f"{jenkins}/")) if text.startswith(f"{jenkins}/") else None
    if address:
        parts = address[1].removeprefix("job/").removesuffix("/").split("/job/")
        text = f"{'/'.join(map(unquote, parts))}/{address[2]}"
    found = _NAME.fullmatch(text)
    if not found:
        raise UsageError(
            f"patch set {text[:100]!r}: enter the job and the number of the build, "
            f"such as perftrend-perftest-2n-clx/7, or its address at {jenkins}"
        )
    return found[1], int(found[2])


@lru_cache(maxsize=_CACHE_SIZE)
def fetch_report(settings: JenkinsSettings, job: str, number: int) -> bytes:
    """Return the report of a build.

    :raises ArchiveError: if it is larger than ``MOST_BYTES``.
    :raises ServiceError: if Jenkins refuses, fails, or has no such report.
    """
    patience = {"timeout_s": min(settings.timeout_s, _PATIENCE_S), "attempts": 1}
    jenkins = connect(settings.model_copy(update=patience))
    content = bytearray()
    with jenkins.open(f"{jenkins.url}/{job_path(job)}/{number}/{REPORT}") as chunks:
        for chunk in chunks:
            content += chunk
            if len(content) > MOST_BYTES:
                raise ArchiveError(
                    f"the report is larger than {MOST_BYTES} bytes, so it is not from a per-patch test"
                )
    return bytes(content)

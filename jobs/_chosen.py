"""What a job that compares builds measures: the testbed, the tests, and the place in the archive."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jobs import _options as options
from jobs.trending import usable_testbed
from perftrend import builds, errors
from perftrend.builds import Builds, Profile
from perftrend.keywords import selection
from perftrend.listener import estimate
from perftrend.measure import specification
from perftrend.measure.specification import Specification
from perftrend.model import TraceKey
from perftrend.settings import Settings
from perftrend.settings.sections import ProjectSettings


@dataclass(frozen=True, slots=True)
class Chosen:
    """The testbed and the tests."""

    settings: Settings
    """With the testbed that is used."""
    spec: Specification
    keys: frozenset[TraceKey]
    """What the suites measure; empty where the product's profile has a command that does."""
    notices: tuple[str, ...] = ()
    """What a reader of the report must be told."""

    def extent(self, job: str) -> str:
        """Say what is measured, and how long that takes."""
        if not self.keys:
            return "the command of the product's profile"
        count = len(estimate.tests(self.keys))
        takes = estimate.told(job, self.keys, self.spec, self.settings)
        tests = "1 test" if count == 1 else f"{count} tests"
        return f"{tests} on {self.spec.name}, {takes}"


@contextmanager
def opened(settings: Settings, project: ProjectSettings) -> Iterator[tuple[Chosen, Builds]]:
    """Choose the testbed and the tests, then open the builds, which makes a mirror of the repository."""
    found = chosen(settings, builds.profile_of(project))
    with builds.opened(project, log=options.warn) as product:
        yield found, product


def chosen(settings: Settings, profile: Profile) -> Chosen:
    """Choose the testbed and the tests.

    :raises UsageError: if there is no test, or there are too many.
    :raises TestbedError: if the testbed cannot be had here, nor what its file names instead.
    """
    if profile.measure is not None:
        return Chosen(settings, specification.load(settings.testbed, settings.testbeds), frozenset())
    settings, spec, notices = usable_testbed(settings.for_builds)
    return Chosen(settings, spec, selected(settings, spec), tuple(notices))


def selected(settings: Settings, spec: Specification) -> frozenset[TraceKey]:
    """Return what the suites measure on a testbed.

    :raises UsageError: if there is no test, or there are too many.
    """
    keys = selection.select(
        settings.suites or options.SUITES,
        settings.expressions,
        testbed=spec.name,
        tags=selection.tags_of(spec, settings),
    )
    count, most = len(estimate.tests(keys)), settings.trigger.maximum_tests
    if count > most:
        raise errors.UsageError(
            f"{count} tests are selected, and at most {most} may be; choose fewer by tags"
        )
    return keys


def how(settings: Settings, product: Builds) -> dict[str, str]:
    """Return what changes values beside builds and tests: what was measured otherwise does not count."""
    return {
        "profile": f"{product.profile.name} {product.profile.hash}",
        "measuring": product.profile.model_dump_json(include={"install", "device_options", "measure"}),
        "device_options": str(sorted(settings.device_options.items())),
        "trial": settings.trial.model_dump_json(),
        "search": settings.search.model_dump_json(),
        "soak": settings.soak.model_dump_json(),
    }


def archive_of(settings: Settings, job: str) -> Path:
    """Return a job's folder in the archive."""
    return settings.archive / re.sub(r"^\.+|[^\w.-]+", "-", job)


def build_number(folder: Path, *, resume: bool, begun: int | None = None) -> int:
    """Return Jenkins's build number, or else the next one that the archive has not.

    :param folder: the job's folder in the archive.
    :param resume: whether the newest one in the archive is gone on with.
    :param begun: one in the archive that is known to be this very build.
    """
    given = os.environ.get("BUILD_NUMBER", "")
    if given.isdecimal():
        return int(given)
    if begun is not None:
        return begun
    newest = newest_build(folder)
    if resume and not newest:
        raise errors.UsageError(f"--resume: {folder} has no build to go on with")
    return newest if resume else newest + 1


def newest_build(folder: Path) -> int:
    """Return the newest build of a job's folder in the archive; 0 where there is none."""
    return max((int(entry.name) for entry in folder.glob("[0-9]*") if entry.name.isdecimal()), default=0)

"""Measurements of builds on a locked testbed, by the suites or by the command of the product's profile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from jobs import _options as options
from perftrend.builds import Builds, Built
from perftrend.errors import ArchiveError, TestbedError
from perftrend.keywords import execution, measuring_builds, selection
from perftrend.measure import lock
from perftrend.measure.specification import Specification
from perftrend.model import Measured, TraceKey
from perftrend.perftest import NOT_VALID
from perftrend.settings import Settings

_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Measuring:
    """Measurements of builds, each in a folder of its own."""

    product: Builds
    suites: measuring_builds.Suites
    folder: Path
    """The root of the places of measurements."""

    def measure(self, built: Built, place: str) -> Measured:
        """Install a build and measure it once, unless the archive has the measurement.

        :param place: its last part is the number of the measurement of this build, from 1.

        :raises BuildError: if the build cannot be installed.
        :raises ArchiveError: if the archive has a measurement of another commit in this place.
        :raises TestbedError: if Robot Framework could not run.
        """

        def once(staging: Path) -> Measured:
            self.product.install(built)
            if self.product.profile.measure is not None:
                return self.product.measure(built, int(target.name))
            return self.suites.measure(built.commit, built.device_options, staging)

        target = self.folder / place
        measured = measuring_builds.measured_once(target, once)
        if measured.commit != built.commit:
            raise ArchiveError(f"{target} belongs to another commit; remove it to measure it again")
        return replace(measured, archive=place)

    def trusted(self, built: Built, next_place: Callable[[], str]) -> Measured:
        """Measure a build, and repeat that if a result is not valid, which is not a failure of the build.

        A test without a valid result is left out.

        :raises TestbedError: if no test has a valid result.
        """
        attempts = 0
        while attempts < _ATTEMPTS:
            place = next_place()
            attempts += not (self.folder / place).exists()
            measured = self.measure(built, place)
            doubtful = {test: why for test, why in measured.failed.items() if why.startswith(NOT_VALID)}
            if not doubtful:
                return measured
            test, why = next(iter(doubtful.items()))
            reason = " ".join(f"{test}: {why}".split())
            options.say(f"  {built.commit[:12]}: {len(doubtful)} of the tests cannot be trusted ({reason})")
        if not (kept := without_doubtful(measured)):
            raise TestbedError(
                f"{built.commit[:12]} gave no valid result in {_ATTEMPTS} attempts ({reason}); "
                "fix the testbed and run the same command again to resume"
            )
        return kept


def without_doubtful(measured: Measured) -> Measured | None:
    """Leave out the tests whose results are not valid; return None if no other test is left."""
    failed = {test: why for test, why in measured.failed.items() if not why.startswith(NOT_VALID)}
    return replace(measured, failed=failed) if measured.values or failed else None


@contextmanager
def held(
    settings: Settings,
    spec: Specification,
    product: Builds,
    names: Mapping[TraceKey, str],
    *,
    folder: Path,
    owner: str,
) -> Iterator[Measuring]:
    """Lock a testbed, and yield an object that measures builds on it.

    :param names: the tests of the suites, see :func:`measuring_builds.names_of`.
    :param folder: receives the files of all measurements.
    :param owner: the job, shown to others that wait for the testbed.
    :raises TestbedError: if the testbed cannot be acquired.
    """
    with lock.held(
        spec.lock, capacity=spec.places, wait_s=settings.wait_s, owner=owner, say=options.warn
    ) as place:
        suites = measuring_builds.Suites(
            settings,
            settings.suites or options.SUITES,
            spec.name,
            selection.tags_of(spec, settings),
            execution.Held(spec.lock, place),
            names,
        )
        yield Measuring(product, suites, folder)

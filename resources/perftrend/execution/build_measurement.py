"""Measurements of builds on a locked testbed, by the suites or by the command of the product's profile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from perftrend import console
from perftrend.builds import Builds, BuiltCommit
from perftrend.errors import ArchiveError, TestbedError
from perftrend.execution import robot, selection, suite_measurement
from perftrend.measure import lock
from perftrend.measure.specification import Specification
from perftrend.model import NOT_VALID, BuildMeasurement, TraceKey
from perftrend.settings import Settings

_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class BuildMeasurements:
    """Measurements of builds, each in a folder of its own."""

    product: Builds
    suites: suite_measurement.Suites
    folder: Path
    """The root of the places of measurements."""

    def measure(self, built: BuiltCommit, place: str) -> BuildMeasurement:
        """Install a build and measure it once, unless the archive has the measurement.

        :param place: its last part is the number of the measurement of this build, from 1.

        :raises BuildError: if the build cannot be installed.
        :raises ArchiveError: if the archive has a measurement of another commit in this place.
        :raises TestbedError: if Robot Framework could not run.
        """

        def once(staging: Path) -> BuildMeasurement:
            self.product.install(built)
            if self.product.profile.measure is not None:
                return self.product.measure(built, int(target.name))
            return self.suites.measure(built.commit, built.device_options, staging)

        target = self.folder / place
        measured = suite_measurement.measure_once(target, once)
        if measured.commit != built.commit:
            raise ArchiveError(f"{target} belongs to another commit; remove it to measure it again")
        return replace(measured, archive=place)

    def measure_until_valid(self, built: BuiltCommit, next_place: Callable[[], str]) -> BuildMeasurement:
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
            console.print_text(
                f"  {built.commit[:12]}: {len(doubtful)} of the tests cannot be trusted ({reason})"
            )
        if not (valid := without_doubtful(measured)):
            raise TestbedError(
                f"{built.commit[:12]} gave no valid result in {_ATTEMPTS} attempts ({reason}); "
                "fix the testbed and run the same command again to resume"
            )
        return valid


def without_doubtful(measured: BuildMeasurement) -> BuildMeasurement | None:
    """Leave out the tests whose results are not valid; return None if no other test is left."""
    failed = {test: why for test, why in measured.failed.items() if not why.startswith(NOT_VALID)}
    return replace(measured, failed=failed) if measured.values or failed else None


@contextmanager
def lock_testbed(
    settings: Settings,
    spec: Specification,
    product: Builds,
    names: Mapping[TraceKey, str],
    *,
    folder: Path,
    owner: str,
) -> Iterator[BuildMeasurements]:
    """Lock a testbed, and yield an object that measures builds on it.

    :param names: the tests of the suites, see :func:`suite_measurement.names_of`.
    :param folder: receives the files of all measurements.
    :param owner: the job, shown to others that wait for the testbed.
    :raises TestbedError: if the testbed cannot be acquired.
    """
    with lock.hold(
        spec.lock, capacity=spec.places, wait_s=settings.wait_s, owner=owner, report=console.warn
    ) as place:
        suites = suite_measurement.Suites(
            settings,
            settings.suites or selection.SUITES,
            spec.name,
            selection.tags_of(spec, settings),
            robot.LockReference(spec.lock, place),
            names,
        )
        yield BuildMeasurements(product, suites, folder)

"""Measurements of builds on a locked testbed, by the suites or by the command of the product's profile.

The chosen suites, run once on one build, give one ``BuildMeasurement``. Each measurement has a folder of its
own, with all output of Robot Framework and with the results. The folder gets its name when it is complete, so
that a job that was killed and is started again reads the existing measurements and makes only the missing
ones.

How much runs of a test differ while nothing changes is known from the history in the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from perftrend import console
from perftrend.analysis import noise, partition
from perftrend.archive import Output
from perftrend.archive.ingestion import OUTPUT, without_doubles
from perftrend.builds import Builds, BuiltCommit
from perftrend.errors import ArchiveError, BuildError, NoNumbersError, TestbedError
from perftrend.execution import robot, selection
from perftrend.execution.robot import LockReference, run_suites
from perftrend.files import stage_folder
from perftrend.measure.specification import Specification
from perftrend.model import NOT_VALID, BuildMeasurement, MetricSamples, Result, Series, Status, TraceKey
from perftrend.settings import Settings

RECORD = "measured.json"
"""The file with the results in a measurement's folder."""


_MEASURED = TypeAdapter(BuildMeasurement)
_LAST_LINES = 5
_ATTEMPTS = 3
_FEWEST_RUNS = 10
"""Fewer runs carry less information about the noise than the rounds themselves."""


@dataclass(frozen=True, slots=True)
class Suites:
    """The suites of a job, which are run repeatedly, each time with another build."""

    settings: Settings
    """Its tags choose the tests."""
    suites: Path
    testbed: str
    tags: Sequence[str]
    """Set on every test."""
    held: LockReference
    """The testbed's lock."""
    names: Mapping[TraceKey, str]
    """The names of the traces to measure: see :func:`names_of`."""

    def measure(self, commit: str, device_options: Mapping[str, str], folder: Path) -> BuildMeasurement:
        """Run the suites once on a build.

        :param commit: the commit that is installed, or that the device options start.
        :param device_options: they make the device run that build; the user's own override them.
        :param folder: receives the files; it exists.
        :raises TestbedError: if Robot Framework could not run.
        """
        settings = self.settings.model_copy(
            update={"device_options": {**device_options, **self.settings.device_options}}
        )
        metadata = {"Testbed": self.testbed, "Commit": commit}
        started = datetime.now(UTC)
        in_time = run_suites(
            settings, folder, suites=self.suites, metadata=metadata, tags=self.tags, held=self.held
        )
        results = without_doubles(Output(folder / OUTPUT, testbed=self.testbed))
        values, failed = classify_results(
            results, self.names, ended_after_s=None if in_time else self.settings.timeout_s
        )
        return BuildMeasurement(commit, started, datetime.now(UTC), values, failed)


def measure_once(target: Path, measure: Callable[[Path], BuildMeasurement]) -> BuildMeasurement:
    """Return the measurement in a folder; make it if it does not exist.

    :param target: the folder; it is complete or does not exist.
    :param measure: gets the folder to fill, under a temporary name.
    :raises ArchiveError: if the folder exists, but does not contain a valid result.
    """
    record = target / RECORD
    if target.exists():
        try:
            return _MEASURED.validate_json(record.read_bytes())
        except (OSError, ValidationError):
            raise ArchiveError(
                f"{record} is not a valid measurement; remove {target} to measure it again"
            ) from None
    with stage_folder(target) as staging:
        measured = measure(staging)
        (staging / RECORD).write_bytes(_MEASURED.dump_json(measured, indent=1))
    return measured


def names_of(keys: Collection[TraceKey]) -> dict[TraceKey, str]:
    """Return the names of the traces that a comparison of builds uses, sorted by name.

    For a search for NDR and PDR only PDR is compared. A test has its metric after its name if it has
    several left, and its suite before its name if another suite has a test of the same name.

    Source: "Bisecting", section Bisect jobs, for PDR.
    """
    tests = {_test(key) for key in keys}
    both = {_test(key) for key in keys if key["metric"] == "pdr"}
    compared = [key for key in keys if _test(key) not in both or key["metric"] == "pdr"]
    namesakes = Counter(name for _, name in tests)
    metrics = Counter(_test(key) for key in compared)
    named = {}
    for key in compared:
        suite, name = _test(key)
        before = f"{suite}." if suite and namesakes[name] > 1 else ""
        behind = f" {key['metric']}" if metrics[suite, name] > 1 else ""
        named[key] = f"{before}{name}{behind}"
    return dict(sorted(named.items(), key=lambda item: item[1]))


def classify_results(
    results: Collection[Result], names: Mapping[TraceKey, str], *, ended_after_s: float | None = None
) -> tuple[dict[str, MetricSamples], dict[str, str]]:
    """Sort results into valid values, and reasons for missing ones.

    :param names: the traces to measure; others are ignored.
    :param ended_after_s: the time-out, if it ended the suites.
    :returns: both by name, in the order of the names.
    """
    known = {result.key: result for result in results}
    values, failed = {}, {}
    for key, name in names.items():
        result = known.get(key)
        if result and result.usable and result.samples:
            values[name] = MetricSamples(result.samples, result.unit, result.better)
        elif ended_after_s is not None:
            # It is not known which test was slow, or whether the build was.
            failed[name] = f"{NOT_VALID}the suites were ended after {ended_after_s:g} s"
        else:
            failed[name] = _reason(result)
    return values, failed


def _reason(result: Result | None) -> str:
    if result is None:
        return "the output has no result of it"
    if result.status is Status.PASS:
        return f"{NOT_VALID}{result.invalid or 'it measured nothing'}"
    lines = list(_last_lines(result.message))
    return "\n".join(lines) or f"the test ended as {result.status}"


def _last_lines(message: str) -> Iterator[str]:
    lines = [line.rstrip() for line in message.splitlines() if line.strip()]
    yield from lines[-_LAST_LINES:]


def _test(key: TraceKey) -> tuple[str, str]:
    parameters = key.as_dict()
    return parameters.get("suite", ""), parameters["test"]


@dataclass(slots=True)
class NumbersCheck:
    """Ends a job whose command prints no numbers, whatever the commit.

    Otherwise, it would fail with each commit in turn. Such a measurement is not archived.
    """

    old: str
    """The commit that others are compared with; its command ends with 0 only if it has printed numbers."""
    other: Callable[[str], BuiltCommit]
    """Returns another build than that of a commit, to see whether the command works at all."""
    has_numbers: bool = False
    """Whether a build gave numbers."""

    def require(self, product: Builds, measured: BuildMeasurement) -> None:
        """Check the last measurement by the command of the profile.

        :raises NoNumbersError: if the command gives no numbers for any build.
        """
        failure = product.failure
        if self.has_numbers or not measured.failed or failure is None:
            self.has_numbers |= bool(measured.values)
            return
        is_certain = failure.has_ended and measured.commit == self.old
        if not is_certain and self._works_elsewhere(product, measured.commit):
            self.has_numbers = True
            return
        raise NoNumbersError(
            f"nothing can be compared, because the command printed no numbers for {measured.commit[:12]}: "
            f"{failure.reason}",
            last_lines=failure.last_lines,
        )

    def _works_elsewhere(self, product: Builds, commit: str) -> bool:
        try:
            other = self.other(commit)
        except BuildError:
            return True  # the job reports that
        return bool(product.measure(other, 1).values)


@dataclass(frozen=True, slots=True)
class BuildMeasurements:
    """Measurements of builds, each in a folder of its own."""

    product: Builds
    suites: Suites
    folder: Path
    """The root of the places of measurements."""
    numbers: NumbersCheck

    def measure(self, built: BuiltCommit, place: str) -> BuildMeasurement:
        """Install a build and measure it once, unless the archive has the measurement.

        :param place: its last part is the number of the measurement of this build, from 1.

        :raises BuildError: if the build cannot be installed.
        :raises NoNumbersError: if the command of the profile gives no numbers for any build.
        :raises ArchiveError: if the archive has a measurement of another commit in this place.
        :raises TestbedError: if Robot Framework could not run, or the lock of the testbed is lost.
        """

        def once(staging: Path) -> BuildMeasurement:
            held = self.suites.held
            held.verify()
            try:
                self.product.install(built, held.ssh() if self.product.profile.installs_by_ssh else ())
            except BuildError:
                held.verify()
                raise
            if self.product.profile.measure is not None:
                measured = self.product.measure(built, int(target.name))
                self.numbers.require(self.product, measured)
                return measured
            measured = self.suites.measure(built.commit, built.device_options, staging)
            # Otherwise tests that failed because the testbed was lost would count against the build.
            held.verify()
            return measured

        target = self.folder / place
        measured = measure_once(target, once)
        self.numbers.has_numbers |= bool(measured.values)
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
    numbers: NumbersCheck,
    folder: Path,
    owner: str,
) -> Iterator[BuildMeasurements]:
    """Lock a testbed, and yield an object that measures builds on it.

    :param names: the tests of the suites, see :func:`names_of`.
    :param folder: receives the files of all measurements.
    :param owner: the job, shown to others that wait for the testbed.
    :raises TestbedError: if the testbed cannot be acquired.
    """
    with robot.hold_testbed(spec, owner=owner, wait_s=settings.wait_s, is_measured=bool(names)) as held:
        suites = Suites(
            settings,
            settings.suites or selection.SUITES,
            spec.name,
            selection.tags_of(spec, settings),
            held,
            names,
        )
        yield BuildMeasurements(product, suites, folder, numbers)


def read_deviations(settings: Settings, testbed: str, names: Mapping[TraceKey, str]) -> dict[str, float]:
    """Return the standard deviation between runs in per cent, by test, for those with a history.

    A store that does not exist is not created.

    :raises StoreError: if the store cannot be read.
    """
    if not names:
        return {}
    from perftrend.store import Store  # noqa: PLC0415 - a command of a profile needs no database

    if not Store.may_be_there(settings.store):
        return {}
    with Store.open(settings.store) as store:
        current = store.renames.names().current
        names = {current(key): name for key, name in names.items()}
        history = store.series(testbed, last=settings.analysis.history, keys=names)
    return dict(_deviations(history, names, settings.analysis.formula))


def _deviations(
    history: list[Series], names: Mapping[TraceKey, str], formula: str
) -> Iterator[tuple[str, float]]:
    for series in history:
        if series.key not in names:
            continue
        groups = partition(series.samples, formula=formula).groups
        found = noise([result.samples if result.usable else () for result in series.results], groups)
        level = groups[-1].mean if groups else 0.0
        if found.runs >= _FEWEST_RUNS and level > 0 and found.between > 0:
            yield names[series.key], 100 * found.between / level

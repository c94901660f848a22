"""Builds commits of a product, caches the results, installs and measures them.

Every build has its own checkout, separate from all others. Its artifacts are cached by commit and by
build configuration, so that each commit is built only once for all users.
"""

from __future__ import annotations

import copy
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from perftrend.builds import commands, numbers, templates
from perftrend.builds.cache import BuildCache, BuiltCommit, modification_time
from perftrend.builds.cancellation import Stop, StoppedError
from perftrend.builds.observation import Observer
from perftrend.builds.profile import load
from perftrend.builds.tables import Profile
from perftrend.builds.work import Work
from perftrend.clients.git import Address, Repository, folders
from perftrend.clients.git.file_locks import acquire
from perftrend.errors import BuildError, SettingsError, TestbedError
from perftrend.model import BuildMeasurement
from perftrend.settings import ProjectSettings

_LOGS_PER_BUILD = 10
_LOOK_AGAIN_S = 0.1
"""The interval of the checks whether another process has finished the build that is waited for."""
_MORE_THAN_A_MOMENT = 2
"""Checks that find the lock held: the holder is then not one that only checks for eviction."""


def _log_nothing(_: str) -> None:
    """Log nothing."""


def profile_of(project: ProjectSettings) -> Profile:
    """Return the profile in the settings.

    :raises SettingsError: if none is set, or it is not valid.
    """
    if project.profile is None:
        raise SettingsError("no product is chosen; set project.profile to the name of a profile")
    return load(project.profile, project.profiles, project.parameters)


def open_builds(project: ProjectSettings, *, log: Callable[[str], None] = _log_nothing) -> Builds:
    """Open the builds of the settings: the profile, a mirror of the repository, the folder.

    :raises SettingsError: if no profile or no repository is set, or one is not valid.
    :raises ServiceError: if fetching from the repository fails.
    """
    profile = profile_of(project)
    source = project.repository or profile.repository
    if source is None:
        raise SettingsError(
            f"profile {profile.name} names no repository; set project.repository to its URL or path"
        )
    name = hashlib.sha256(Address.of(source).url.encode()).hexdigest()[:16]
    repository = Repository.mirror(source, project.builds / "mirrors" / f"{name}.git")
    return Builds(profile, repository, project.builds, maximum=project.maximum_builds, log=log)


class Builds:
    """The builds of one product.

    A returned build is in use, and not removed, until this object is closed or its process ends.

    :param repository: the source of the commits.
    :param folder: contains the cached builds, and the logs; other processes may use it too.
    :param maximum: the number of builds that are cached.
    :param log: receives progress messages, in lines.
    """

    def __init__(
        self,
        profile: Profile,
        repository: Repository,
        folder: Path,
        maximum: int = 50,
        log: Callable[[str], None] = _log_nothing,
    ) -> None:
        self.profile = profile
        self.repository = repository
        self.folder = folder.resolve()
        self._cache = BuildCache(self.folder, maximum)
        self._log = log
        self._failed: dict[str, BuildError] = {}
        self._in_use: dict[str, int] = {}
        self._stop: Stop | None = None
        one_core = profile.measure is not None and profile.measure.cores == "one"
        self._observer = Observer(one_core=one_core, warn=lambda line: log(f"{profile.name}: {line}"))

    def __enter__(self) -> Builds:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release all builds in use; may be called more than once."""
        while self._in_use:
            _, holding = self._in_use.popitem()
            os.close(holding)

    def until(self, stop: Stop) -> Builds:
        """Return the same builds for a caller that can do without.

        A build is ended when ``stop`` is set, and a build by another process is not waited
        for: both raise StoppedError.
        """
        stoppable = copy.copy(self)
        stoppable._stop = stop
        return stoppable

    def is_cached(self, commit: str) -> bool:
        """Return whether a commit is cached, and its build takes almost no time."""
        return self._cache.files(self._key(commit)).is_dir()

    def log_of(self, commit: str, step: str = "build") -> Path:
        """Return the log file with the output of the commands of a step; it may not exist."""
        return self._work(commit).log(step)

    def build(self, commit: str) -> BuiltCommit:
        """Build a commit, or return its cached build.

        If another process builds it already, wait for it. A commit that failed fails again at
        once during the lifetime of this object.

        :param commit: 40 hex digits.
        :raises UsageError: if the repository has no such commit.
        :raises BuildError: if it does not build; with the step, the log and its last lines.
        :raises TestbedError: if it does not build because of this machine.
        :raises TestbedError: if it does not build by this machine's fault.
        """
        if commit in self._failed:
            raise self._failed[commit]
        self.repository.commit(commit)
        was_made, looks = False, 0
        while (built := self._acquire_cached(commit, was_cached=not was_made)) is None:
            holding = acquire(self._cache.lock(self._key(commit)), wait=False)
            if holding is None:
                # The process that builds it now will then use it for any time: check for both.
                looks += 1
                if looks == _MORE_THAN_A_MOMENT:
                    self._wait(commit)
                time.sleep(_LOOK_AGAIN_S)
                continue
            try:
                was_made |= self._make(commit)
            except BuildError as error:
                self._failed[commit] = error
                raise
            finally:
                os.close(holding)
                self._cache.evict()
                self._remove_old_logs()
        return built

    def _wait(self, commit: str) -> None:
        """Log that another process is waited for. :raises StoppedError: if the caller can do without."""
        if self._stop:
            raise StoppedError
        self._log(f"{self._work(commit).what}: another process builds or uses it; waiting")

    def _acquire_cached(self, commit: str, *, was_cached: bool) -> BuiltCommit | None:
        """Put the cached build of a commit into use; return None if it has to be built."""
        key = self._key(commit)
        holding = self._in_use.get(key)
        if holding is None:
            holding = acquire(self._cache.lock(key), shared=True, wait=False)
            if holding is None:
                return None
        manifest = self._cache.verify(key)
        if manifest is None:
            os.close(holding)
            self._in_use.pop(key, None)
            return None
        if self._in_use.setdefault(key, holding) != holding:
            os.close(holding)  # another thread took it into use meanwhile
        self._cache.touch(key)
        folder = self._cache.files(key)
        values = self._work(commit).values(artifacts=folder)
        options = {
            name: templates.expand(value, values) for name, value in self.profile.device_options.items()
        }
        return BuiltCommit(commit, folder, options, manifest.took_s, was_cached)

    def _make(self, commit: str) -> bool:
        """Build a commit, whose lock is held, unless another process has done so; return whether it built."""
        key, work = self._key(commit), self._work(commit)
        if self._cache.verify(key) is not None:
            return False
        if self._stop:
            self._stop.check()
        with self.repository.worktree(commit, self.folder / "worktrees") as source:
            began = time.monotonic()
            self._log(f"{work.what}: building")
            values = work.values(source=source)
            try:
                work.steps("build", source).run(
                    templates.command(words, values) for words in self.profile.build
                )
            except StoppedError:
                self._log(f"{work.what}: ended, because it is not needed")
                raise
            paths = _artifacts(work, source)
            took_s = time.monotonic() - began
            self._cache.add(key, source, paths, took_s=took_s)
        self._log(f"{work.what}: built in {took_s:.0f} s")
        return True

    def install(self, built: BuiltCommit) -> None:
        """Install a build where it is measured, and verify that it is the installed one.

        :raises BuildError: if it cannot be installed, or does not identify itself, because of this commit.
        :raises TestbedError: if another commit is installed afterwards, or this machine is at fault.
        """
        install(self._work(built.commit), built.folder)

    def measure(self, built: BuiltCommit, number: int = 1) -> BuildMeasurement:
        """Measure a build by the profile's command, once, while the machine is observed.

        :param number: the number of the measurement of this build, from 1; it selects the variant.

        A command that fails, times out or prints something else than numbers is a failed test: that can
        be the very change that is searched for.

        :raises SettingsError: if the profile has no such command.
        :raises TestbedError: if this machine cannot run it.
        """
        work, place = self._work(built.commit), self.folder / "measuring"
        return measure(work, built.folder, place, self._observer, number)

    def _work(self, commit: str) -> Work:
        return Work(self.profile, commit, self.folder / "logs", self._log, self._stop)

    def _key(self, commit: str) -> str:
        return self._work(commit).key

    def _remove_old_logs(self) -> None:
        """Remove old logs; logs are retained for far more commits than builds are."""
        logs = sorted(self.folder.glob("logs/*.log"), key=modification_time)
        for path in logs[: -_LOGS_PER_BUILD * self._cache.maximum]:
            path.unlink(missing_ok=True)


def _artifacts(work: Work, source: Path) -> list[Path]:
    """Return the files to cache, relative to the checkout."""
    found: set[Path] = set()
    for pattern in work.profile.artifacts:
        files = {path.relative_to(source) for match in source.glob(pattern) for path in _files(match)}
        files = {path for path in files if path.parts[0] != ".git"}
        if not files:
            log = work.log("build")
            raise BuildError(
                f"{work.what}: the build left no file that matches {pattern}; see {log}",
                step="artifacts",
                log=str(log),
                last_lines=commands.last_lines(log),
            )
        found |= files
    return sorted(found)


def _files(path: Path) -> Iterator[Path]:
    """Yield a file, or all files below a folder, without following links to folders."""
    if path.is_file():
        yield path
    elif path.is_dir() and not path.is_symlink():
        yield from (each for each in path.rglob("*") if each.is_file())


_HASH = re.compile(r"(?<![0-9a-f])[0-9a-f]{7,40}(?![0-9a-f])")
_PADDING_BYTES = 1032
"""The environment of each variant is larger by this, which is not a multiple of a cache line or a page."""


def install(work: Work, artifacts: Path) -> None:
    """Install a build, and verify that it is the installed one.

    :raises BuildError: if it cannot be installed, or does not identify itself, because of this commit.
    :raises TestbedError: if another commit is installed afterwards, or this machine is at fault otherwise.
    """
    values = work.values(artifacts=artifacts)
    steps = work.steps("install", artifacts, allows_background=True)
    steps.run(templates.command(words, values) for words in work.profile.install)
    if work.profile.identify is None:
        return
    command = templates.command(work.profile.identify, values)
    steps = work.steps("identify", artifacts)
    hashes = _HASH.findall(steps.output(command).decode(errors="replace").lower())
    if not any(work.commit.startswith(each) for each in hashes):
        reported = f"reports {' and '.join(hashes[:3])}" if hashes else "names no commit"
        raise TestbedError(
            f"{work.what}: it was installed, but {command[0]} {reported}; "
            f"another version runs on this machine, see {steps.log}"
        )


def measure(
    work: Work, artifacts: Path, place: Path, observer: Observer, number: int = 1
) -> BuildMeasurement:
    """Measure a build by the profile's command, once.

    :param place: the folder in which the artifacts are copied for each start of the command: the files that
        it writes must not change the next start, or the cache.
    :param number: the number of the measurement of this build, from 1; it selects the variant.
    :returns: the values; or a failed test, if the command fails, times out or prints something else than
        numbers.
    :raises SettingsError: if the profile has no such command.
    :raises TestbedError: if this machine cannot run it.
    """
    measure_table = work.profile.measure
    if measure_table is None:
        raise SettingsError(f"profile {work.profile.name} is measured on a testbed; it has no command")
    variant = (number - 1) % measure_table.variants
    found, why, disturbed = {}, "", ""
    started = datetime.now(UTC)
    try:
        repetitions = []
        for _ in range(measure_table.repetitions):
            printed, disturbance = _observe(work, artifacts, place, observer, variant)
            repetitions.append(numbers.read(printed, measure_table))
            disturbed = disturbed or disturbance
        found = numbers.combine(repetitions)
    except BuildError as error:
        why = str(error)
    except ValueError as error:
        why = f"{error}; see {work.log('measure')}"
    return BuildMeasurement(
        commit=work.commit,
        started=started,
        finished=datetime.now(UTC),
        values=found,
        failed={measure_table.test: why} if why else {},
        variant=variant,
        disturbed=disturbed,
    )


def _observe(work: Work, artifacts: Path, place: Path, observer: Observer, variant: int) -> tuple[bytes, str]:
    """Return the output of the command, and what disturbed the last attempt."""
    assert work.profile.measure is not None  # noqa: S101 - checked before
    if work.profile.measure.remote:
        return _output(work, artifacts, place, nullcontext(), variant), ""
    for _ in observer.attempts():
        printed = _output(work, artifacts, place, observer.observe(), variant)
        with work.log("measure").open("a") as log:
            log.write(f"# {observer.seen}\n")
    return printed, observer.seen.disturbed


def _output(
    work: Work, artifacts: Path, place: Path, observing: AbstractContextManager[None], variant: int
) -> bytes:
    assert work.profile.measure is not None  # noqa: S101 - checked before
    with folders.own(place, f"{work.commit[:12]}-") as copy:
        shutil.copytree(artifacts, copy)
        with observing:
            # In this block the number of available cores is that of the observation.
            values = {**work.values(artifacts=copy), "variant": str(variant)}
            layout = {"LAYOUT_VARIANT": str(variant), "LAYOUT_PADDING": "." * (_PADDING_BYTES * variant)}
            steps = work.steps("measure", copy, variables=layout)
            return steps.output(templates.command(work.profile.measure.command, values))

"""Builds commits of a product, caches the results, installs and measures them.

Every build has its own checkout, separate from all others. Its artifacts are cached by commit and by
build configuration, so that each commit is built only once for all users.

The commits that will probably be needed next can be built in the background, while other work is done. A
requested build takes precedence: builds of other commits are ended. Whether a commit was built ahead affects
only the time that the request waits for it.
"""

from __future__ import annotations

import copy
import hashlib
import math
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

from perftrend import sandbox
from perftrend.analysis.instructions import InstructionDifference
from perftrend.builds import commands, valgrind
from perftrend.builds.cache import BuildCache, BuiltCommit, modification_time
from perftrend.builds.commands import Stop, StoppedError
from perftrend.builds.measurement import (
    CommandFailure,
    Work,
    compare_work,
    count_instructions,
    install,
    measure,
)
from perftrend.builds.observation import Observer
from perftrend.builds.profile import Profile, load
from perftrend.clients.git import Address, Repository
from perftrend.errors import BuildError, PerftrendError, SettingsError, explain
from perftrend.files import acquire_lock
from perftrend.model import BuildMeasurement
from perftrend.sandbox import Limits, Sandbox
from perftrend.settings import ProjectSettings

_HANGS_AFTER_S, _HANGS_AFTER_RATIO = 10.0, 20.0
"""When a start of the command hangs: after this time, if no other start took so long by this ratio."""
_LONGEST_COUNT_S = 60.0
"""Instructions are not counted if a start takes longer than this with Valgrind."""
_LOGS_PER_BUILD = 10
_SHARE_OF_MEMORY = 0.75
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
        raise SettingsError(
            "no product is chosen; set project.profile to the name of a profile, "
            "or give --measure COMMAND for a program that prints numbers"
        )
    return load(project.profile, project.profiles, project.parameters)


def open_builds(
    project: ProjectSettings, *, is_under_review: bool = False, log: Callable[[str], None] = _log_nothing
) -> Builds:
    """Open the builds of the settings: the profile, a mirror of the repository, the folder.

    :param is_under_review: whether code of a change under review is built; it runs in a sandbox, unless the
        settings trust it.
    :raises SettingsError: if no profile or no repository is set, or one is not valid; if a sandbox is
        needed and cannot be used.
    :raises ServiceError: if fetching from the repository fails.
    """
    profile = profile_of(project)
    is_confined = is_under_review and not project.trusted
    if is_confined:
        _require_sandbox(profile)
    source = project.repository or profile.repository
    if source is None:
        raise SettingsError(
            f"profile {profile.name} names no repository; set project.repository to its URL or path"
            f"{', or start this in a checkout of the program' if profile.measure else ''}"
        )
    repository = Repository.mirror(source, _mirror_folder(project, source))
    confined = _sandbox(profile, repository) if is_confined else None
    return Builds(profile, repository, project.builds, project.maximum_builds, log, sandbox=confined)


def find_mirror(project: ProjectSettings, *, timeout_s: float) -> Repository | None:
    """Return the mirror that a job has made of the repository, as it is; None if there is none.

    Nothing is fetched, so this is fast, but the mirror may lack the newest commits.

    :param timeout_s: the time that each command in it may take.
    :raises SettingsError: if the profile or the address of the repository is not valid.
    """
    source = project.repository or (profile_of(project).repository if project.profile else None)
    folder = _mirror_folder(project, source) if source else None
    return Repository.local(folder, timeout_s=timeout_s) if folder and folder.is_dir() else None


def _mirror_folder(project: ProjectSettings, source: str) -> Path:
    name = hashlib.sha256(Address.of(source).url.encode()).hexdigest()[:16]
    return project.builds / "mirrors" / f"{name}.git"


def _require_sandbox(profile: Profile) -> None:
    """Check that all code of a commit runs in a sandbox. :raises SettingsError: if not."""
    problem = ""
    if profile.install or profile.identify:
        problem = f"profile {profile.name} installs it on this machine, outside of a sandbox"
    elif profile.measure is None and "{isolated}" not in profile.device_options.values():
        problem = f"profile {profile.name} does not pass {{isolated}} to the driver of the device"
    elif reason := sandbox.unusable():
        problem = f"there is no sandbox to run it in: {reason}"
    if problem:
        raise SettingsError(
            f"the code of a change under review could read all that this job can: {problem}; "
            f"set project.trusted to true if you trust everyone who can push a change"
        )


def _sandbox(profile: Profile, repository: Repository) -> Sandbox:
    table = profile.sandbox
    memory_gib = table.memory_gib or _SHARE_OF_MEMORY * sandbox.memory_gib()
    limits = Limits(memory_gib, table.processes, table.disk_gib)
    # Builds ask git for the version of a checkout.
    readable = (repository.folder.resolve(), *(Path(each).expanduser() for each in table.readable))
    return Sandbox(limits, readable, table.network)


class Builds:
    """The builds of one product.

    A returned build is in use, and not removed, until this object is closed or its process ends.

    :param repository: the source of the commits.
    :param folder: contains the cached builds, and the logs; other processes may use it too.
    :param maximum: the number of builds that are cached.
    :param sandbox: where commits are built and measured; None: with all rights of this process.
    :param log: receives progress messages, in lines.
    """

    def __init__(
        self,
        profile: Profile,
        repository: Repository,
        folder: Path,
        maximum: int = 50,
        log: Callable[[str], None] = _log_nothing,
        *,
        sandbox: Sandbox | None = None,
    ) -> None:
        self.profile = profile
        self.repository = repository
        self.folder = folder.resolve()
        self._copies = self.folder / "measuring"
        self._cache = BuildCache(self.folder, maximum)
        self._sandbox = sandbox
        self._log = log
        self._failed: dict[str, BuildError] = {}
        self._starts_s: list[float] = []
        self.failure: CommandFailure | None = None
        """Why the last measurement has no numbers; None if it has some."""
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

    @property
    def isolation(self) -> Mapping[str, str]:
        """The options of the device's driver that isolate a build; empty if the builds are trusted."""
        isolated = {name: "yes" for name, text in self.profile.device_options.items() if text == "{isolated}"}
        return isolated if self._sandbox else {}

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
        """
        if commit in self._failed:
            raise self._failed[commit]
        self.repository.commit(commit)
        was_made, looks = False, 0
        while (built := self._acquire_cached(commit, was_cached=not was_made)) is None:
            holding = acquire_lock(self._cache.lock(self._key(commit)), wait=False)
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
            holding = acquire_lock(self._cache.lock(key), shared=True, wait=False)
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
            name: commands.expand(value, values) for name, value in self.profile.device_options.items()
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
                    commands.expand_command(words, values) for words in self.profile.build
                )
            except StoppedError:
                self._log(f"{work.what}: ended, because it is not needed")
                raise
            took_s = time.monotonic() - began
            try:
                self._cache.add(key, source, _artifacts(work, source), took_s=took_s)
            except RecursionError:
                raise _artifacts_error(work, "the build left folders that are nested too deeply") from None
            except PermissionError as error:
                if not str(error.filename).startswith(str(source)):
                    raise
                raise _artifacts_error(
                    work, f"the build left {error.filename}, which cannot be read"
                ) from None
        self._log(f"{work.what}: built in {took_s:.0f} s")
        return True

    def install(self, built: BuiltCommit, devices: Sequence[tuple[Sequence[str], str]] = ()) -> None:
        """Install a build where it is measured, and verify that it is the installed one.

        :param devices: the machines to install it on, as options of ``ssh`` and an address, if the profile
            installs by ssh.
        :raises BuildError: if it cannot be installed, or does not identify itself, because of this commit.
        :raises TestbedError: if another commit is installed afterwards, or this machine is at fault.
        """
        if self.profile.installs_by_ssh and not devices:
            raise SettingsError(f"profile {self.profile.name} installs by ssh, but no testbed is involved")
        for options, address in devices or [((), "")]:
            install(self._work(built.commit), built.folder, address, options)

    def measure(self, built: BuiltCommit, number: int = 1) -> BuildMeasurement:
        """Measure a build by the profile's command, once, while the machine is observed.

        :param number: the number of the measurement of this build, from 1; it selects the variant.

        A command that fails, times out or prints something else than numbers is a failed test: that can
        be the very change that is searched for.

        :raises SettingsError: if the profile has no such command.
        :raises TestbedError: if this machine cannot run it.
        """
        work = replace(self._work(built.commit), longest_s=self._longest_s())
        measured, self.failure = measure(work, built.folder, self._copies, self._observer, number)
        if not measured.failed:
            self.expect_durations_of([measured])
        return measured

    def expect_durations_of(self, measurements: Iterable[BuildMeasurement]) -> None:
        """Expect that a measurement takes about as long as these; those that failed are left out."""
        repetitions = self.profile.measure.repetitions if self.profile.measure else 1
        for each in measurements:
            if not each.failed:
                took_s = (each.finished - each.started).total_seconds()
                self._starts_s.append(took_s / repetitions)

    def compare_instructions(self, before: str, after: str) -> InstructionDifference | None:
        """Count the instructions that two commits execute in a start of the profile's command, in turn.

        :param before: the whole hash of the earlier commit.
        :param after: that of the later one.
        :returns: None if the profile says so, if Valgrind is not installed, or if it fails or takes too long.
        """
        table = self.profile.measure
        path = commands.environment(self.profile.environment, self.profile.inherit).get("PATH")
        if table is None or not table.counts_instructions or not shutil.which(valgrind.PROGRAM, path=path):
            return None
        slowdown = 1.0 if table.instructions == "measure" else valgrind.SLOWDOWN
        # Longer ones also waited until the machine was no longer disturbed.
        start_s = min(self._starts_s, default=0.0)
        if start_s * slowdown > _LONGEST_COUNT_S:
            self._log(f"instructions are not counted: a start takes {start_s:.1f} s, and much longer then")
            return None
        self._log(f"counting the instructions of {before[:12]} and {after[:12]}")
        try:
            earlier, later = self._counted(before), self._counted(after)
            difference = compare_work((earlier, later), self._copies, self._observer)
        except (PerftrendError, OSError) as error:
            # The difference itself is known: it must not be lost because it is not explained.
            self._log(f"instructions are not counted: {explain(error)}")
            return None
        try:
            first, last = (
                count_instructions(work, artifacts, self._copies, self._observer, with_callers=True)
                for work, artifacts in (earlier, later)
            )
        except (PerftrendError, OSError) as error:
            self._log(f"the graph of the instructions cannot be drawn: {explain(error)}")
            return difference
        return replace(difference, stacks=(first, last))

    def _counted(self, commit: str) -> tuple[Work, Path]:
        return replace(self._work(commit), longest_s=_LONGEST_COUNT_S), self.build(commit).folder

    def _longest_s(self) -> float:
        """Return the time after which a start of the command hangs, as it is so much slower than others."""
        longest_s = max(self._starts_s, default=0.0)
        return max(_HANGS_AFTER_S, _HANGS_AFTER_RATIO * longest_s) if longest_s else math.inf

    def _work(self, commit: str) -> Work:
        return Work(self.profile, commit, self.folder / "logs", self._log, self._stop, self._sandbox)

    def _key(self, commit: str) -> str:
        return self._work(commit).key

    def _remove_old_logs(self) -> None:
        """Remove old logs; logs are retained for far more commits than builds are."""
        logs = sorted(self.folder.glob("logs/*.log"), key=modification_time)
        for path in logs[: -_LOGS_PER_BUILD * self._cache.maximum]:
            path.unlink(missing_ok=True)


class BackgroundBuilds:
    """Builds some commits before they are requested; not thread-safe.

    Closing it ends all its builds.

    :param most: how many commits are built ahead, at the same time; 0: none.
    """

    def __init__(self, product: Builds, most: int) -> None:
        self._product = product
        self._most = most
        self._threads = ThreadPoolExecutor(max_workers=max(most, 1), thread_name_prefix="build ahead")
        self._begun: dict[str, tuple[Future[None], Stop]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_all_but(())
        self._threads.shutdown()

    def expect(self, commits: Iterable[str]) -> None:
        """Build these in the background, the most probable first, instead of those expected before."""
        expected = list(islice(commits, self._most))
        self._end_all_but(expected)
        for commit in expected:
            if commit not in self._begun:
                stop = Stop()
                self._begun[commit] = self._threads.submit(self._build_in_background, commit, stop), stop

    def build(self, commit: str) -> BuiltCommit:
        """Build a commit like :meth:`Builds.build`; wait for it if it is being built ahead."""
        if not self._product.is_cached(commit):
            self._end_all_but([commit])
        if commit in self._begun:
            self._begun[commit][0].result()
        return self._product.build(commit)

    def _build_in_background(self, commit: str, stop: Stop) -> None:
        with stop, suppress(StoppedError, PerftrendError, OSError):
            # The request for this commit raises the same error.
            self._product.until(stop).build(commit)

    def _end_all_but(self, commits: Collection[str]) -> None:
        for commit in self._begun.keys() - set(commits):
            _, stop = self._begun.pop(commit)
            stop.set()


def _artifacts(work: Work, source: Path) -> list[Path]:
    """Return the files to cache, relative to the checkout."""
    found: set[Path] = set()
    for pattern in work.profile.artifacts:
        files = {path.relative_to(source) for match in source.glob(pattern) for path in _files(match)}
        files = {path for path in files if path.parts[0] != ".git"}
        if not files:
            raise _artifacts_error(work, f"the build left no file that matches {pattern}")
        found |= files
    if work.sandbox:
        root = source.resolve()
        for path in found:
            target = (root / path).resolve()
            if not target.is_relative_to(root) and work.sandbox.hides(target):
                raise _artifacts_error(
                    work, f"the artifact {path} is a link to a file that is not in the checkout"
                )
    return sorted(found)


def _artifacts_error(work: Work, problem: str) -> BuildError:
    log = work.log("build")
    return BuildError(
        f"{work.what}: {problem}; see {log}",
        step="artifacts",
        log=str(log),
        last_lines=commands.last_lines(log),
    )


def _files(path: Path) -> Iterator[Path]:
    """Yield a file, or all files below a folder, without following links to folders."""
    if path.is_file():
        yield path
    elif path.is_dir() and not path.is_symlink():
        yield from (each for each in path.rglob("*") if each.is_file())

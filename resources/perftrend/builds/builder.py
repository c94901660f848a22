"""Building commits of a product, keeping what was built, installing and measuring it.

Every build has a checkout of its own, away from everybody's. What it makes is kept by commit and by the
way of building, so that each commit is built once, by whoever needs it first.
"""

from __future__ import annotations

import copy
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from perftrend.builds import commands, templates, using
from perftrend.builds.cache import Built, Cache, modified
from perftrend.builds.observation import Observer
from perftrend.builds.profile import load
from perftrend.builds.stopping import Stop, StoppedError
from perftrend.builds.tables import Profile
from perftrend.builds.work import Work
from perftrend.clients.git import Address, Repository
from perftrend.clients.git.locking import taken
from perftrend.errors import BuildError, SettingsError
from perftrend.model import Measured
from perftrend.settings import ProjectSettings

_LOGS_PER_BUILD = 10
_LOOK_AGAIN_S = 0.1
"""So often it is looked whether another process has built what is waited for."""
_MORE_THAN_A_MOMENT = 2
"""Looks that find somebody there: it is not one who only sees whether the build may be evicted."""


def _nothing(_: str) -> None:
    """Say nothing."""


def profile_of(project: ProjectSettings) -> Profile:
    """Return the profile that the settings name.

    :raises SettingsError: if none is set, or it is wrong.
    """
    if project.profile is None:
        raise SettingsError("no product is chosen; give the setting project.profile the name of a profile")
    return load(project.profile, project.profiles, project.parameters)


def opened(project: ProjectSettings, *, log: Callable[[str], None] = _nothing) -> Builds:
    """Open the builds that the settings speak of: the profile, a mirror of the repository, the folder.

    :raises SettingsError: if no profile or no repository is set, or one is wrong.
    :raises ServiceError: if the repository cannot be fetched from.
    """
    profile = profile_of(project)
    source = project.repository or profile.repository
    if source is None:
        raise SettingsError(
            f"profile {profile.name} names no repository; give the setting project.repository its URL or path"
        )
    name = hashlib.sha256(Address.of(source).url.encode()).hexdigest()[:16]
    repository = Repository.mirror(source, project.builds / "mirrors" / f"{name}.git")
    return Builds(profile, repository, project.builds, maximum=project.maximum_builds, log=log)


class Builds:
    """The builds of one product.

    What it gives out is in use, and not removed, until it is closed or its process ends.

    :param repository: where the commits come from.
    :param folder: keeps what was built, and the logs; other processes may use it too.
    :param maximum: how many builds are kept in it.
    :param log: is told what happens, in lines.
    """

    def __init__(
        self,
        profile: Profile,
        repository: Repository,
        folder: Path,
        maximum: int = 50,
        log: Callable[[str], None] = _nothing,
    ) -> None:
        self.profile = profile
        self.repository = repository
        self.folder = folder.resolve()
        self._cache = Cache(self.folder, maximum)
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
        """Give back all builds that were given out; allowed more than once."""
        while self._in_use:
            _, holding = self._in_use.popitem()
            os.close(holding)

    def until(self, stop: Stop) -> Builds:
        """Return these very builds for somebody who can do without.

        What is built is ended when ``stop`` is set, and what another process builds already is not waited
        for: both raise StoppedError.
        """
        stoppable = copy.copy(self)
        stoppable._stop = stop
        return stoppable

    def kept(self, commit: str) -> bool:
        """Return whether a commit need not be built: it costs next to nothing."""
        return self._cache.files(self._key(commit)).is_dir()

    def log_of(self, commit: str, step: str = "build") -> Path:
        """Return the file with all that the commands of a step said; it may not be there."""
        return self._work(commit).log(step)

    def build(self, commit: str) -> Built:
        """Build a commit, or take what was built of it before.

        Where another process builds it already, it is waited for. A commit that failed fails again at
        once, until this object's end.

        :param commit: 40 hex digits.
        :raises UsageError: if the repository has no such commit.
        :raises BuildError: if it does not build; with the step, the log and what was said last.
        :raises TestbedError: if it does not build by this machine's fault.
        """
        if commit in self._failed:
            raise self._failed[commit]
        self.repository.commit(commit)
        was_made, looks = False, 0
        while (built := self._taken(commit, was_kept=not was_made)) is None:
            holding = taken(self._cache.lock(self._key(commit)), wait=False)
            if holding is None:
                # Who builds it now will use it next, for as long as it likes: both have to be looked for.
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
        """Say that another process is waited for. :raises StoppedError: if this can do without."""
        if self._stop:
            raise StoppedError
        self._log(f"{self._work(commit).what}: another process builds or uses it; waiting")

    def _taken(self, commit: str, *, was_kept: bool) -> Built | None:
        """Take what is kept of a commit into use; None if it has to be built."""
        key = self._key(commit)
        holding = self._in_use.get(key)
        if holding is None:
            holding = taken(self._cache.lock(key), shared=True, wait=False)
            if holding is None:
                return None
        manifest = self._cache.trusted(key)
        if manifest is None:
            os.close(holding)
            self._in_use.pop(key, None)
            return None
        if self._in_use.setdefault(key, holding) != holding:
            os.close(holding)  # another thread took it into use meanwhile
        self._cache.used(key)
        folder = self._cache.files(key)
        values = self._work(commit).values(artifacts=folder)
        options = {
            name: templates.expanded(value, values) for name, value in self.profile.device_options.items()
        }
        return Built(commit, folder, options, manifest.took_s, was_kept)

    def _make(self, commit: str) -> bool:
        """Build a commit, whose lock is held, unless another process has done so meanwhile: return which."""
        key, work = self._key(commit), self._work(commit)
        if self._cache.trusted(key) is not None:
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
                self._log(f"{work.what}: ended, for it is not needed")
                raise
            paths = _artifacts(work, source)
            took_s = time.monotonic() - began
            self._cache.keep(key, source, paths, took_s=took_s)
        self._log(f"{work.what}: built in {took_s:.0f} s")
        return True

    def install(self, built: Built) -> None:
        """Install a build where it is measured, and see to it that it is this one that is there.

        :raises BuildError: if it cannot be installed, or does not say what it is: it is this commit's fault.
        :raises TestbedError: if another commit is there afterwards, or this machine is at fault otherwise.
        """
        using.install(self._work(built.commit), built.folder)

    def measure(self, built: Built, number: int = 1) -> Measured:
        """Measure a build by the profile's command, once, while the machine is observed.

        :param number: of the measurement of this build, from 1; it chooses the variant.

        A command that fails, takes too long or prints what is no number is a test that failed: that can
        be the very change that is looked for.

        :raises SettingsError: if the profile has no such command.
        :raises TestbedError: if this machine cannot run it.
        """
        work, place = self._work(built.commit), self.folder / "measuring"
        return using.measure(work, built.folder, place, self._observer, number)

    def _work(self, commit: str) -> Work:
        return Work(self.profile, commit, self.folder / "logs", self._log, self._stop)

    def _key(self, commit: str) -> str:
        return self._work(commit).key

    def _remove_old_logs(self) -> None:
        """Keep the logs of far more commits than builds, and not those of all times."""
        logs = sorted(self.folder.glob("logs/*.log"), key=modified)
        for path in logs[: -_LOGS_PER_BUILD * self._cache.maximum]:
            path.unlink(missing_ok=True)


def _artifacts(work: Work, source: Path) -> list[Path]:
    """Return the files to keep, relative to the checkout."""
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
    """Yield a file, or all files below a folder; not what links to folders lead to."""
    if path.is_file():
        yield path
    elif path.is_dir() and not path.is_symlink():
        yield from (each for each in path.rglob("*") if each.is_file())

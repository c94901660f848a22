"""One commit with its profile: the inputs of its commands, their logs, and the installation of its build."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from perftrend.builds import commands
from perftrend.builds.commands import Steps, Stop
from perftrend.builds.profile import Profile
from perftrend.errors import TestbedError, UsageError

_NONE: Mapping[str, str] = MappingProxyType({})
_WHOLE = re.compile(r"[0-9a-f]{40}")
_HASH = re.compile(r"(?<![0-9a-f])[0-9a-f]{7,40}(?![0-9a-f])")


@dataclass(frozen=True, slots=True)
class Work:
    """The build of one commit.

    :raises UsageError: if the commit is not a whole hash: it becomes a part of paths.
    """

    profile: Profile
    commit: str
    logs: Path
    """The folder for the logs."""
    report: Callable[[str], None]
    stop: Stop | None = None
    """Ends the commands when it is set."""

    def __post_init__(self) -> None:
        if not _WHOLE.fullmatch(self.commit):
            raise UsageError(f"{self.commit[:60]!r} is not a full commit hash of 40 hex digits")

    @property
    def what(self) -> str:
        """Its name in messages."""
        return f"{self.profile.name} at {self.commit[:12]}"

    @property
    def key(self) -> str:
        """The name of its cache entry."""
        return f"{self.commit}-{self.profile.hash}"

    def log(self, step: str) -> Path:
        """Return the log file with the output of the commands of a step; it may not exist."""
        return self.logs / f"{self.key}.{step}.log"

    def values(self, **folders: Path) -> dict[str, str]:
        """Return the values of all placeholders.

        :param folders: ``source`` or ``artifacts``.
        """
        jobs = len(os.sched_getaffinity(0))
        paths = {name: str(path) for name, path in folders.items()}
        return {"python": sys.executable, "commit": self.commit, "jobs": str(jobs), **paths}

    def steps(
        self,
        name: Literal["build", "install", "identify", "measure"],
        folder: Path,
        *,
        allows_background: bool = False,
        variables: Mapping[str, str] = _NONE,
    ) -> Steps:
        """Return the runner for the commands of a step in a folder.

        :param allows_background: whether processes that they leave in the background continue.
        :param variables: variables of the environment, which those of the profile override.
        """
        log = self.log(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        if name == "build":
            log.write_bytes(b"")
        values = self.values()
        profile_variables = {
            variable: commands.expand(value, values) for variable, value in self.profile.environment.items()
        }
        return Steps(
            name=name,
            what=self.what,
            folder=folder,
            environment=commands.environment({**variables, **profile_variables}, self.profile.inherit),
            log=log,
            timeout_s=getattr(self.profile.timeouts_s, name),
            report=self.report,
            allows_background=allows_background,
            stop=self.stop,
        )


def install(work: Work, artifacts: Path) -> None:
    """Install a build, and verify that it is the installed one.

    :raises BuildError: if it cannot be installed, or does not identify itself, because of this commit.
    :raises TestbedError: if another commit is installed afterwards, or this machine is at fault otherwise.
    """
    values = work.values(artifacts=artifacts)
    steps = work.steps("install", artifacts, allows_background=True)
    steps.run(commands.expand_command(words, values) for words in work.profile.install)
    if work.profile.identify is None:
        return
    command = commands.expand_command(work.profile.identify, values)
    steps = work.steps("identify", artifacts)
    hashes = _HASH.findall(steps.output(command).decode(errors="replace").lower())
    if not any(work.commit.startswith(each) for each in hashes):
        reported = f"reports {' and '.join(hashes[:3])}" if hashes else "names no commit"
        raise TestbedError(
            f"{work.what}: it was installed, but {command[0]} {reported}; "
            f"another version runs on this machine, see {steps.log}"
        )

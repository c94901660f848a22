"""What is done with a build: installing it, asking which one is there, measuring it by a command."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

from perftrend.builds import numbers, templates
from perftrend.builds.work import Work
from perftrend.clients.git import folders
from perftrend.errors import BuildError, SettingsError, TestbedError
from perftrend.model import Measured

_HASH = re.compile(r"(?<![0-9a-f])[0-9a-f]{7,40}(?![0-9a-f])")


def install(work: Work, artifacts: Path) -> None:
    """Install a build, and see to it that it is this one that is there.

    :raises BuildError: if it cannot be installed, or does not say what it is: it is this commit's fault.
    :raises TestbedError: if another commit is there afterwards, or this machine is at fault otherwise.
    """
    values = work.values(artifacts=artifacts)
    steps = work.steps("install", artifacts, keeps=True)
    steps.run(templates.command(words, values) for words in work.profile.install)
    if work.profile.identify is None:
        return
    command = templates.command(work.profile.identify, values)
    steps = work.steps("identify", artifacts)
    hashes = _HASH.findall(steps.output(command).decode(errors="replace").lower())
    if not any(work.commit.startswith(each) for each in hashes):
        said = f"says {' and '.join(hashes[:3])}" if hashes else "names no commit"
        raise TestbedError(
            f"{work.what}: it was installed, but {command[0]} {said}; "
            f"another version runs on this machine, see {steps.log}"
        )


def measure(work: Work, artifacts: Path, place: Path) -> Measured:
    """Measure a build by the profile's command, once.

    :param place: where a copy of the artifacts is made: what one measurement writes beside the program must
        not change the next, or what is kept.
    :returns: the values; or the test as one that failed, if the command fails, takes too long or prints what
        is no number.
    :raises SettingsError: if the profile has no such command.
    :raises TestbedError: if this machine cannot run it.
    """
    told = work.profile.measure
    if told is None:
        raise SettingsError(f"profile {work.profile.name} is measured on a testbed; it has no command")
    found, why = {}, ""
    with folders.own(place, f"{work.commit[:12]}-") as copy:
        shutil.copytree(artifacts, copy)
        command = templates.command(told.command, work.values(artifacts=copy))
        steps = work.steps("measure", copy)
        started = datetime.now(UTC)
        try:
            found = dict(numbers.read(steps.output(command), told))
        except BuildError as error:
            why = str(error)
        except ValueError as error:
            why = f"{error}; see {steps.log}"
        finished = datetime.now(UTC)
    return Measured(
        commit=work.commit,
        started=started,
        finished=finished,
        values=found,
        failed={told.test: why} if why else {},
    )

"""Uses of a build: installing it, identifying the installed one, measuring it by a command."""

from __future__ import annotations

import re
import shutil
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

from perftrend.builds import numbers, templates
from perftrend.builds.observation import Observer
from perftrend.builds.work import Work
from perftrend.clients.git import folders
from perftrend.errors import BuildError, SettingsError, TestbedError
from perftrend.model import Measured

_HASH = re.compile(r"(?<![0-9a-f])[0-9a-f]{7,40}(?![0-9a-f])")
_PADDING_BYTES = 1032
"""The environment of each variant is larger by this, which is not a multiple of a cache line or a page."""


def install(work: Work, artifacts: Path) -> None:
    """Install a build, and verify that it is the installed one.

    :raises BuildError: if it cannot be installed, or does not identify itself, because of this commit.
    :raises TestbedError: if another commit is installed afterwards, or this machine is at fault otherwise.
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
        said = f"reports {' and '.join(hashes[:3])}" if hashes else "names no commit"
        raise TestbedError(
            f"{work.what}: it was installed, but {command[0]} {said}; "
            f"another version runs on this machine, see {steps.log}"
        )


def measure(work: Work, artifacts: Path, place: Path, observer: Observer, number: int = 1) -> Measured:
    """Measure a build by the profile's command, once.

    :param place: the folder in which the artifacts are copied for each start of the command: the files that
        it writes must not change the next start, or the cache.
    :param number: the number of the measurement of this build, from 1; it selects the variant.
    :returns: the values; or a failed test, if the command fails, times out or prints something else than
        numbers.
    :raises SettingsError: if the profile has no such command.
    :raises TestbedError: if this machine cannot run it.
    """
    told = work.profile.measure
    if told is None:
        raise SettingsError(f"profile {work.profile.name} is measured on a testbed; it has no command")
    variant = (number - 1) % told.variants
    found, why, disturbed = {}, "", ""
    started = datetime.now(UTC)
    try:
        repetitions = []
        for _ in range(told.repetitions):
            printed, disturbance = _observed(work, artifacts, place, observer, variant)
            repetitions.append(numbers.read(printed, told))
            disturbed = disturbed or disturbance
        found = numbers.joined(repetitions)
    except BuildError as error:
        why = str(error)
    except ValueError as error:
        why = f"{error}; see {work.log('measure')}"
    return Measured(
        commit=work.commit,
        started=started,
        finished=datetime.now(UTC),
        values=found,
        failed={told.test: why} if why else {},
        variant=variant,
        disturbed=disturbed,
    )


def _observed(
    work: Work, artifacts: Path, place: Path, observer: Observer, variant: int
) -> tuple[bytes, str]:
    """Return the output of the command, and what disturbed the last attempt."""
    assert work.profile.measure is not None  # noqa: S101 - checked before
    if work.profile.measure.remote:
        return _output(work, artifacts, place, nullcontext(), variant), ""
    for _ in observer.attempts():
        printed = _output(work, artifacts, place, observer.observing(), variant)
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

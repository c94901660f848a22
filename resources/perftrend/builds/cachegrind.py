"""Counting of the instructions of a measuring command by Cachegrind, a tool of Valgrind.

The command runs as in a measurement, but 20 to 60 times as slowly, and all processes that it starts are
counted. What Cachegrind writes is in a folder that the program can write to as well. So nothing in it is
trusted.

Source: the Cachegrind manual, section "Cachegrind output file format".
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from perftrend.analysis.instructions import InstructionCounts
from perftrend.builds import commands
from perftrend.builds.measurement import Work, read_numbers, steps_to_measure
from perftrend.errors import BuildError
from perftrend.files import private_folder

PROGRAM = "valgrind"
SLOWDOWN = 40.0
"""How many times as long a start usually takes."""
_COMMAND = (PROGRAM, "--quiet", "--tool=cachegrind", "--cache-sim=no", "--trace-children=yes")
_FILE = ".perftrend-cachegrind."
_VARIABLES: Mapping[str, str] = {"PYTHONHASHSEED": "0"}
"""Otherwise, each start of a Python program has its dictionaries in another order."""
_MOST_FILES = 10_000
_MOST_BYTES = 100_000_000
"""Of one start, all files together."""
_FUNCTION = re.compile(r"fn=(.{1,2000})")
_COST = re.compile(r"[0-9]{1,9} ([0-9]{1,18})")
"""The number of a line in the source, and the instructions of this line."""
_LONGEST_NAME = 60
_NAMELESS = "???"
"""What Cachegrind calls all functions of a file without symbols."""


def is_installed(work: Work) -> bool:
    """Return whether the commands of a profile find Valgrind."""
    path = commands.environment(work.profile.environment, work.profile.inherit).get("PATH")
    return shutil.which(PROGRAM, path=path) is not None


def count_instructions(work: Work, artifacts: Path, place: Path) -> InstructionCounts:
    """Start the measuring command of a profile once, and return the instructions that it executes.

    :param place: the folder in which the artifacts are copied.
    :raises BuildError: if the command fails or takes too long with Valgrind, or was not counted.
    :raises TestbedError: if this machine cannot run it.
    """
    assert work.profile.measure is not None  # noqa: S101 - checked by the caller
    with private_folder(place, f"{work.commit[:12]}-") as copy:
        shutil.copytree(artifacts, copy)
        steps, command = steps_to_measure(work, copy, variables=_VARIABLES)
        printed = steps.output([*_COMMAND, f"--cachegrind-out-file={copy / _FILE}%p", *command])
        try:
            read_numbers(printed, work.profile.measure)
        except ValueError as error:
            raise BuildError(f"with {PROGRAM}, {error}", step="measure", log=str(steps.log)) from None
        counted = _add_up(copy)
    if not counted.total():
        raise BuildError(f"{PROGRAM} counted no instructions", step="measure", log=str(steps.log))
    return counted


def parse(text: str) -> Counter[str]:
    """Return the instructions by function in a file of Cachegrind; lines with other contents are ignored."""
    found: Counter[str] = Counter()
    function = ""
    for each in text.splitlines():
        if name := _FUNCTION.fullmatch(each):
            function = _shorten(name[1])
        elif function and (cost := _COST.fullmatch(each)):
            found[function] += int(cost[1])
    return found


def _shorten(name: str) -> str:
    if name == _NAMELESS:
        return "functions without symbols"
    printable = "".join(sign for sign in name if sign.isprintable())
    return printable if len(printable) <= _LONGEST_NAME else f"{printable[:_LONGEST_NAME]}…"


def _add_up(folder: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    left = _MOST_BYTES
    for content in _read_files(folder):
        left -= len(content)
        if left < 0:
            raise BuildError(f"{PROGRAM} wrote more than {_MOST_BYTES} bytes", step="measure")
        found.update(parse(content.decode(errors="replace")))
    return found


def _read_files(folder: Path) -> Iterator[bytes]:
    """Yield the contents of the files of Cachegrind: of regular files only, and of no link."""
    names = sorted(each.name for each in os.scandir(folder) if each.name.startswith(_FILE))
    if len(names) > _MOST_FILES:
        raise BuildError(f"the command started more than {_MOST_FILES} processes", step="measure")
    for name in names:
        try:
            descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            continue
        with os.fdopen(descriptor, "rb") as file:
            yield file.read(_MOST_BYTES + 1)

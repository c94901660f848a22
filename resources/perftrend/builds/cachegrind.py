"""Instructions of a command and of all processes that it starts, counted by Cachegrind, a tool of Valgrind.

What Cachegrind writes is in a folder that the program can write to as well. So nothing in it is trusted.

Source: the Cachegrind manual, section "Cachegrind output file format".
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from perftrend.errors import BuildError

PROGRAM = "valgrind"
SLOWDOWN = 40.0
"""How many times as long a start usually takes; 20 to 60 times."""
VARIABLES: Mapping[str, str] = MappingProxyType({"PYTHONHASHSEED": "0"})
"""For the environment: otherwise, each start of a Python program has its dictionaries in another order."""
_COMMAND = (PROGRAM, "--quiet", "--tool=cachegrind", "--cache-sim=no", "--trace-children=yes")
_FILE = ".perftrend-cachegrind."
_MOST_FILES = 10_000
_MOST_BYTES = 100_000_000
"""Of one start, all files together."""
_FUNCTION = re.compile(r"fn=(.{1,2000})")
_COST = re.compile(r"[0-9]{1,9} ([0-9]{1,18})")
"""The number of a line in the source, and the instructions of this line."""
_LONGEST_NAME = 60
_NAMELESS = "???"
"""What Cachegrind calls all functions of a file without symbols."""


def wrap(command: Sequence[str], folder: Path) -> list[str]:
    """Return the command that runs a command and writes its instructions into a folder."""
    return [*_COMMAND, f"--cachegrind-out-file={folder / _FILE}%p", *command]


def read_counts(folder: Path) -> Counter[str]:
    """Return the instructions by function that a command has written into a folder, all processes together.

    :raises BuildError: if there are none, or if the files are too large or too many.
    """
    found: Counter[str] = Counter()
    left = _MOST_BYTES
    for content in _read_files(folder):
        left -= len(content)
        if left < 0:
            raise BuildError(f"{PROGRAM} wrote more than {_MOST_BYTES} bytes", step="measure")
        found.update(parse(content.decode(errors="replace")))
    if not found.total():
        raise BuildError(f"{PROGRAM} counted no instructions", step="measure")
    return found


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

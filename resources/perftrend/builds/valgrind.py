"""Instructions of a command and of all processes that it starts, counted by Valgrind.

Cachegrind counts them by function. Callgrind, which takes two to five times as long, also records from where
each function was called. What they write is in a folder that the program can write to as well. So nothing in
it is trusted.

Source: the Cachegrind manual, section "Cachegrind output file format"; the Callgrind manual, sections
"Callgrind output file format" and "Cost entity separation".
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from perftrend.analysis.instructions import CallPath
from perftrend.errors import BuildError

PROGRAM = "valgrind"
SLOWDOWN = 40.0
"""How many times as long a start usually takes with Cachegrind; 20 to 60 times."""
VARIABLES: Mapping[str, str] = MappingProxyType({"PYTHONHASHSEED": "0"})
"""For the environment: otherwise, each start of a Python program has its dictionaries in another order."""
_COMMAND = (PROGRAM, "--quiet", "--trace-children=yes", "--cache-sim=no")
_CACHEGRIND = ("--tool=cachegrind", "--cachegrind-out-file=")
_CALLGRIND = ("--tool=callgrind", "--separate-callers=15", "--dump-line=no", "--callgrind-out-file=")
_FILE = ".perftrend-valgrind."
_MOST_FILES = 10_000
_MOST_BYTES = 100_000_000
"""Of one start, all files together."""
_FUNCTION = re.compile(r"(c?)fn=(?:\(([0-9]{1,9})\) ?)?(.*)")
"""A function, or one that it calls, with a number that stands for its name later."""
_COST = re.compile(r"(?:[+-]?[0-9]{1,9}|\*) ([0-9]{1,18})")
"""The number of a line in the source, and the instructions of this line."""
_CALL = "calls="
"""The costs in the line after this are those of a function that is called."""
_LONGEST_NAME = 60
_NAMELESS = "???"
"""What Valgrind calls all functions of a file without symbols."""


def wrap(command: Sequence[str], folder: Path, *, with_callers: bool = False) -> list[str]:
    """Return the command that runs a command and writes its instructions into a folder."""
    *tool, output = _CALLGRIND if with_callers else _CACHEGRIND
    return [*_COMMAND, *tool, f"{output}{folder / _FILE}%p", *command]


def read_counts(folder: Path) -> Counter[CallPath]:
    """Return the instructions that a command has written into a folder, all processes together.

    :returns: by function, with those that called it if these were recorded.
    :raises BuildError: if there are none, or if the files are too large or too many.
    """
    found: Counter[CallPath] = Counter()
    left = _MOST_BYTES
    for content in _read_files(folder):
        left -= len(content)
        if left < 0:
            raise BuildError(f"{PROGRAM} wrote more than {_MOST_BYTES} bytes", step="measure")
        found.update(parse(content.decode(errors="replace")))
    if not found.total():
        raise BuildError(f"{PROGRAM} counted no instructions", step="measure")
    return found


def parse(text: str) -> Counter[CallPath]:
    """Return the instructions in a file of Cachegrind or Callgrind; lines with other contents are ignored."""
    found: Counter[CallPath] = Counter()
    names: dict[str, CallPath] = {}
    function: CallPath = ()
    is_callees = False
    for each in text.splitlines():
        if is_callees:
            is_callees = False
        elif named := _FUNCTION.fullmatch(each):
            called, number, name = named.groups()
            path = _path(name) if name else names.get(number, ())
            if number and name:
                names[number] = path
            function = function if called else path
        elif function and (cost := _COST.fullmatch(each)):
            found[function] += int(cost[1])
        else:
            is_callees = each.startswith(_CALL)
    return found


def _path(name: str) -> CallPath:
    """Return a function and its callers, the outermost first.

    Callgrind separates them by ``'``, and a function that calls itself has the depth behind its name.
    """
    return tuple(_shorten(part) for part in reversed(name.split("'")) if not part.isdecimal())


def _shorten(name: str) -> str:
    if name == _NAMELESS:
        return "functions without symbols"
    printable = "".join(sign for sign in name if sign.isprintable())
    return printable if len(printable) <= _LONGEST_NAME else f"{printable[:_LONGEST_NAME]}…"


def _read_files(folder: Path) -> Iterator[bytes]:
    """Yield the contents of the files of Valgrind: of regular files only, and of no link."""
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

"""A small product with a history: the embedded router, with one commit among many that made it slower.

The commits are the same each time, including their hashes. Most add a few lines to one file, as most commits
of a real product do not change its speed. The profile ``embedded-router`` builds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perftrend.clients.git import mirrors
from perftrend.clients.git.program import Git

PROFILE = "embedded-router"
"""The profile that builds it."""
FILE = "router/__main__.py"
"""The program of the router."""
PROGRAM = '''"""The embedded router, and the rules that every frame is compared with."""

import sys

from perftrend.measure.embedded import router

EXTRA_RULES = {rules}
"""Rules in addition to those that the test requests."""


def with_extra_rules(arguments):
    """Return the arguments of the router with the extra rules added."""
    arguments = list(arguments)
    if "--acl-rules" not in arguments:
        return [*arguments, "--acl-rules", str(EXTRA_RULES)]
    at = arguments.index("--acl-rules") + 1
    return [*arguments[:at], str(int(arguments[at]) + EXTRA_RULES), *arguments[at + 1 :]]


if __name__ == "__main__":
    sys.exit(router.main(with_extra_rules(sys.argv[1:])))
'''
"""The text of the program, with the number of extra rules left open: the more, the slower."""
SLOW = "Refuse frames from unassigned networks"
"""Subject of the commit that made it slower."""

_RULES = 20
_AUTHOR = "perftrend example <example@perftrend.invalid>"
_FIRST_S, _APART_S = 1_767_225_600, 5 * 3600 + 1234
"""The first commit is of 2026-01-01 in UTC, and each a few hours later than the one before."""

_README, _ROUTES, _PORTS, _TABLE, _NEWS = (
    "README", "docs/routes.txt", "docs/ports.txt", "router/table.py", "NEWS",
)  # fmt: skip
_COMMITS = (
    ("Route IPv4 between two ports", FILE, PROGRAM.format(rules=0)),
    ("Describe the router", _README, "A router for two ports, small enough to read in an hour.\n"),
    ("Explain how a route is chosen", _ROUTES, "The longest prefix that contains the address wins.\n"),
    ("Add a table of network names", _TABLE, '"""Names of the networks."""\n\nNAMES = {}\n'),
    ("Name both test networks", _TABLE, 'NAMES["10.0.0.0/8"] = "east"\nNAMES["20.0.0.0/8"] = "west"\n'),
    ("Begin a list of changes", _NEWS, "- The networks have names.\n"),
    ("Describe the two ports", _PORTS, "The first port looks east, the second one west.\n"),
    ("Describe what happens without a route", _ROUTES, "A frame without a route is dropped.\n"),
    ("Look up the name of a network", _TABLE, "\n\ndef name(network):\n    return NAMES.get(network, '')\n"),
    ("Describe how to start it", _README, "Start it with python router.pyz and the ports.\n"),
    ("Note that dropped frames are counted", _NEWS, "- Frames that are dropped are counted.\n"),
    ("Ignore compiled Python files", ".gitignore", "__pycache__/\n"),
    ("Note how long a port waits", _PORTS, "A port that has nothing to do sleeps after two milliseconds.\n"),
    ("Sort the names of networks", _TABLE, "\n\ndef names():\n    return sorted(NAMES.values())\n"),
    ("Describe what the checksum covers", _ROUTES, "The checksum covers the header and is recomputed.\n"),
    ("Point to the list of changes", _README, "NEWS lists the changes.\n"),
    ("Ignore the built program", ".gitignore", "router.pyz\n"),
    ("Correct the sentence on prefixes", _ROUTES, "If two prefixes are equal, the first one wins.\n"),
    ("Name the network for documentation", _TABLE, 'NAMES["192.0.2.0/24"] = "paper"\n'),
    ("Document the longest frame", _PORTS, "Frames of more than 1518 bytes are refused.\n"),
    ("Note the limit of a frame's length", _NEWS, "- Frames that are too long are refused.\n"),
    (SLOW, FILE, PROGRAM.format(rules=_RULES)),
    ("Describe the purpose of the rules", _README, "Its rules refuse sources that cannot be genuine.\n"),
    ("Note that sources are checked", _NEWS, "- Frames from unassigned networks are refused.\n"),
    ("Count the names of networks", _TABLE, "\n\ndef count():\n    return len(NAMES)\n"),
    ("Explain the order of the rules", _ROUTES, "Rules are checked before routes.\n"),
    ("Document that ports are opened once", _PORTS, "Both ports are opened at the start, and never again.\n"),
    ("Name the network of tests", _TABLE, 'NAMES["198.18.0.0/15"] = "bench"\n'),
    ("Explain how to change the rules", _README, "Rules are part of the program: a commit changes them.\n"),
    ("Add hints on debugging", "docs/debugging.txt", "Its counters show what it received and sent.\n"),
    ("Document the refused frames", "docs/debugging.txt", "Refused frames have their own counter.\n"),
    ("Note where the counters are", _NEWS, "- The counters are described.\n"),
    ("State the licence", _README, "It has the licence of perftrend.\n"),
)  # fmt: skip
"""For each commit the subject, a file, and the text to append; the program is replaced instead."""


@dataclass(frozen=True, slots=True)
class Example:
    """The repository, and the two ends of its history."""

    folder: Path
    """Bare."""
    old: str
    """The first commit."""
    new: str
    """The last one."""


def make(folder: Path) -> Example:
    """Create the repository, or update an existing one; safe for concurrent processes.

    An incomplete repository is completed, and changes on its branch are undone.

    :raises ServiceError: if git is missing, or fails.
    :raises OSError: if the folder cannot be written.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    git = Git(folder)
    with mirrors.alone(folder):
        git.run("init", "--bare", "--quiet", "--template=", "--object-format=sha1", "--initial-branch=main")
        git.run("fast-import", "--quiet", "--force", text="".join(_stream()))
    hashes = git.run("rev-list", "--reverse", "refs/heads/main", "--").split()
    return Example(folder, hashes[0], hashes[-1])


def _stream() -> Iterator[str]:
    """Yield the input of git-fast-import(1)."""
    # Otherwise the first commit would follow the last one of an earlier start.
    yield "reset refs/heads/main\n\n"
    files: dict[str, str] = {}
    for number, (subject, path, text) in enumerate(_COMMITS):
        files[path] = text if path == FILE else files.get(path, "") + text
        identity = f"{_AUTHOR} {_FIRST_S + number * _APART_S} +0000"
        yield f"commit refs/heads/main\nauthor {identity}\ncommitter {identity}\n{_data(subject)}"
        yield f"M 100644 inline {path}\n{_data(files[path])}"


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}\n"

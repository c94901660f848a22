"""Who has been told of which run: what makes a change news for a recipient.

An analysis is a function of the store, and tells each change once, in the first run in which it is
certain. A recipient is told of it once if he gets the mail of that run. He may not: the mail server
was down, or no analysis ran that day. So the last run that each recipient was told of is kept, and
his next mail tells what no analysis up to that run told; after a mail of the same run there is
nothing left to tell. Only this place is kept, never what was said.

One small file for each job and testbed, replaced in one step. Without it all recipients are new, and
the next mail is about the newest run alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perftrend.errors import UsageError
from perftrend.model import Run

FILES = "files"
"""The recipient that stands for whoever Jenkins sends the written mails to."""

MOST_RUNS = 30
"""A recipient who missed more hears of the last ones: a month of nights."""

_FORMAT = "perftrend-mails-1"

_Place = tuple[datetime, int]


class Record:
    """The last run that each recipient was told of.

    :param folder: of the record's files; made when something is kept. It must outlive the workspace.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def untold(self, run: Run, runs: Sequence[Run], recipient: str = FILES, *, at_first: int = 1) -> int:
        """Return how many of the newest runs a recipient was not told of: ``new_runs`` of his mail.

        :param run: the run that was analysed.
        :param runs: what the store knows of its testbed, in any order; those of other jobs and those
            after ``run`` do not count.
        :param at_first: how many it is for somebody who was never told of any.
        :returns: 0 if he was told of this run, or of a later one; no more than MOST_RUNS.
        :raises UsageError: if the record cannot be understood.
        """
        last = self._places(run).get(recipient)
        if last is None:
            return at_first
        if _place(run) <= last:
            return 0
        since = {
            _place(each)
            for each in runs
            if (each.testbed, each.job) == (run.testbed, run.job) and last < _place(each) <= _place(run)
        }
        return min(len(since | {_place(run)}), MOST_RUNS)

    def mark(self, run: Run, *recipients: str) -> None:
        """Keep that recipients were told of a run, or that it had nothing to tell them.

        :raises UsageError: if the record cannot be understood.
        :raises OSError: if it cannot be written.
        """
        places = self._places(run)
        for recipient in recipients or (FILES,):
            places[recipient] = max(places.get(recipient, _place(run)), _place(run))
        told = {
            name: {"started": started.isoformat(), "build": build}
            for name, (started, build) in places.items()
        }
        content = {
            "format": _FORMAT,
            "testbed": run.testbed,
            "job": run.job,
            "told": dict(sorted(told.items())),
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._file(run)
        fresh = file.with_suffix(f".{os.getpid()}.tmp")
        fresh.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        fresh.replace(file)

    def _file(self, run: Run) -> Path:
        # Readable, and yet of its own where two names differ in what a file name cannot hold.
        name = f"{run.testbed}-{run.job}"
        digest = hashlib.sha256(f"{run.testbed}\0{run.job}".encode("utf-8", "replace")).hexdigest()[:8]
        return self._folder / f"{re.sub(r'[^A-Za-z0-9-]+', '-', name)[:100]}-{digest}.json"

    def _places(self, run: Run) -> dict[str, _Place]:
        file = self._file(run)
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            return _read(content)
        except FileNotFoundError:
            return {}
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
            raise UsageError(
                f"{file}: is no record of mails; remove it, and the next mails are about the newest run alone"
            ) from None


def _read(content: dict[str, Any]) -> dict[str, _Place]:
    if content["format"] != _FORMAT:
        raise ValueError(content["format"])
    return {
        str(name): (datetime.fromisoformat(place["started"]).astimezone(UTC), int(place["build"]))
        for name, place in content["told"].items()
    }


def _place(run: Run) -> _Place:
    return run.started.astimezone(UTC), run.build

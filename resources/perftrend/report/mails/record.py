"""Record of the runs that were reported to each recipient: it decides which changes are new to them.

An analysis is a function of the store, and reports each change once, in the first run in which it is
certain. A recipient may have missed that run: the mail server was down, or no analysis ran that day.
Analyses may also finish in another order than their runs. So the record has the runs that were
reported to each recipient. Their next mail covers all runs that are missing there, up to the run of the
mail. Only runs are recorded, never the contents of mails.

There is a small file for each job and testbed, which is replaced atomically. Without it all recipients are
new, and the next mail covers only the newest run.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perftrend.errors import UsageError
from perftrend.files import hold_lock, write_whole
from perftrend.model import Run

FILES = "files"
"""The recipient that represents all to whom Jenkins sends the written mails."""

MOST_RUNS = 30
"""The record has this many runs of a recipient, a month of nights; a mail covers at most as many."""

_FORMAT = "perftrend-mails-2"
_OLD_FORMAT = "perftrend-mails-1"

_Place = tuple[datetime, int]


@dataclass(frozen=True, slots=True)
class PendingRuns:
    """The runs that a mail covers."""

    runs: tuple[Run, ...] = ()
    """The runs that were not reported to its recipient, oldest first; empty if nothing is to be sent."""
    later: tuple[Run, ...] = ()
    """Runs after the first of these that were reported before the others were known."""


@dataclass(frozen=True, slots=True)
class _ReportedRuns:
    """The runs that were reported to a recipient."""

    since: _Place
    """The first of them: of the runs before it, a later mail covers only its own."""
    all_before: bool
    """Whether the runs up to ``since`` count as reported."""
    runs: frozenset[_Place]

    def has(self, place: _Place) -> bool:
        return place in self.runs or (self.all_before and place <= self.since)

    def with_runs(self, places: Collection[_Place]) -> _ReportedRuns:
        """Return a record with further runs, without the oldest if there are too many."""
        ordered = sorted(self.runs.union(places))
        dropped, recent = ordered[:-MOST_RUNS], frozenset(ordered[-MOST_RUNS:])
        return (
            _ReportedRuns(since=max(self.since, dropped[-1]), all_before=True, runs=recent)
            if dropped
            else replace(self, runs=recent)
        )


class MailRecord:
    """The runs that were reported to each recipient.

    :param folder: the folder of the record's files; created if missing. It must outlive the workspace.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def lock(self, run: Run) -> Iterator[None]:
        """Serialize the reports of analyses of a job and testbed that end at the same time."""
        with hold_lock(self._file(run).with_suffix(".lock")):
            yield

    def find_pending(
        self, run: Run, runs: Sequence[Run], recipient: str = FILES, *, at_first: int = 1
    ) -> PendingRuns:
        """Return the runs that the mail of a run to a recipient covers.

        :param run: the run that was analysed.
        :param runs: the runs of its testbed in the store, in any order; those of other jobs and
            experiments are ignored.
        :param at_first: the number of runs that the first mail to a recipient covers.
        :returns: no runs if this run was already reported to the recipient.
        :raises UsageError: if the record is not valid.
        """
        alike = (run.testbed, run.job, run.experiment)
        known = {
            _place(each): each for each in runs if (each.testbed, each.job, each.experiment) == alike
        } | {_place(run): run}
        places = sorted(known)
        own = _place(run)
        reported = self._read(run).get(recipient)
        if reported is None:
            return PendingRuns(tuple(known[each] for each in places if each <= own)[-at_first:])
        if reported.has(own):
            return PendingRuns()
        if own < reported.since:
            # The first mail did not cover this run, whether it was known or not.
            return PendingRuns((run,))
        missing = [each for each in places if reported.since < each < own and not reported.has(each)]
        missing.append(own)
        return PendingRuns(
            tuple(known[each] for each in missing),
            tuple(known[each] for each in places if each > missing[0] and reported.has(each)),
        )

    def mark(self, pending: PendingRuns, *recipients: str) -> None:
        """Record that runs were reported to recipients, or that there was nothing to report.

        :raises UsageError: if the record is not valid.
        :raises OSError: if it cannot be written.
        """
        if not pending.runs:
            return
        run = pending.runs[-1]
        places = [_place(each) for each in pending.runs]
        known = self._read(run)
        for recipient in recipients or (FILES,):
            before = known.get(recipient, _ReportedRuns(places[0], all_before=False, runs=frozenset()))
            known[recipient] = before.with_runs(places)
        content = {
            "format": _FORMAT,
            "testbed": run.testbed,
            "job": run.job,
            "reported": {
                name: {
                    "since": _serialize_place(each.since),
                    "all_before": each.all_before,
                    "runs": [_serialize_place(place) for place in sorted(each.runs)],
                }
                for name, each in sorted(known.items())
            },
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(self._file(run), json.dumps(content, indent=1) + "\n")

    def _file(self, run: Run) -> Path:
        # Readable, and unique even if two names differ only in characters that a file name cannot have.
        name = f"{run.testbed}-{run.job}"
        digest = hashlib.sha256(f"{run.testbed}\0{run.job}".encode("utf-8", "replace")).hexdigest()[:8]
        return self._folder / f"{re.sub(r'[^A-Za-z0-9-]+', '-', name)[:100]}-{digest}.json"

    def _read(self, run: Run) -> dict[str, _ReportedRuns]:
        file = self._file(run)
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            return _parse(content)
        except FileNotFoundError:
            return {}
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
            raise UsageError(
                f"{file} is not a record of mails; remove it, and the next mails cover only the newest run"
            ) from None


def _parse(content: dict[str, Any]) -> dict[str, _ReportedRuns]:
    if content["format"] == _OLD_FORMAT:
        # It had only the last run of each recipient.
        return {
            str(name): _ReportedRuns(_parse_place(place), all_before=True, runs=frozenset())
            for name, place in content["told"].items()
        }
    if content["format"] != _FORMAT:
        raise ValueError(content["format"])
    return {
        str(name): _ReportedRuns(
            since=_parse_place(each["since"]),
            all_before=bool(each["all_before"]),
            runs=frozenset(map(_parse_place, each["runs"])),
        )
        for name, each in content["reported"].items()
    }


def _parse_place(place: dict[str, Any]) -> _Place:
    return datetime.fromisoformat(place["started"]).astimezone(UTC), int(place["build"])


def _serialize_place(place: _Place) -> dict[str, object]:
    started, build = place
    return {"started": started.isoformat(), "build": build}


def _place(run: Run) -> _Place:
    return run.started.astimezone(UTC), run.build

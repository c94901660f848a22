"""Archived runs that are not in the store yet, so that none is lost if a job is killed.

An archived run is described in a file of its own, which is removed after the store has the run. Runs left
over after a full disk, an unavailable store or a kill are thus found by the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from perftrend.archive.ingest import OutputIngestion, ingest
from perftrend.errors import ArchiveError
from perftrend.model import Run

if TYPE_CHECKING:  # reading alone should not import the libraries of the database
    from perftrend.store import Store

OUTPUT = "output.xml"
MARK = "not-stored.json"

_RUN = TypeAdapter(Run)


def mark(archive: Path, run: Run) -> None:
    """Mark an archive folder with its run, which is not in the store yet."""
    (archive / MARK).write_bytes(_RUN.dump_json(run, indent=1))


def store_pending(
    store: Store, folder: Path, *, report: Callable[[str], None] = lambda _: None
) -> Iterator[OutputIngestion]:
    """Enter the marked runs of a job's folder into the store, in the order of their builds.

    :param report: called for a run that cannot be read: it stays archived, and is not tried again.
    :raises StoreError: if the store cannot be written; the runs stay marked.
    """
    marks = folder.glob(f"*/{MARK}")
    for path in sorted(marks, key=lambda path: (len(path.parent.name), path.parent.name)):
        try:
            run = _RUN.validate_json(path.read_bytes())
            ingestion = ingest(store, run, path.parent / OUTPUT)
        except (ArchiveError, ValidationError) as error:
            report(f"{path.parent}: the run is archived, but cannot be stored: {error}")
        else:
            yield ingestion
        path.unlink()

"""The store of ``--example``: a new one with a year of simulated nights."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path

from perftrend.cli import example_year
from perftrend.errors import UsageError
from perftrend.listener.supervisor import lock_folder
from perftrend.store import Store
from perftrend.store.alerts import Rules

ALERT = Rules("Changes and missing data", "", change=0.03, silent_runs=3, silent_hours=72, owner="example")
"""A rule that creates alerts to triage."""


def fill(path: str | Path, *, until: date | None = None, seed: int = example_year.SEED) -> None:
    """Create a store with a year of simulated nights; an interrupted call leaves no store.

    :param path: a path that does not exist yet.
    :param until: the day of the last nights; by default today.
    :raises UsageError: if the path exists, and then leave it unchanged, if its folder does not exist, or if
        another process creates the store.
    :raises StoreError: if the store cannot be written.
    """
    if "://" in str(path):
        raise UsageError("--example creates a new file; give --store a path, not the address of a database")
    place = Path(path).absolute()
    if place.exists():
        raise _exists_error(place)
    if not place.parent.is_dir():
        raise UsageError(f"store {place}: its folder does not exist; create it, or name another place")
    with _temporary_folder(place) as folder:
        made = folder / place.name
        with Store.open(made) as store:
            store.add_all(example_year.year(until or datetime.now(UTC).date(), seed=seed))
            store.alerts.add(ALERT, user=ALERT.owner)
        try:
            # A hard link: a rename would replace a file that was created in the meantime.
            place.hardlink_to(made)
        except FileExistsError:
            raise _exists_error(place) from None


@contextmanager
def _temporary_folder(place: Path) -> Iterator[Path]:
    """Yield an empty folder next to a file; it is removed afterwards, or emptied by the next call."""
    folder = place.with_name(f".{place.name}.example")
    folder.mkdir(exist_ok=True)
    with lock_folder(folder) as lock:
        if lock is None:
            raise UsageError(f"store {place}: another process is creating it; wait until it has ended")
        for each in folder.iterdir():
            each.unlink()
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


def _exists_error(place: Path) -> UsageError:
    return UsageError(
        f"store {place} already exists and is not changed; "
        "omit --example to see it, or give --store another path"
    )

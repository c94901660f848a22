"""What ``--example`` shows: a new store with a year of made-up nights."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path

from jobs import _example_year
from perftrend.errors import UsageError
from perftrend.listener.keeper import locked
from perftrend.store import Store
from perftrend.store.alerts import Rules

ALERT = Rules("Changes and silence", "", change=0.03, silent_runs=3, silent_hours=72, owner="example")
"""So that there is something to triage."""


def fill(path: str | Path, *, until: date | None = None, seed: int = _example_year.SEED) -> None:
    """Make a store with a year of made-up nights; whoever is killed meanwhile leaves none.

    :param path: where nothing is yet.
    :param until: the day of the last nights; by default today.
    :raises UsageError: if there is something already, which stays as it is.
    :raises StoreError: if it cannot be written.
    """
    if "://" in str(path):
        raise UsageError("--example makes a new file; give --store a path, not the address of a database")
    place = Path(path).absolute()
    if place.exists():
        raise _taken(place)
    if not place.parent.is_dir():
        raise UsageError(f"store {place}: its folder is not there; make it, or name another place")
    with _beside(place) as folder:
        made = folder / place.name
        with Store.open(made) as store:
            store.add_all(_example_year.year(until or datetime.now(UTC).date(), seed=seed))
            store.alerts.add(ALERT, user=ALERT.owner)
        try:
            # A link, because a rename would replace what somebody has put there meanwhile.
            place.hardlink_to(made)
        except FileExistsError:
            raise _taken(place) from None


@contextmanager
def _beside(place: Path) -> Iterator[Path]:
    """Give an empty folder beside a file, which goes afterwards, or when the next one comes."""
    folder = place.with_name(f".{place.name}.example")
    folder.mkdir(exist_ok=True)
    with locked(folder) as lock:
        if lock is None:
            raise UsageError(f"store {place}: another process is making it; wait for that to end")
        for each in folder.iterdir():
            each.unlink()
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


def _taken(place: Path) -> UsageError:
    return UsageError(
        f"store {place}: is there already and stays as it is; "
        "leave --example away to see it, or give --store another path"
    )

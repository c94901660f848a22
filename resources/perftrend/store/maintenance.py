"""Maintenance of a whole store: check, back up, restore, migrate and move it."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Engine

from perftrend.errors import StoreError
from perftrend.store import checking
from perftrend.store.checking import Checked
from perftrend.store.connection import engine_of, reading
from perftrend.store.copying import copy_file, copy_rows, count_rows, make_single
from perftrend.store.schema import HEAD, metadata
from perftrend.store.upgrade import MIGRATIONS, upgrade, version_of

_UNFINISHED = ".unfinished"


def check(place: str | Path) -> Checked:
    """Read a whole store, and report what is wrong with it.

    :raises StoreError: if it cannot be read, or is not of the newest version.
    """
    with _opened(place, is_there=True) as engine:
        _require_newest(engine, place)
        return checking.check(engine)


def backup(place: str | Path, file: Path) -> None:
    """Copy a store from any database into a new SQLite file; jobs can use the store meanwhile.

    :raises StoreError: if the file exists, or if one of the two cannot be read or written; then no file is
        left.
    """
    if file.exists():
        raise StoreError(f"{file} exists; name a new file")
    with _opened(place, is_there=True) as source, _appearing(file) as beside:
        _require_newest(source, place)
        if source.dialect.name == "sqlite":
            copy_file(Path(str(source.url.database)), beside)
            return
        with _opened(beside) as target:
            upgrade(target, str(beside))
            copy_rows(source, target)
        make_single(beside)


def restore(file: Path, place: str | Path) -> None:
    """Copy a backup into a store that is empty or does not exist yet.

    The backup may be of an older version; the file itself is not changed.

    :raises StoreError: if the file is not a backup, or if the store is not empty. It is then unchanged.
    """
    if not file.is_file():
        raise StoreError(f"{file}: the file does not exist")
    with _opened(place) as target:
        is_file = target.dialect.name == "sqlite"
        new = Path(str(target.url.database)) if is_file else None
        if new and not new.exists():
            with _appearing(new) as beside:
                _copy_backup(file, beside)
                make_single(beside)
            return
        upgrade(target, str(place))
        _require_empty(target, place)
        with _appearing(file.with_name(f"{file.name}.upgraded"), keep=False) as beside:
            _copy_backup(file, beside)
            with _opened(beside) as source:
                copy_rows(source, target)


def _copy_backup(file: Path, beside: Path) -> None:
    """Copy a backup, and migrate the copy to the newest schema."""
    copy_file(file, beside)
    with _opened(beside) as made:
        if not version_of(made, str(file)):
            raise StoreError(f"{file}: it does not contain a store")
        upgrade(made, str(file))


def move(place: str | Path, other: str) -> dict[str, int]:
    """Copy a store into another, empty database, such as from SQLite to PostgreSQL.

    :returns: the number of rows of each table, by its name. The store itself is not changed.
    :raises StoreError: if the other database is not empty, or if one of the two cannot be used. The other one
        is then unchanged, except for empty tables.
    """
    with _opened(place, is_there=True) as source, _opened(other) as target:
        _require_newest(source, place)
        upgrade(target, target.url.render_as_string())
        _require_empty(target, target.url.render_as_string())
        return copy_rows(source, target)


def prepare_move(place: str | Path, other: str) -> int:
    """Return the number of rows that :func:`move` would copy; nothing is changed.

    :raises StoreError: as :func:`move` does.
    """
    with _opened(place, is_there=True) as source, _opened(other) as target:
        _require_newest(source, place)
        if _file_is_there(target) and version_of(target, shown(other)):
            _require_empty(target, shown(other))
        return count_rows(source)


def pending(place: str | Path) -> list[str]:
    """Return the pending migrations, one line each; none if the store has the newest schema.

    :raises StoreError: if the store does not exist or cannot be read.
    """
    with _opened(place, is_there=True) as engine:
        version = version_of(engine, str(place))
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    steps = list(ScriptDirectory.from_config(config).iterate_revisions(HEAD, version or "base"))
    return [f"{step.revision}: {(step.doc or '').strip()}" for step in reversed(steps)]


def migrate(place: str | Path) -> None:
    """Migrate a store to the newest schema, in one transaction.

    :raises StoreError: if that fails; the store is then unchanged.
    """
    with _opened(place, is_there=True) as engine:
        upgrade(engine, str(place))


def shown(place: str) -> str:
    """Return a place without its password."""
    return sa.make_url(place).render_as_string() if "://" in place else place


def _require_newest(engine: Engine, place: str | Path) -> None:
    """Reject a store that does not have the schema version of this perftrend.

    :raises StoreError: if it does not.
    """
    version = version_of(engine, str(place))
    if version != HEAD:
        what = f"it has version {version}" if version else "it has no tables"
        raise StoreError(f"store {place}: {what}; ./run store migrate upgrades it to version {HEAD}")


def _require_empty(engine: Engine, place: str | Path) -> None:
    """Reject a store that is not empty.

    :raises StoreError: if it is not empty.
    """
    with reading(engine) as connection:
        for table in metadata.sorted_tables:
            if connection.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first():
                raise StoreError(f"store {place}: it is not empty (table {table.name}); name a new one")


@contextmanager
def _opened(place: str | Path, *, is_there: bool = False) -> Iterator[Engine]:
    """Yield the engine of a store, and dispose of it afterwards.

    :param is_there: whether the store must exist: SQLite creates missing files.
    """
    engine = engine_of(place)
    if is_there and not _file_is_there(engine):
        raise StoreError(f"store {place}: the file does not exist")
    try:
        yield engine
    finally:
        engine.dispose()


def _file_is_there(engine: Engine) -> bool:
    return engine.dialect.name != "sqlite" or Path(str(engine.url.database)).is_file()


@contextmanager
def _appearing(file: Path, *, keep: bool = True) -> Iterator[Path]:
    """Yield the path of a temporary file, which becomes the file at the end; an error removes it.

    Temporary files of killed processes are removed.

    :param keep: False to remove the temporary file in any case.
    """
    for abandoned in file.parent.glob(f".{glob.escape(file.name)}.*{_UNFINISHED}*"):
        process = abandoned.name.partition(_UNFINISHED)[0].rpartition(".")[2]
        if process.isdecimal() and not Path("/proc", process).exists():
            abandoned.unlink(missing_ok=True)
    beside = file.with_name(f".{file.name}.{os.getpid()}{_UNFINISHED}")
    try:
        yield beside
        if keep:
            with beside.open("rb") as written:
                os.fsync(written.fileno())
            # Unlike a rename, this fails if the file exists by now.
            os.link(beside, file)
    except OSError as error:
        raise StoreError(f"{file}: cannot be written: {error.strerror}") from error
    finally:
        for name in (beside, *(beside.with_name(beside.name + end) for end in ("-wal", "-shm", "-journal"))):
            name.unlink(missing_ok=True)

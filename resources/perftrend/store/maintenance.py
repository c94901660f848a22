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

from perftrend import COMMAND
from perftrend.errors import StoreError
from perftrend.store import integrity_check
from perftrend.store.backup import copy_file, copy_rows, count_rows, make_single
from perftrend.store.connection import engine_of, read_transaction
from perftrend.store.integrity_check import StoreCheck
from perftrend.store.schema import HEAD, metadata
from perftrend.store.upgrade import MIGRATIONS, upgrade, version_of

_UNFINISHED = ".unfinished"


def check(place: str | Path) -> StoreCheck:
    """Read a whole store, and report what is wrong with it.

    :raises StoreError: if it cannot be read, or is not of the newest version.
    """
    with _open_engine(place, is_there=True) as engine:
        _require_newest(engine, place)
        return integrity_check.check(engine)


def backup(place: str | Path, file: Path) -> None:
    """Copy a store from any database into a new SQLite file; jobs can use the store meanwhile.

    :raises StoreError: if the file exists, or if one of the two cannot be read or written; then no file is
        left.
    """
    if file.exists():
        raise StoreError(f"{file} exists; name a new file")
    with _open_engine(place, is_there=True) as source, _atomic_file(file) as temporary:
        _require_newest(source, place)
        if source.dialect.name == "sqlite":
            copy_file(Path(str(source.url.database)), temporary)
            return
        with _open_engine(temporary) as target:
            upgrade(target, str(temporary))
            copy_rows(source, target)
        make_single(temporary)


def restore(file: Path, place: str | Path) -> None:
    """Copy a backup into a store that is empty or does not exist yet.

    The backup may be of an older version; the file itself is not changed.

    :raises StoreError: if the file is not a backup, or if the store is not empty. It is then unchanged.
    """
    if not file.is_file():
        raise StoreError(f"{file}: the file does not exist")
    with _open_engine(place) as target:
        is_file = target.dialect.name == "sqlite"
        new = Path(str(target.url.database)) if is_file else None
        if new and not new.exists():
            with _atomic_file(new) as temporary:
                _copy_backup(file, temporary)
                make_single(temporary)
            return
        upgrade(target, str(place))
        _require_empty(target, place)
        with _atomic_file(file.with_name(f"{file.name}.upgraded"), publish=False) as temporary:
            _copy_backup(file, temporary)
            with _open_engine(temporary) as source:
                copy_rows(source, target)


def _copy_backup(file: Path, temporary: Path) -> None:
    """Copy a backup, and migrate the copy to the newest schema."""
    copy_file(file, temporary)
    with _open_engine(temporary) as made:
        if not version_of(made, str(file)):
            raise StoreError(f"{file}: it does not contain a store")
        upgrade(made, str(file))


def move(place: str | Path, other: str) -> dict[str, int]:
    """Copy a store into another, empty database, such as from SQLite to PostgreSQL.

    :returns: the number of rows of each table, by its name. The store itself is not changed.
    :raises StoreError: if the other database is not empty, or if one of the two cannot be used. The other one
        is then unchanged, except for empty tables.
    """
    with _open_engine(place, is_there=True) as source, _open_engine(other) as target:
        _require_newest(source, place)
        upgrade(target, target.url.render_as_string())
        _require_empty(target, target.url.render_as_string())
        return copy_rows(source, target)


def prepare_move(place: str | Path, other: str) -> int:
    """Return the number of rows that :func:`move` would copy; nothing is changed.

    :raises StoreError: as :func:`move` does.
    """
    with _open_engine(place, is_there=True) as source, _open_engine(other) as target:
        _require_newest(source, place)
        if _file_is_there(target) and version_of(target, redact_password(other)):
            _require_empty(target, redact_password(other))
        return count_rows(source)


def list_pending(place: str | Path) -> list[str]:
    """Return the pending migrations, one line each; none if the store has the newest schema.

    :raises StoreError: if the store does not exist or cannot be read.
    """
    with _open_engine(place, is_there=True) as engine:
        version = version_of(engine, str(place))
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    steps = list(ScriptDirectory.from_config(config).iterate_revisions(HEAD, version or "base"))
    return [f"{step.revision}: {(step.doc or '').strip()}" for step in reversed(steps)]


def migrate(place: str | Path) -> None:
    """Migrate a store to the newest schema, in one transaction.

    :raises StoreError: if that fails; the store is then unchanged.
    """
    with _open_engine(place, is_there=True) as engine:
        upgrade(engine, str(place))


def redact_password(place: str) -> str:
    """Return a place without its password."""
    return sa.make_url(place).render_as_string() if "://" in place else place


def _require_newest(engine: Engine, place: str | Path) -> None:
    """Reject a store that does not have the schema version of this perftrend.

    :raises StoreError: if it does not.
    """
    version = version_of(engine, str(place))
    if version != HEAD:
        what = f"it has version {version}" if version else "it has no tables"
        raise StoreError(f"store {place}: {what}; {COMMAND} store migrate upgrades it to version {HEAD}")


def _require_empty(engine: Engine, place: str | Path) -> None:
    """Reject a store that is not empty.

    :raises StoreError: if it is not empty.
    """
    with read_transaction(engine) as connection:
        for table in metadata.sorted_tables:
            if connection.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first():
                raise StoreError(f"store {place}: it is not empty (table {table.name}); name a new one")


@contextmanager
def _open_engine(place: str | Path, *, is_there: bool = False) -> Iterator[Engine]:
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
def _atomic_file(file: Path, *, publish: bool = True) -> Iterator[Path]:
    """Yield the path of a temporary file, which becomes the file at the end; an error removes it.

    Temporary files of killed processes are removed.

    :param publish: False to remove the temporary file in any case.
    """
    for abandoned in file.parent.glob(f".{glob.escape(file.name)}.*{_UNFINISHED}*"):
        process = abandoned.name.partition(_UNFINISHED)[0].rpartition(".")[2]
        if process.isdecimal() and not Path("/proc", process).exists():
            abandoned.unlink(missing_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}{_UNFINISHED}")
    try:
        yield temporary
        if publish:
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            # Unlike a rename, this fails if the file exists by now.
            os.link(temporary, file)
    except OSError as error:
        raise StoreError(f"{file}: cannot be written: {error.strerror}") from error
    finally:
        for name in (
            temporary,
            *(temporary.with_name(temporary.name + end) for end in ("-wal", "-shm", "-journal")),
        ):
            name.unlink(missing_ok=True)

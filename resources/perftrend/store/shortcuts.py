"""Short addresses and views: saved plots and pages of the dashboard.

A shortcut is a plot under a short number, or a page under a short address. Both are stored by their
content. Saving the same content again returns the same id, so the store has no duplicates, and the content
of an id never changes. For a page, the time of the last request is stored.

A view is a page with its selections under a name that editors choose. A name is unique on the dashboard.
Like a short address, a view contains the query string of its page; other than a short address, it is never
deleted automatically.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, RowMapping
from sqlalchemy.exc import IntegrityError

from perftrend.errors import UsageError
from perftrend.store.activity import EditResult, record
from perftrend.store.connection import read_transaction, savepoint, write_transaction
from perftrend.store.schema import short_urls, shortcuts, views

MOST_TRACES = 1000
"""Traces in one shortcut."""
LONGEST_SHORTCUT = 200_000
LONGEST_QUERY = 16_000
"""Characters of the query string of a page with a short address."""

_DIGITS = 9
"""Longer numbers are not numbers of rows."""
_KEY_BYTES = 9
"""Bytes of the hash that make up the key: 12 characters in a URL."""

MOST_VIEWS = 500
LONGEST_NAME = 100


class Shortcuts:
    """Traces and formulas that are shown together, by a number; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def save(self, ids: Sequence[str], *, user: str) -> str:
        """Store trace ids, and return the id of the shortcut.

        :param ids: of normal traces and formulas, in the order in which they are shown.
        :raises UsageError: if there are none, or if they are too many or too long.
        """
        held = json.dumps(list(ids), ensure_ascii=False, separators=(",", ":"))
        if not ids:
            raise UsageError("shortcut: it is empty; select a trace or write a formula")
        if len(ids) > MOST_TRACES or len(held) > LONGEST_SHORTCUT:
            reason = (
                f"{len(ids)} traces, {len(held)} characters; select at most {MOST_TRACES}, {LONGEST_SHORTCUT}"
            )
            raise UsageError(f"shortcut: {reason}, or use a formula that finds them")
        digest = hashlib.sha256(held.encode()).hexdigest()
        row = {"hash": digest, "ids": held, "user": user, "made": datetime.now(UTC)}
        with write_transaction(self._engine) as connection:
            return str(_find_or_insert(connection, shortcuts.c.number, shortcuts.c.hash == digest, row))

    def load(self, identity: str) -> tuple[str, ...] | None:
        """Return the trace ids of a shortcut; None if it does not exist."""
        if not (identity.isascii() and identity.isdigit() and len(identity) <= _DIGITS):
            return None
        query = sa.select(shortcuts.c.ids).where(shortcuts.c.number == int(identity))
        with read_transaction(self._engine) as connection:
            found = connection.execute(query).scalar()
        return None if found is None else tuple(json.loads(found))


class ShortUrls:
    """Pages with their selections, by a short address; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def save(self, query: str, *, user: str) -> str:
        """Store the query string of a page, and return its key of 12 characters.

        :raises UsageError: if it is too long.
        """
        if len(query) > LONGEST_QUERY:
            raise UsageError(
                f"address: {len(query)} characters are too many; select less, at most {LONGEST_QUERY}"
            )
        key = base64.urlsafe_b64encode(hashlib.sha256(query.encode()).digest()[:_KEY_BYTES]).decode()
        row = {"key": key, "query": query, "user": user, "made": datetime.now(UTC)}
        is_same = short_urls.c.key == key
        with write_transaction(self._engine) as connection:
            # An address that is requested again is retained as long as a new one.
            connection.execute(sa.update(short_urls).where(is_same).values(made=row["made"]))
            return str(_find_or_insert(connection, short_urls.c.key, is_same, row))

    def query(self, key: str) -> str | None:
        """Return the query string of a key; None if the key does not exist."""
        with read_transaction(self._engine) as connection:
            found = sa.select(short_urls.c.query).where(short_urls.c.key == key)
            return connection.execute(found).scalar()


def _find_or_insert(
    connection: Connection,
    name: sa.Column[int] | sa.Column[str],
    same: sa.ColumnElement[bool],
    row: Mapping[str, object],
) -> object:
    """Return the name of the row with the same content; insert it if there is none."""
    query = sa.select(name).where(same)
    known = connection.execute(query).scalar()
    if known is not None:
        return known
    try:
        with savepoint(connection):
            connection.execute(sa.insert(name.table), row)
    except IntegrityError:
        # Another process was first. Its row is there now.
        pass
    return connection.execute(query).scalar_one()


@dataclass(frozen=True, slots=True)
class SavedView:
    """A page under a name."""

    identity: int
    name: str
    path: str
    """The page, such as ``/explore``."""
    query: str
    """Its query string, without the question mark."""
    author: str
    saved: datetime

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def subject(self) -> str:
        """Its name in the activity log."""
        return f"view {self.name}"


class Views:
    """The views of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def all(self, path: str | None = None) -> list[SavedView]:
        """Return the views in the order of their names.

        :param path: only those of a page.
        """
        query = sa.select(views).order_by(sa.func.lower(views.c.name), views.c.id)
        if path is not None:
            query = query.where(views.c.path == path)
        with read_transaction(self._engine) as connection:
            return [_view(row) for row in connection.execute(query).mappings()]

    def one(self, identity: int) -> SavedView | None:
        """Return a view; None if it does not exist."""
        with read_transaction(self._engine) as connection:
            return _find(connection, views.c.id == identity)

    def save(self, name: str, path: str, query: str, *, user: str) -> EditResult[SavedView]:
        """Save a page under a name; saving the same again changes nothing.

        :returns: not done if the name belongs to another page; then with that view.
        :raises UsageError: if the query is too long, or there are too many views.
        """
        if len(query) > LONGEST_QUERY:
            raise UsageError(f"view: the address has {len(query)} characters; at most {LONGEST_QUERY} fit")
        row = {"name": name, "path": path, "query": query, "author": user, "saved": datetime.now(UTC)}
        with write_transaction(self._engine) as connection:
            known = _find(connection, views.c.name == name)
            if known is None:
                count = connection.execute(sa.select(sa.func.count()).select_from(views)).scalar() or 0
                if count >= MOST_VIEWS:
                    raise UsageError(f"view: there are {count} views already; delete one of them first")
                try:
                    with savepoint(connection):
                        connection.execute(sa.insert(views), row)
                except IntegrityError:
                    # Another process was first. Its view is there now.
                    known = _find(connection, views.c.name == name)
            if known is not None:
                return EditResult(is_done=(known.path, known.query) == (path, query), now=known)
            view = _find(connection, views.c.name == name)
            if view is not None:
                record(connection, user, "saved", view.subject, view.url)
            return EditResult(is_done=True, now=view)

    def delete(self, identity: int, *, user: str) -> SavedView | None:
        """Delete a view, and return it; None if it does not exist."""
        with write_transaction(self._engine) as connection:
            view = _find(connection, views.c.id == identity)
            if view is not None:
                connection.execute(sa.delete(views).where(views.c.id == identity))
                record(connection, user, "deleted", view.subject, f"was: {view.url}")
            return view


def _find(connection: Connection, condition: sa.ColumnElement[bool]) -> SavedView | None:
    row = connection.execute(sa.select(views).where(condition)).mappings().first()
    return _view(row) if row else None


def _view(row: RowMapping) -> SavedView:
    names = ("name", "path", "query", "author", "saved")
    return SavedView(identity=row["id"], **{name: row[name] for name in names})

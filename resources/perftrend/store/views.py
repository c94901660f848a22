"""Views: pages with their selections under a name that editors choose.

A name is unique on the dashboard. Like a short address, a view contains the query string of its page; other
than a short address, it is never deleted automatically.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, RowMapping
from sqlalchemy.exc import IntegrityError

from perftrend.errors import UsageError
from perftrend.store.activity import EditResult, record
from perftrend.store.connection import read_transaction, savepoint, write_transaction
from perftrend.store.schema import views
from perftrend.store.shortcuts import LONGEST_QUERY

MOST_VIEWS = 500
LONGEST_NAME = 100


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

"""Annotations of commits: texts by users, for one testbed or for all.

Runs and users name commits by the whole hash or by its first digits. So an annotation belongs to every commit
that begins with its hash, or that its hash begins with. An edit carries the version that it was made from. If
another user was faster, nothing is changed, and the current annotation is returned. The activity log retains
deleted texts.

Source: "Skia Perf: Design", section Annotations Database.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, RowMapping

from perftrend.errors import UsageError
from perftrend.store.activity import EditResult, record
from perftrend.store.connection import read_transaction, write_transaction
from perftrend.store.rows import parts
from perftrend.store.schema import annotated

LONGEST_TEXT = 4000
"""Characters."""
_STEM = 7
"""Digits of the shortest hash that names a commit."""
_HASH = re.compile(rf"[0-9a-f]{{{_STEM},40}}")
_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Annotation:
    """An annotation of a commit."""

    identity: int
    commit: str
    """Its hash, or the first digits of it."""
    testbed: str | None
    """None for all testbeds."""
    text: str
    author: str
    created: datetime
    edited: datetime | None
    """None if it was never edited."""
    edited_by: str
    """Empty if it was never edited."""
    version: int
    """Increases with each edit."""

    @property
    def subject(self) -> str:
        """Its name in the activity log."""
        return subject_of(self.identity)


class Annotations:
    """The annotations of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def of(self, commits: Iterable[str], *, testbed: str | None = None) -> dict[str, list[Annotation]]:
        """Return the annotations of commits, the oldest first.

        :param commits: hashes as runs contain them; texts that are not hashes have no annotations.
        :param testbed: omit annotations of other testbeds; None to omit none.
        :returns: annotations by these hashes; commits without annotations are omitted.
        """
        by_stem: dict[str, list[str]] = {}
        for commit in dict.fromkeys(commits):
            if _HASH.fullmatch(commit):
                by_stem.setdefault(commit[:_STEM], []).append(commit)
        found: dict[str, list[Annotation]] = {}
        with read_transaction(self._engine) as connection:
            for stems in parts(list(by_stem), _AT_ONCE):
                for each in _select(connection, annotated.c.stem.in_(stems)):
                    if testbed is not None and each.testbed not in {None, testbed}:
                        continue
                    for commit in by_stem[each.commit[:_STEM]]:
                        if commit.startswith(each.commit) or each.commit.startswith(commit):
                            found.setdefault(commit, []).append(each)
        return found

    def newest(self, limit: int, *, before: int | None = None) -> list[Annotation]:
        """Return the newest annotations, the newest first.

        :param before: only those that are older than the one with this identity.
        """
        condition = sa.true() if before is None else annotated.c.id < before
        query = sa.select(annotated).where(condition).order_by(annotated.c.id.desc()).limit(limit)
        with read_transaction(self._engine) as connection:
            return [_annotation(row) for row in connection.execute(query).mappings()]

    def count_by_author(self) -> dict[str, int]:
        """Return the number of annotations of each author."""
        query = sa.select(annotated.c.author, sa.func.count().label("number")).group_by(annotated.c.author)
        with read_transaction(self._engine) as connection:
            return {row.author: row.number for row in connection.execute(query)}

    def find(self, identity: int) -> Annotation | None:
        """Return an annotation; None if it does not exist."""
        with read_transaction(self._engine) as connection:
            return _find(connection, identity)

    def add(self, commit: str, text: str, *, user: str, testbed: str | None = None) -> Annotation:
        """Annotate a commit, and record it in the activity log.

        :param commit: its hash, or at least the first seven digits of it.
        :raises UsageError: if that is not a hash, or if the text is empty or too long.
        """
        row = {
            "revision": validate_commit(commit),
            "testbed": testbed or None,
            "text": validate_text(text),
            "author": user,
            "created": datetime.now(UTC),
            "edited_by": "",
            "version": 1,
        }
        row["stem"] = str(row["revision"])[:_STEM]
        with write_transaction(self._engine) as connection:
            key = connection.execute(sa.insert(annotated), row).inserted_primary_key
            added = _find(connection, int(key[0]) if key else 0)
            if added is None:
                raise AssertionError("what was entered in this transaction is there")
            record(connection, user, "annotated", added.subject, _describe(added))
        return added

    def edit(self, identity: int, text: str, *, version: int, user: str) -> EditResult[Annotation]:
        """Change the text of an annotation, unless it has been edited since.

        :param version: of the annotation that the edit was made from.
        :raises UsageError: if the text is empty or too long.
        """
        text = validate_text(text)
        with write_transaction(self._engine) as connection:
            before = _find(connection, identity)
            change = sa.update(annotated).where(_of_version(identity, version))
            columns = {"text": text, "edited": datetime.now(UTC), "edited_by": user, "version": version + 1}
            if before is None or connection.execute(change.values(**columns)).rowcount == 0:
                return EditResult(is_done=False, now=before)
            record(connection, user, "edited", before.subject, f"was: {_describe(before)}")
            return EditResult(is_done=True, now=_find(connection, identity))

    def delete(self, identity: int, *, version: int, user: str) -> EditResult[Annotation]:
        """Delete an annotation, unless it has been edited since; the activity log retains its text."""
        with write_transaction(self._engine) as connection:
            before = _find(connection, identity)
            deletion = sa.delete(annotated).where(_of_version(identity, version))
            if before is None or connection.execute(deletion).rowcount == 0:
                return EditResult(is_done=False, now=before)
            record(connection, user, "deleted", before.subject, f"was: {_describe(before)}")
            return EditResult(is_done=True, now=before)


def subject_of(identity: int) -> str:
    """Return the name of an annotation in the activity log."""
    return f"annotation {identity}"


def validate_commit(text: str) -> str:
    """Return the hash of a commit as it is stored.

    :raises UsageError: if it is not a hash.
    """
    commit = text.strip().lower()
    if not _HASH.fullmatch(commit):
        raise UsageError(f"write a commit as {_STEM} to 40 hex digits of its hash, such as 1a2b3c4d")
    return commit


def validate_text(text: str) -> str:
    """Return the text of an annotation as it is stored.

    :raises UsageError: if it is empty or too long.
    """
    cleaned = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "").strip()
    if not cleaned:
        raise UsageError("the text is empty; enter a text, or delete the annotation")
    if len(cleaned) > LONGEST_TEXT:
        raise UsageError(f"the text has {len(cleaned)} characters; write at most {LONGEST_TEXT}")
    return cleaned


def _of_version(identity: int, version: int) -> sa.ColumnElement[bool]:
    return (annotated.c.id == identity) & (annotated.c.version == version)


def _find(connection: Connection, identity: int) -> Annotation | None:
    return next(_select(connection, annotated.c.id == identity), None)


def _select(connection: Connection, condition: sa.ColumnElement[bool]) -> Iterator[Annotation]:
    query = sa.select(annotated).where(condition).order_by(annotated.c.id)
    yield from map(_annotation, connection.execute(query).mappings())


def _annotation(row: RowMapping) -> Annotation:
    return Annotation(
        identity=row["id"],
        commit=row["revision"],
        testbed=row["testbed"],
        text=row["text"],
        author=row["author"],
        created=row["created"],
        edited=row["edited"],
        edited_by=row["edited_by"],
        version=row["version"],
    )


def _describe(annotation: Annotation) -> str:
    of = f"{annotation.commit} on {annotation.testbed}" if annotation.testbed else annotation.commit
    return f"{of}: {annotation.text}"

"""Changes, their patch sets and votes, and accounts and groups, read from Gerrit's JSON.

Source: Gerrit's documentation, "REST API", entities ChangeInfo, RevisionInfo, CommitInfo, FileInfo,
AccountInfo.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from perftrend.clients.gerrit import validation
from perftrend.errors import UsageError

DETAILS = ("ALL_REVISIONS", "ALL_COMMITS", "DETAILED_ACCOUNTS", "DETAILED_LABELS")
"""Options of the request for a complete change."""
OUTLINE = ("CURRENT_REVISION", "CURRENT_COMMIT", "DETAILED_ACCOUNTS")
"""Options of the request for a list of changes: only the newest patch set of each."""
_NO_FILES = ("/COMMIT_MSG", "/MERGE_LIST", "/PATCHSET_LEVEL")
"""Entries of Gerrit's list of files that are not files."""


@dataclass(frozen=True, slots=True)
class Account:
    """An account of a person or a program."""

    number: int | None
    """Gerrit's number of the account; None in events, which do not contain it."""
    username: str = ""
    """Empty if the account has none, or it is not visible."""
    name: str = ""
    email: str = ""

    def is_same(self, other: Account) -> bool:
        """Return whether two accounts are the same, as far as it can be determined."""
        if self.number is not None and other.number is not None:
            return self.number == other.number
        return bool(self.username) and self.username == other.username


@dataclass(frozen=True, slots=True)
class AccountGroup:
    """A group of accounts."""

    identity: str
    """The UUID, which does not change if the group is renamed."""
    name: str


def read_account(value: object) -> Account:
    """Return an account from the JSON of a server or an event.

    :raises ValueError: if it is not a valid account.
    """
    fields = validation.table(value)
    return Account(
        number=validation.optional(fields.get("_account_id")),
        username=validation.text(fields.get("username")),
        name=validation.text(fields.get("name")),
        email=validation.text(fields.get("email")),
    )


def read_group(value: Mapping[str, Any]) -> AccountGroup:
    """Return a group from its JSON.

    :raises ValueError: if it is not a valid group.
    """
    return AccountGroup(unquote(validation.some_text(value.get("id"))), validation.text(value.get("name")))


@dataclass(frozen=True, slots=True)
class PatchSet:
    """One version of a change."""

    number: int
    revision: str
    """The hash of its commit."""
    ref: str
    """The ref to fetch, ``refs/changes/02/2/1``."""
    parents: tuple[str, ...]
    """Hashes of its parent commits: several for a merge, none for an initial commit."""
    uploaded: datetime
    """UTC."""
    uploader: Account


@dataclass(frozen=True, slots=True)
class Vote:
    """An account's vote on the newest patch set."""

    label: str
    account: Account
    value: int
    tag: str = ""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file that a patch set touches."""

    path: str
    status: str = "M"
    """``A`` added, ``D`` deleted, ``R`` renamed, ``C`` copied, ``W`` rewritten, ``M`` modified."""
    old_path: str = ""
    """The source of a rename or a copy."""


@dataclass(frozen=True, slots=True)
class GerritChange:
    """A change, with the requested details."""

    number: int
    change_id: str
    """From the commit message: ``I`` and 40 hex digits."""
    project: str
    branch: str
    subject: str
    status: str
    """``NEW``, ``MERGED`` or ``ABANDONED``."""
    owner: Account
    updated: datetime
    """UTC."""
    patch_sets: tuple[PatchSet, ...]
    """By number; in a list of changes only the newest one."""
    votes: tuple[Vote, ...] = ()
    """On the newest patch set, if they were requested; votes of 0 are not included."""

    @property
    def current(self) -> PatchSet:
        """The newest patch set."""
        return self.patch_sets[-1]

    @property
    def is_open(self) -> bool:
        """Whether it is neither merged nor abandoned."""
        return self.status == "NEW"

    def patch_set(self, number: int) -> PatchSet:
        """Return one of its patch sets.

        :raises UsageError: if it has no patch set with that number.
        """
        for each in self.patch_sets:
            if each.number == number:
                return each
        known = ", ".join(str(each.number) for each in self.patch_sets)
        raise UsageError(f"change {self.number} has no patch set {number}; known are {known}")


def read_change(value: object) -> GerritChange:
    """Return a change from its JSON.

    :raises ValueError: if it is not a valid change.
    """
    found = validation.table(value)
    revisions = validation.table(found.get("revisions")).items()
    patch_sets = sorted((_patch_set(name, each) for name, each in revisions), key=lambda each: each.number)
    if not patch_sets:
        raise ValueError("a change without a patch set")
    return GerritChange(
        number=validation.whole(found.get("_number")),
        change_id=validation.some_text(found.get("change_id")),
        project=validation.some_text(found.get("project")),
        branch=validation.some_text(found.get("branch")),
        subject=validation.text(found.get("subject")),
        status=validation.some_text(found.get("status")),
        owner=read_account(found.get("owner")),
        updated=validation.moment(found.get("updated")),
        patch_sets=tuple(patch_sets),
        votes=tuple(read_votes(found)),
    )


def read_votes(found: Mapping[str, Any]) -> Iterator[Vote]:
    """Yield the votes of a change, except those of 0.

    :raises ValueError: if they are not valid.
    """
    for label, each in validation.table(found.get("labels") or {}).items():
        for given in validation.tables(validation.table(each).get("all")):
            if value := validation.optional(given.get("value")):
                yield Vote(
                    validation.text(label), read_account(given), value, validation.text(given.get("tag"))
                )


def read_files(value: object) -> tuple[ChangedFile, ...]:
    """Return the files of a patch set, by path.

    :raises ValueError: if the JSON is not a valid list of files.
    """
    found = validation.table(value).items()
    files = [_file(path, validation.table(each)) for path, each in found if path not in _NO_FILES]
    return tuple(sorted(files, key=lambda file: file.path))


def _file(path: str, found: Mapping[str, Any]) -> ChangedFile:
    return ChangedFile(
        validation.some_text(path),
        validation.text(found.get("status")) or "M",
        validation.text(found.get("old_path")),
    )


def _patch_set(revision: str, value: object) -> PatchSet:
    found = validation.table(value)
    return PatchSet(
        number=validation.whole(found.get("_number")),
        revision=validation.revision(revision),
        ref=validation.ref(found.get("ref")),
        parents=tuple(
            validation.revision(parent.get("commit"))
            for parent in validation.tables(validation.table(found.get("commit")).get("parents"))
        ),
        uploaded=validation.moment(found.get("created")),
        uploader=read_account(found.get("uploader")),
    )

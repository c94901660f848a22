"""Gerrit's REST API: requests, and responses that are validated and limited in size by the request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from perftrend.clients.gerrit import validation
from perftrend.clients.gerrit.changes import (
    DETAILS,
    Account,
    AccountGroup,
    ChangedFile,
    Comment,
    GerritChange,
    read_account,
    read_change,
    read_comments,
    read_files,
    read_group,
    read_messages,
)
from perftrend.clients.gerrit.transport import Query, Transport
from perftrend.errors import UsageError


class Api:
    """The requests of one user to one Gerrit."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    @cached_property
    def account(self) -> Account:
        """The account of the requests."""
        with validation.convert_errors(f"{self.transport.url}/accounts/self"):
            return read_account(self.transport.json("accounts/self"))

    def number(self, username: str) -> int | None:
        """Return the number of an account; None if none has the name, or the user cannot see it.

        A path with the name in it would work for most, but would interpret a name such as ``self`` or
        ``1000000`` differently.
        """
        if not username:
            return None
        found = self.transport.json("accounts/", [("q", f"username:{phrase(username)}"), ("o", "DETAILS")])
        with validation.convert_errors(f"{self.transport.url}/accounts/"):
            accounts = [read_account(each) for each in validation.tables(found)]
        named = [each.number for each in accounts if each.username.casefold() == username.casefold()]
        return named[0] if len(named) == 1 else None

    def groups_of(self, number: int) -> tuple[AccountGroup, ...]:
        """Return the groups of an account that the user can see."""
        found = self.transport.json(f"accounts/{number}/groups")
        with validation.convert_errors(f"{self.transport.url}/accounts/{number}/groups"):
            return tuple(read_group(each) for each in validation.tables(found))

    def groups(self) -> tuple[AccountGroup, ...]:
        """Return all groups that the user can see."""
        found = self.transport.json("groups/")
        with validation.convert_errors(f"{self.transport.url}/groups/"):
            named = [
                {**validation.table(each), "name": name} for name, each in validation.table(found).items()
            ]
            return tuple(read_group(each) for each in named)

    def change(self, number: int) -> GerritChange:
        """Return a change with all details except its messages."""
        return self.read_change(self.transport.json(change_path(number), options(DETAILS)))

    def change_with_messages(self, number: int) -> tuple[GerritChange, tuple[Comment, ...]]:
        """Return a change and its messages in one consistent state, without retries."""
        found = self.transport.json_once(change_path(number), options((*DETAILS, "MESSAGES")))
        with validation.convert_errors(f"{self.transport.url}/{change_path(number)}"):
            return read_change(found), read_messages(validation.table(found).get("messages"))

    def files(self, number: int, patch_set: int) -> tuple[ChangedFile, ...]:
        """Return the files of a patch set."""
        path = f"{change_path(number)}/revisions/{patch_set:d}/files"
        found = self.transport.json(path)
        with validation.convert_errors(f"{self.transport.url}/{path}"):
            return read_files(found)

    def comments(self, number: int) -> tuple[Comment, ...]:
        """Return the messages and the comments of a change."""
        # A comment added between the two requests has its message in the second response, and is read later.
        by_path = self.transport.json(f"{change_path(number)}/comments")
        messages = self.transport.json(f"{change_path(number)}/messages")
        with validation.convert_errors(f"{self.transport.url}/{change_path(number)}/comments"):
            return read_comments(messages, by_path)

    def changes(self, query: str, start: int, count: int, details: Sequence[str]) -> list[Mapping[str, Any]]:
        """Return the JSON of the changes that match a query, the last updated first."""
        bounds = [("q", query), ("n", str(count)), ("S", str(start))]
        found = self.transport.json("changes/", [*bounds, *options(details)])
        with validation.convert_errors(f"{self.transport.url}/changes/"):
            return validation.tables(found)

    def read_change(self, found: object) -> GerritChange:
        """Return a change from its JSON."""
        with validation.convert_errors(f"{self.transport.url}/changes/"):
            return read_change(found)


def change_path(number: int) -> str:
    """Return the path of a change.

    :raises UsageError: if the number is less than 1.
    """
    if number < 1:
        raise UsageError(f"no change has the number {number}; give the one that its page shows")
    return f"changes/{number:d}"


def options(names: Sequence[str]) -> Query:
    """Return the query parameters for detail options."""
    return [("o", name) for name in names]


def phrase(text: str) -> str:
    """Return a text as a quoted term of a query.

    :raises UsageError: if it cannot be quoted.
    """
    if '"' in text or "\\" in text or not text.isprintable():
        raise UsageError(f"{text!r} cannot be used in a query; give a name without quotes")
    return f'"{text}"'

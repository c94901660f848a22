"""Accounts and groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from perftrend.clients.gerrit import told


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
class Group:
    """A group of accounts."""

    identity: str
    """The UUID, which does not change if the group is renamed."""
    name: str


def read_account(value: object) -> Account:
    """Return an account from the JSON of a server or an event.

    :raises ValueError: if it is not a valid account.
    """
    told_of = told.table(value)
    return Account(
        number=told.optional(told_of.get("_account_id")),
        username=told.text(told_of.get("username")),
        name=told.text(told_of.get("name")),
        email=told.text(told_of.get("email")),
    )


def read_group(value: Mapping[str, Any]) -> Group:
    """Return a group from its JSON.

    :raises ValueError: if it is not a valid group.
    """
    return Group(unquote(told.some_text(value.get("id"))), told.text(value.get("name")))

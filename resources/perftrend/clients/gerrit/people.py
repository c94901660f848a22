"""Accounts and groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from perftrend.clients.gerrit import told


@dataclass(frozen=True, slots=True)
class Account:
    """Somebody, a person or a program."""

    number: int | None
    """What Gerrit knows the account by; an event does not tell it."""
    username: str = ""
    """Empty where the account has none, or may not be seen."""
    name: str = ""
    email: str = ""

    def is_same(self, other: Account) -> bool:
        """Tell whether two are one, as far as can be told."""
        if self.number is not None and other.number is not None:
            return self.number == other.number
        return bool(self.username) and self.username == other.username


@dataclass(frozen=True, slots=True)
class Group:
    """A group of accounts."""

    identity: str
    """What stays the same when it is renamed."""
    name: str


def read_account(value: object) -> Account:
    """Return the account that a server or an event tells of.

    :raises ValueError: if that is none.
    """
    told_of = told.table(value)
    return Account(
        number=told.optional(told_of.get("_account_id")),
        username=told.text(told_of.get("username")),
        name=told.text(told_of.get("name")),
        email=told.text(told_of.get("email")),
    )


def read_group(value: Mapping[str, Any]) -> Group:
    """Return the group that a server tells of.

    :raises ValueError: if that is none.
    """
    return Group(unquote(told.some_text(value.get("id"))), told.text(value.get("name")))

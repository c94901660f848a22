"""Accounts and groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from perftrend.clients.gerrit import validation


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

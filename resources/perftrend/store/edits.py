"""The results of edits, each made from a version, so that none overwrites the edit of another user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

_Entry = TypeVar("_Entry")


@dataclass(frozen=True, slots=True)
class EditResult(Generic[_Entry]):
    """The result of an edit of one entry, such as an alert or an annotation."""

    is_done: bool
    now: _Entry | None
    """The entry as it is now, or the deleted one; None if it does not exist."""


@dataclass(frozen=True, slots=True)
class BulkEditResult(Generic[_Entry]):
    """The result of an edit that changes all the entries that it names, or none."""

    now: tuple[_Entry, ...] = ()
    """The entries as they are now."""
    refused: tuple[_Entry, ...] = ()
    """Those that another user has changed meanwhile, as they are now."""
    gone: tuple[int, ...] = ()
    """Those that do not exist."""

    @property
    def is_done(self) -> bool:
        """Whether the entries are now as the edit states."""
        return not (self.refused or self.gone)

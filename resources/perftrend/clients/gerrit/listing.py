"""Changes updated since a point in time, requested page by page during the iteration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from perftrend.clients.gerrit.api import Api, phrase
from perftrend.clients.gerrit.changes import OUTLINE, Change
from perftrend.clients.web.refusals import TooLargeError
from perftrend.errors import UsageError

_PAGE = 100


def updated_since(
    api: Api, moment: datetime, projects: Sequence[str], maximum: int, page: int = _PAGE
) -> Iterator[Change]:
    """Yield changes, the last updated first, each once.

    :raises TooLargeError: after ``maximum`` of them, if there are more.
    :raises UsageError: if the moment has no time zone.
    """
    query = _query(moment, projects)
    seen: set[int] = set()
    start, is_more = 0, True
    while is_more:
        listed = api.changes(query, start, page, OUTLINE)
        for change in map(api.read_change, listed):
            # A change that is updated meanwhile moves to the front, and shifts another to the next page.
            if change.number in seen:
                continue
            if len(seen) == maximum:
                raise TooLargeError(
                    f"{api.transport.url}: more than {maximum} changes were updated since "
                    f"{moment:%Y-%m-%d %H:%M:%S %Z}; request fewer"
                )
            seen.add(change.number)
            yield change
        start += len(listed)
        is_more = bool(listed) and listed[-1].get("_more_changes") is True


def whole_second(moment: datetime) -> datetime:
    """Return a time without its fraction of a second, which Gerrit does not store."""
    return moment.replace(microsecond=0)


def _query(moment: datetime, projects: Sequence[str]) -> str:
    if moment.tzinfo is None:
        raise UsageError(f"{moment} has no time zone; give one")
    after = f'after:"{whole_second(moment).astimezone(UTC):%Y-%m-%d %H:%M:%S}"'
    chosen = " OR ".join(f"project:{phrase(name)}" for name in projects)
    return f"{after} ({chosen})" if chosen else after

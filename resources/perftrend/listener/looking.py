"""Looks for comments, and enters what they ask for into the store.

How far all comments are known is kept in the store by Gerrit's own clock. A little before that is looked at
again each time, for Gerrit's index may lag; what is known already is entered once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from perftrend.clients.gerrit import Gerrit, RefusedError
from perftrend.errors import UsageError
from perftrend.listener import asking
from perftrend.listener.asking import Review
from perftrend.listener.grammar import Grammar
from perftrend.listener.metrics import Metrics
from perftrend.store.requests import Request, Requests

_OVERLAP = timedelta(minutes=10)
_GONE = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
_MOST_CHANGES = 1_000_000
"""However long the listener was away, no comment is lost."""
_MOST_KNOWN = 100_000


class Looking:
    """Reads the comments of one Gerrit.

    :param look_back: how old a comment may be at the very first look.
    :param projects: where to look; none: everywhere.
    """

    def __init__(
        self,
        gerrit: Gerrit,
        requests: Requests,
        grammar: Grammar,
        *,
        projects: Sequence[str],
        look_back: timedelta,
        metrics: Metrics,
        say: Callable[[str], None],
    ) -> None:
        self._gerrit, self._requests, self._grammar = gerrit, requests, grammar
        self._projects, self._look_back = projects, look_back
        self._metrics, self._say = metrics, say
        self._known: dict[str, None] = {}
        """Comments that need no second look."""
        # Should Gerrit be away for longer than we look back, its comments count from now on all the same.
        self._mark()

    def everywhere(self) -> None:
        """Look at all changes that were updated since the last time.

        :raises ServiceError: if that could not be done to the end; the next time begins where this one did.
        """
        mark = self._mark()
        found = self._gerrit.updated_since(mark - _OVERLAP, projects=self._projects, maximum=_MOST_CHANGES)
        changes = list(found)
        self.at(change.number for change in changes)
        self._requests.set_mark(self._name, max([mark, *(change.updated for change in changes)]))

    def at(self, changes: Iterable[int]) -> None:
        """Look at some changes."""
        for number in sorted(set(changes)):
            try:
                new = self._new_reviews(number)
                asked = self._asked(number, new)
            except (RefusedError, UsageError) as error:
                if isinstance(error, RefusedError) and error.status not in _GONE:
                    raise
                self._say(f"change {number} is passed over: {error}")
                continue
            for each in self._requests.add(asked):
                self._metrics.requests.labels(each.job or "none", each.state.value).inc()
            self._remember(comment.identity for review in new for comment in review.comments)

    def _new_reviews(self, number: int) -> list[Review]:
        """Return the reviews of a change that have not been looked at."""
        comments, ours = self._gerrit.comments(number), self._gerrit.account
        tags = asking.answers(comments, ours=ours)
        return [
            review
            for review in asking.reviews(comments, ours=ours, since=self._mark() - _OVERLAP)
            if any(each.identity not in self._known for each in review.comments)
            # Served by another listener, whose store is not this one.
            and not (asking.is_answered(review, tags) and not self._requests.has_review(review.identity))
        ]

    def _asked(self, number: int, reviews: Iterable[Review]) -> list[Request]:
        asking_ones = [review for review in reviews if asking.asks(review, self._grammar)]
        if not asking_ones:
            return []
        change = self._gerrit.change(number)
        return [each for review in asking_ones for each in asking.requests(review, change, self._grammar)]

    def _remember(self, identities: Iterable[str]) -> None:
        new = [each for each in identities if each not in self._known]
        self._metrics.comments.inc(len(new))
        self._known |= dict.fromkeys(new)
        for each in list(self._known)[: max(0, len(self._known) - _MOST_KNOWN)]:
            del self._known[each]

    def _mark(self) -> datetime:
        """Return until when all comments are known."""
        mark = self._requests.mark(self._name)
        if mark is None:
            mark = datetime.now(UTC) - self._look_back + _OVERLAP
            self._requests.set_mark(self._name, mark)
        return mark

    @property
    def _name(self) -> str:
        return f"comments {self._gerrit.url}"[:255]

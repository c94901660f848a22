"""Polling of comments: reads them from Gerrit, and adds their requests to the store.

The store has a mark, by Gerrit's own clock, up to which all comments have been read. Each poll overlaps the
previous one, since Gerrit's index may lag; known requests are not added again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from perftrend.clients.gerrit import Gerrit, RefusedError
from perftrend.errors import UsageError
from perftrend.execution.job_request import Grammar
from perftrend.listener import request_extraction
from perftrend.listener.health import Metrics
from perftrend.listener.request_extraction import CommentReview
from perftrend.store.requests import Request, Requests

_OVERLAP = timedelta(minutes=10)
_GONE = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
_MOST_CHANGES = 1_000_000
"""Large enough that no comment is lost, however long the listener was down."""
_MOST_KNOWN = 100_000


class CommentPoller:
    """Reads the comments of one Gerrit server.

    :param look_back: maximum age of comments at the first poll.
    :param projects: projects to poll; empty: all.
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
        report: Callable[[str], None],
    ) -> None:
        self._gerrit, self._requests, self._grammar = gerrit, requests, grammar
        self._projects, self._look_back = projects, look_back
        self._metrics, self._report = metrics, report
        self._known: dict[str, None] = {}
        """Identities of comments that have been processed."""
        # Set the mark now: if Gerrit is then unavailable for longer than look_back, no comment is missed.
        self._mark()

    def everywhere(self) -> None:
        """Read all changes that were updated since the last poll.

        :raises ServiceError: if the poll was not completed; the next one begins at the same mark.
        """
        mark = self._mark()
        found = self._gerrit.changes_updated_since(
            mark - _OVERLAP, projects=self._projects, maximum=_MOST_CHANGES
        )
        changes = list(found)
        self.at(change.number for change in changes)
        self._requests.set_mark(self._name, max([mark, *(change.updated for change in changes)]))

    def at(self, changes: Iterable[int]) -> None:
        """Read the comments of some changes."""
        for number in sorted(set(changes)):
            try:
                new = self._new_reviews(number)
                requests = self._extract_requests(number, new)
            except (RefusedError, UsageError) as error:
                if isinstance(error, RefusedError) and error.status not in _GONE:
                    raise
                self._report(f"change {number} is skipped: {error}")
                continue
            for each in self._requests.add(requests):
                self._metrics.requests.labels(each.job or "none", each.state.value).inc()
            self._remember(comment.identity for review in new for comment in review.comments)

    def _new_reviews(self, number: int) -> list[CommentReview]:
        """Return the reviews of a change that have not been processed."""
        comments, ours = self._gerrit.comments(number), self._gerrit.account
        tags = request_extraction.answers(comments, ours=ours)
        return [
            review
            for review in request_extraction.reviews(comments, ours=ours, since=self._mark() - _OVERLAP)
            if any(each.identity not in self._known for each in review.comments)
            # Answered but not in this store: another listener has processed it.
            and not (
                request_extraction.is_answered(review, tags)
                and not self._requests.has_review(review.identity)
            )
        ]

    def _extract_requests(self, number: int, reviews: Iterable[CommentReview]) -> list[Request]:
        parsed = [request_extraction.parse_review(review, self._grammar) for review in reviews]
        with_requests = [each for each in parsed if each]
        if not with_requests:
            return []
        change = self._gerrit.change(number)
        return [each for one in with_requests for each in request_extraction.requests(one, change)]

    def _remember(self, identities: Iterable[str]) -> None:
        new = [each for each in identities if each not in self._known]
        self._metrics.comments.inc(len(new))
        self._known |= dict.fromkeys(new)
        for each in list(self._known)[: max(0, len(self._known) - _MOST_KNOWN)]:
            del self._known[each]

    def _mark(self) -> datetime:
        """Return the time up to which all comments have been read; initialize it if there is none."""
        mark = self._requests.mark(self._name)
        if mark is None:
            mark = datetime.now(UTC) - self._look_back + _OVERLAP
            self._requests.set_mark(self._name, mark)
        return mark

    @property
    def _name(self) -> str:
        return f"comments {self._gerrit.url}"[:255]

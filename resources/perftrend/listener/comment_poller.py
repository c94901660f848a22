"""Polling of changes: reads their comments from Gerrit, and adds the requests in them to the store.

The store has a mark, by Gerrit's own clock, up to which all comments have been read. Each poll overlaps the
previous one, since Gerrit's index may lag; known requests are not added again.

If jobs of a change may be queued or running, the poll also checks whether it was abandoned or has a new patch
set, which ends them (:mod:`perftrend.listener.cancellation`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from perftrend.clients.gerrit import Account, Comment, Gerrit, GerritChange, RefusedError
from perftrend.clients.gerrit.reviews import answer_tag
from perftrend.errors import UsageError
from perftrend.execution.comment_reviews import CommentReview, build_request, find_reviews, identity_of
from perftrend.execution.job_request import Grammar
from perftrend.listener import cancellation
from perftrend.listener.health import Metrics
from perftrend.store.requests import Request, Requests
from perftrend.trigger import Refusal, Trigger

LOG = logging.getLogger(__name__)

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
    ) -> None:
        self._gerrit, self._requests, self._grammar = gerrit, requests, grammar
        self._projects, self._look_back = projects, look_back
        self._metrics = metrics
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
        since = (mark - _OVERLAP).isoformat(timespec="seconds")
        LOG.debug("changes updated since %s: %d", since, len(changes))
        self.at(change.number for change in changes)
        self._requests.set_mark(self._name, max([mark, *(change.updated for change in changes)]))

    def at(self, changes: Iterable[int]) -> None:
        """Read the comments of some changes, and cancel what no longer matters."""
        numbers = sorted(set(changes))
        self._read_comments(numbers)
        for number in sorted(self._requests.active_changes() & set(numbers)):
            with self._skipped_if_gone(number):
                self._cancel_outdated(self._gerrit.change(number))

    def _read_comments(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            with self._skipped_if_gone(number):
                new = self._new_reviews(number)
                added = self._requests.add(self._extract_requests(number, new))
                LOG.debug("change %d: read; new reviews: %d, new requests: %d", number, len(new), len(added))
                for each in added:
                    self._metrics.requests.labels(each.job or "none", each.state.value).inc()
                self._remember(comment.identity for review in new for comment in review.comments)

    @contextmanager
    def _skipped_if_gone(self, number: int) -> Iterator[None]:
        try:
            yield
        except (RefusedError, UsageError) as error:
            if isinstance(error, RefusedError) and error.status not in _GONE:
                raise
            LOG.warning("change %d is skipped: %s", number, error)

    def _cancel_outdated(self, change: GerritChange) -> None:
        found = cancellation.of_update(
            change,
            self._requests.active_on(change.number),
            ours=identity_of(self._gerrit.account),
            now=datetime.now(UTC),
        )
        if found:
            by, targets = found
            LOG.debug("change %d: %s; jobs to end: %d", change.number, by.line, len(targets))
            self._requests.cancel(by, targets)
            self._metrics.requests.labels(by.job, by.state.value).inc()

    def _new_reviews(self, number: int) -> list[CommentReview]:
        """Return the reviews of a change that have not been processed."""
        comments, ours = self._gerrit.comments(number), self._gerrit.account
        tags = _answer_tags(comments, ours=ours)
        return [
            review
            for review in find_reviews(comments, ours=ours, since=self._mark() - _OVERLAP)
            if any(each.identity not in self._known for each in review.comments)
            # Answered but not in this store: another listener has processed it.
            and not (_is_answered(review, tags) and not self._requests.has_review(review.identity))
        ]

    def _extract_requests(self, number: int, reviews: Iterable[CommentReview]) -> list[Request]:
        parsed = [_parse_review(review, self._grammar) for review in reviews]
        with_requests = [each for each in parsed if each]
        if not with_requests:
            return []
        change = self._gerrit.change(number)
        return [each for one in with_requests for each in _build_requests(one, change)]

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


def _answer_tags(comments: Sequence[Comment], *, ours: Account) -> frozenset[str]:
    """Return the tags of the listener's replies on a change."""
    return frozenset(
        each.tag for each in comments if each.tag and each.author is not None and each.author.is_same(ours)
    )


def _is_answered(review: CommentReview, tags: frozenset[str]) -> bool:
    """Return whether the listener has replied to a review."""
    return any(answer_tag(each) in tags for each in review.comments)


@dataclass(frozen=True, slots=True)
class ParsedReview:
    """A review that contains requests."""

    review: CommentReview
    requests: Sequence[tuple[Comment, Trigger | Refusal]]
    """What it requests, each with the first comment in which it is."""


def _parse_review(review: CommentReview, grammar: Grammar) -> ParsedReview | None:
    """Parse the comments of a review; return None if none of them contains a request."""
    found = [(each, parsed) for each in review.comments if (parsed := grammar.parse(each.text))]
    if not found:
        return None
    # What several comments request together has limits of its own, and no duplicates.
    together = grammar.parse(each.text for each, _ in found) if len(found) > 1 else found[0][1]
    # Gerrit joins the comments that a user wrote in the same second, so that they may have different replies.
    origins = [next((each for each, parsed in found if one in parsed), found[0][0]) for one in together]
    return ParsedReview(review, list(zip(origins, together, strict=True)))


def _build_requests(parsed: ParsedReview, change: GerritChange) -> list[Request]:
    """Return the requests of a review.

    :param change: the change with all its patch sets.
    """
    return [
        build_request(
            parsed.review,
            comment,
            each,
            change=change,
            patch_set=change.patch_set(comment.patch_set) if comment.patch_set else change.current,
            place=place,
        )
        for place, (comment, each) in enumerate(parsed.requests)
    ]

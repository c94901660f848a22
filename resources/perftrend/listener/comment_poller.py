"""Sources of comments in Gerrit: its events, and polls of its changes.

The receiver of events wakes the listener at an event, and reconnects after a failure. An event only names
the change to read. If events may have been missed, because the connection was not yet established, was
broken, or because Gerrit dropped events, the listener polls all changes.

A poll reads the comments of changes, and adds the requests in them to the store. The store has a mark, by
Gerrit's own clock, up to which all comments have been read. Each poll overlaps the previous one, since
Gerrit's index may lag; known requests are not added again.

If jobs of a change may be queued or running, the poll also checks whether it was abandoned or has a new
patch set, which ends them (:mod:`perftrend.listener.cancellation`).
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from typing_extensions import override

from perftrend.clients.gerrit import (
    Account,
    ChangeUpdated,
    Comment,
    CommentAdded,
    EventsDropped,
    EventStream,
    Gerrit,
    GerritChange,
    RefusedError,
)
from perftrend.clients.gerrit.reviews import answer_tag
from perftrend.errors import PerftrendError, ServiceError, UsageError
from perftrend.execution.job_request import Grammar
from perftrend.execution.permissions import CommentReview, build_request, find_reviews, identity_of
from perftrend.listener import cancellation
from perftrend.listener.health import Metrics
from perftrend.store.requests import Request, Requests
from perftrend.trigger import Refusal, Trigger

LOG = logging.getLogger(__name__)

_IDLE_S = 5.0
"""Time after which a connection counts as established, since ssh does not report when it is."""
_LONGEST_END_S = 20.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0

_OVERLAP = timedelta(minutes=10)
_GONE = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
_MOST_CHANGES = 1_000_000
"""Large enough that no comment is lost, however long the listener was down."""
_MOST_KNOWN = 100_000


class Wakes:
    """The changes to read next; thread-safe."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._changes: set[int] = set()
        self._everywhere = False
        self._is_woken = False

    def wake(self, change: int | None = None, *, everywhere: bool = False) -> None:
        """Wake the waiting thread, to read a change, to poll all changes, or to check its own state."""
        with self._condition:
            if change is not None:
                self._changes.add(change)
            self._everywhere |= everywhere
            self._is_woken = True
            self._condition.notify_all()

    def drain(self) -> tuple[list[int], bool]:
        """Return the changes to read, and whether to poll all changes; reset both."""
        with self._condition:
            changes, everywhere = sorted(self._changes), self._everywhere
            self._changes.clear()
            self._everywhere = self._is_woken = False
        return changes, everywhere

    def wait(self, timeout_s: float) -> None:
        """Wait until :meth:`wake` is called, at most for the timeout."""
        with self._condition:
            self._condition.wait_for(lambda: self._is_woken, timeout_s)


class EventReceiver(threading.Thread):
    """A thread that receives events until it is stopped.

    :param listen: opens a stream of events.
    :param wakes: is woken for each comment, new patch set and abandoned change.
    :param projects: projects whose events are used; None: all.
    """

    def __init__(
        self,
        listen: Callable[[], EventStream],
        wakes: Wakes,
        *,
        projects: Container[str] | None,
        pause_s: float = _FIRST_PAUSE_S,
        idle_s: float = _IDLE_S,
    ) -> None:
        super().__init__(name="watch", daemon=True)
        self._listen, self._wakes, self._projects = listen, wakes, projects
        self._first_pause_s = self._pause_s = pause_s
        self._idle_s = idle_s
        self._stopping = threading.Event()
        self._stream: EventStream | None = None
        self.is_connected = False
        self.connected_at = time.monotonic()
        """Last time at which it was connected, or the time of the first attempt, by the monotonic clock."""
        self.problem = ""
        """Why it is not connected; empty if unknown or connected."""
        self.failure: PerftrendError | None = None
        """The error because of which it can never connect with these settings."""

    @override
    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except ServiceError as error:
                self._mark_disconnected(str(error))
            except PerftrendError as error:
                self.failure = error
                self._wakes.wake()
                return
            self._stopping.wait(self._pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - only jitter
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    def stop(self) -> None:
        """Stop the thread; if it does not stop in time, it ends with the process as a daemon thread."""
        self._stopping.set()
        if stream := self._stream:
            stream.close()
        with suppress(RuntimeError):
            self.join(_LONGEST_END_S)

    def _follow(self) -> None:
        with self._listen() as stream:
            self._stream = stream
            if self._stopping.is_set():
                return
            for event in stream.events(idle_s=self._idle_s):
                # A stream that is just being opened may not notice that it was closed.
                if self._stopping.is_set():
                    return
                self._mark_connected()
                if isinstance(event, EventsDropped):
                    LOG.debug("event: Gerrit has dropped events")
                    self._wakes.wake(everywhere=True)
                elif isinstance(event, CommentAdded | ChangeUpdated):
                    kind = type(event).__name__
                    LOG.debug("event: %s, change %d of the project %s", kind, event.change, event.project)
                    if self._is_ours(event.project):
                        self._wakes.wake(event.change)

    def _is_ours(self, project: str) -> bool:
        return self._projects is None or project in self._projects

    def _mark_connected(self) -> None:
        self.connected_at = time.monotonic()
        if not self.is_connected:
            LOG.debug("events: connected")
            self.is_connected, self.problem, self._pause_s = True, "", self._first_pause_s
            self._wakes.wake(everywhere=True)

    def _mark_disconnected(self, problem: str) -> None:
        if problem != self.problem:
            LOG.warning("%s", problem)
        self.is_connected, self.problem = False, problem


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

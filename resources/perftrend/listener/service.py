"""The main loop of the listener: polls comments, processes requests, and retries after failures."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from perftrend.clients.gerrit import UnavailableError
from perftrend.errors import PerftrendError, ServiceError, StoreError
from perftrend.execution import permissions
from perftrend.listener.comment_poller import CommentPoller, EventReceiver, Wakes
from perftrend.listener.health import Health, Metrics
from perftrend.listener.request_processor import RequestProcessor
from perftrend.store.claims import Leadership
from perftrend.store.requests import SERVED

LOG = logging.getLogger(__name__)

_SOON_S = 1.0
"""Interval between checks of running jobs, and of builds without a number."""
_TEND_S = 5.0
"""Interval between checks of the builds on Jenkins, and of requests of the dashboard."""
_SIGN_S = 60.0
"""Interval of the signs that the dashboard knows this listener by."""
_LONGEST_PAUSE_S = 60.0
_STANDBY_S = 5.0
"""Interval between attempts to take over."""


class ListenerService:
    """The main loop, which connects events, comments, requests and the runner.

    :param poller: reads the comments; None without Gerrit.
    :param poll_s: interval between polls of all changes, in addition to events.
    :param groups: groups whose members may start jobs; their existence is checked once.
    :param watch: receives events; None for a single poll, which needs none.
    :param leadership: decides which of several listeners serves the requests; None if there is only one.
    """

    def __init__(
        self,
        processor: RequestProcessor,
        *,
        poller: CommentPoller | None,
        wakes: Wakes,
        watch: EventReceiver | None,
        metrics: Metrics,
        groups: Sequence[str],
        poll_s: float,
        leadership: Leadership | None = None,
    ) -> None:
        self._leadership = leadership
        self._is_leader = True
        self._poller, self._processor = poller, processor
        self._wakes, self._watch, self._metrics = wakes, watch, metrics
        self._groups, self._poll_s = groups, poll_s
        self._is_prepared = False
        self._pause_s = _SOON_S
        self._looked_at = self._next_look = self._resume_at = time.monotonic()
        self._problem = ""
        self._signed_at: float | None = None

    def once(self) -> None:
        """Poll all changes once, and process requests until none is left that can be processed.

        :raises ServiceError: if a service fails.
        """
        self._prepare()
        if self._poller:
            self._poller.everywhere()
        while True:
            failure: ServiceError | None = None
            is_left = False
            try:
                is_left = self._processor.work()
            except ServiceError as error:
                failure = error
            # Local jobs are run even if other requests fail.
            if not (self._processor.runner.tend() or is_left):
                break
            time.sleep(_SOON_S)
        if failure:
            raise failure

    def run(self, is_ending: Callable[[], bool] = lambda: False) -> None:
        """Receive events and process requests until interrupted.

        :param is_ending: returns whether to end, in case that an error replaces the interruption.
        :raises PerftrendError: if the listener cannot work with these settings.
        """
        self._wakes.wake(everywhere=True)
        while True:
            self._check_watch()
            is_leader = self._leads()
            is_busy = is_leader and self._tend()
            if is_leader and time.monotonic() >= self._resume_at:
                is_busy |= self._attempt()
            if is_ending():
                return
            self._pause(is_leader=is_leader, is_busy=is_busy)

    def health(self) -> Health:
        """Return the health of the listener; thread-safe."""
        watch, now = self._watch, time.monotonic()
        is_connected = watch is None or watch.is_connected
        problems = [self._problem] if self._problem else []
        if watch and not watch.is_connected and now - watch.connected_at > self._poll_s:
            problems.append(watch.problem or "no connection to Gerrit's events has been established")
        behind_s = now - self._looked_at
        if behind_s > 2 * self._poll_s:
            problems.append(f"the comments were last read {behind_s:.0f} s ago")
        return Health(is_connected, behind_s, tuple(problems), is_standby=not self._is_leader)

    def metrics(self) -> bytes:
        """Return the metrics in the Prometheus text format; thread-safe."""
        health = self.health()
        self._metrics.connected.set(health.is_connected)
        self._metrics.serving.set(not health.is_standby)
        self._metrics.seconds_behind.set(health.seconds_behind)
        return self._metrics.text()

    def _pause(self, *, is_leader: bool, is_busy: bool) -> None:
        now = time.monotonic()
        if not is_leader:
            time.sleep(_STANDBY_S)
        elif now < self._resume_at:
            time.sleep(min(_SOON_S, self._resume_at - now))
        else:
            self._wakes.wait(min(_SOON_S if is_busy else _TEND_S, max(0.0, self._next_look - now)))

    def _leads(self) -> bool:
        """Return whether this listener serves the requests; take over if no other one does."""
        if self._leadership is None:
            return True
        try:
            is_leader = self._leadership.is_held()
        except StoreError as error:
            self._record_failure(error)
            is_leader = False
        else:
            if not is_leader:
                # The other listener reads the comments.
                self._looked_at, self._problem = time.monotonic(), ""
        if is_leader and not self._is_leader:
            LOG.info("no other listener serves the requests any longer; taking over")
            self._resume_at = time.monotonic()
            self._wakes.wake(everywhere=True)
        elif self._is_leader and not is_leader and not self._problem:
            LOG.info("another listener serves the requests; standing by")
        self._is_leader = is_leader
        return is_leader

    def _check_watch(self) -> None:
        if self._watch and not self._watch.is_alive():
            raise self._watch.failure or ServiceError("receiving events failed; restart the listener")

    def _attempt(self) -> bool:
        """Poll and process what is due; return whether to call this again soon."""
        began = time.monotonic()
        changes, everywhere = self._wakes.drain()
        everywhere |= began >= self._next_look
        has_looked = is_left = False
        try:
            self._prepare()
            if everywhere:
                if self._poller:
                    self._poller.everywhere()
                self._looked_at, self._next_look = began, began + self._poll_s
            if self._poller:
                self._poller.at(changes)
            has_looked = True
            is_left = self._serve()
        except (ServiceError, StoreError) as error:
            self._record_failure(error)
            if not has_looked:
                self._look_again(changes, everywhere=everywhere)
        else:
            self._problem, self._pause_s = "", _SOON_S
        return is_left

    def _look_again(self, changes: Sequence[int], *, everywhere: bool) -> None:
        for change in changes:
            self._wakes.wake(change)
        self._wakes.wake(everywhere=everywhere)

    def _prepare(self) -> None:
        gerrit = self._processor.gerrit
        if gerrit and not self._is_prepared and not permissions.includes_all_users(self._groups):
            gerrit.check_groups(self._groups)
            self._is_prepared = True

    def _serve(self) -> bool:
        now = time.monotonic()
        if self._signed_at is None or now - self._signed_at >= _SIGN_S:
            self._processor.requests.set_mark(SERVED, datetime.now(UTC))
            self._signed_at = now
        waits = self._processor.work()
        runs = self._processor.runner.tend()
        self._metrics.queue_length.set(self._processor.length())
        return waits or runs

    def _tend(self) -> bool:
        """Update the running jobs, independent of failures of Gerrit."""
        try:
            return self._processor.runner.tend()
        except StoreError as error:
            self._record_failure(error)
            return True

    def _record_failure(self, error: PerftrendError) -> None:
        """Record a failure, and schedule the next attempt."""
        if str(error) != self._problem:
            LOG.warning("%s", error)
        self._problem = str(error)
        self._metrics.failures.labels("store" if isinstance(error, StoreError) else "service").inc()
        retry_after_s = error.retry_after_s if isinstance(error, UnavailableError) else None
        self._resume_at = time.monotonic() + max(self._pause_s, min(retry_after_s or 0.0, _LONGEST_PAUSE_S))
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

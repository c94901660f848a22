"""Background tasks: threads that start and stop with the dashboard."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

from perftrend.dashboard.context import AppContext
from perftrend.errors import PerftrendError, explain

LOG = logging.getLogger(__name__)

Work: TypeAlias = Callable[[AppContext], AbstractContextManager[object]]
"""Returns a context manager: entering it starts the task, and the task has ended when it is left."""

RETRY_S = 60.0


def defect(error: Exception) -> str:
    """Return the message to show to users for an unexpected error; the log contains the details."""
    return f"a defect, {type(error).__name__}: {explain(error)}"


@contextmanager
def run_in_background(
    site: AppContext, work: Callable[[AppContext, threading.Event], None]
) -> Iterator[None]:
    """Run a task in a thread while the block runs.

    :param work: returns when it is done or when the event is set, which it checks about every second. If it
        raises an exception, for example because the store is unavailable, it is called again after
        :data:`RETRY_S`.
    """
    ending = threading.Event()
    thread = threading.Thread(target=_run_with_retries, args=(site, work, ending), name=work.__name__)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def _run_with_retries(
    site: AppContext, work: Callable[[AppContext, threading.Event], None], ending: threading.Event
) -> None:
    while not ending.is_set():
        try:
            with site.store.changes.suspend_commit_count():
                work(site, ending)
        except PerftrendError as error:
            LOG.error("%s: %s", work.__name__, error)
        except Exception as error:
            # A defect must not stop the task until the dashboard is restarted.
            LOG.exception("%s: %s: %s", work.__name__, type(error).__name__, error)
        else:
            return
        ending.wait(RETRY_S)

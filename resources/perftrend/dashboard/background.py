"""Work beside the requests: threads that begin and end with the dashboard."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

from perftrend.dashboard.site import Site
from perftrend.errors import PerftrendError, explained

LOG = logging.getLogger(__name__)

Work: TypeAlias = Callable[[Site], AbstractContextManager[object]]
"""Begins when the dashboard starts, as its context is entered, and has ended when that is left."""

RETRY_S = 60.0


def defect(error: Exception) -> str:
    """Return what people are told of an error that nobody expected; the log has the rest."""
    return f"a defect, {type(error).__name__}: {explained(error)}"


@contextmanager
def running(site: Site, work: Callable[[Site, threading.Event], None]) -> Iterator[None]:
    """Let something run in a thread as long as the block does.

    :param work: goes on until it is done or the event is set, which it looks at every second or so. What it
        cannot do now, such as reach the store, it says by a PerftrendError; it is called again later.
    """
    ending = threading.Event()
    thread = threading.Thread(target=_keep_on, args=(site, work, ending), name=work.__name__)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def _keep_on(site: Site, work: Callable[[Site, threading.Event], None], ending: threading.Event) -> None:
    while not ending.is_set():
        try:
            with site.store.changes.unhurried():
                work(site, ending)
        except PerftrendError as error:
            LOG.error("%s: %s", work.__name__, error)
        except Exception as error:
            # A defect in one piece of work must not end it until somebody starts the dashboard again.
            LOG.exception("%s: %s: %s", work.__name__, type(error).__name__, error)
        else:
            return
        ending.wait(RETRY_S)

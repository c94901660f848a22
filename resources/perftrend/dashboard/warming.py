"""Does beforehand what the first reader would wait for: reads the traces, compiles, packs.

It happens beside the requests, so the dashboard answers from the beginning. What was read stays as long as
the process. So it is taken out of the sight of Python's garbage collector, which otherwise goes through all
of it again and again, and lets everybody wait meanwhile.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from contextlib import AbstractContextManager

import numpy as np

from perftrend.analysis.mdl import partition
from perftrend.dashboard import static
from perftrend.dashboard.background import running
from perftrend.dashboard.pages import environment
from perftrend.dashboard.site import Site

LOG = logging.getLogger(__name__)


def warmed(site: Site) -> AbstractContextManager[None]:
    """Warm a dashboard up while it already serves."""
    return running(site, warm_up)


def warm_up(site: Site, ending: threading.Event) -> None:
    """Do what the first requests need; end early where the event is set."""
    begin = time.monotonic()
    for step in (_read_traces, _compile, _pack):
        if ending.is_set():
            return
        step(site)
    gc.collect()
    gc.freeze()
    LOG.info("warmed up in %.1f s", time.monotonic() - begin)


def _read_traces(site: Site) -> None:
    site.catalog.table()
    for testbed in site.store.tiles.testbeds():
        site.store.tiles.axis(testbed)


def _compile(_: Site) -> None:
    templates = environment()
    for name in templates.list_templates():
        templates.get_template(name)
    # Changes are looked for by compiled functions, and to load the compiler takes a second.
    partition(np.repeat([1e7, 2e7], 5))


def _pack(_: Site) -> None:
    static.prepare()

"""Does beforehand what the first reader would wait for: reads the traces, compiles, packs.

Nobody is answered before the traces are read, for nearly all pages need them; all else is done beside the
requests. What was read stays as long as the process. So it is taken out of the sight of Python's garbage
collector, which otherwise goes through all of it again and again, and lets everybody wait meanwhile.
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


def read_traces(site: Site) -> None:
    """Read all traces of the store, and where each testbed has its commits.

    :raises StoreError: if the store cannot be read.
    """
    # Until all are read there is no garbage among them, and to look for it takes as long as to read them.
    gc.disable()
    try:
        site.catalog.now()
        for testbed in site.store.tiles.testbeds():
            site.store.tiles.axis(testbed)
    finally:
        gc.enable()


def warmed(site: Site) -> AbstractContextManager[None]:
    """Do the rest while the dashboard already serves."""
    return running(site, warm_up)


def warm_up(_: Site, ending: threading.Event) -> None:
    """Compile and pack what the first requests need; end early where the event is set."""
    begin = time.monotonic()
    for step in (_compile, _pack):
        if ending.is_set():
            return
        step()
    gc.collect()
    gc.freeze()
    LOG.info("warmed up in %.1f s", time.monotonic() - begin)


def _compile() -> None:
    templates = environment()
    for name in templates.list_templates():
        templates.get_template(name)
    # Changes are looked for by compiled functions, and to load the compiler takes a second.
    partition(np.repeat([1e7, 2e7], 5))


def _pack() -> None:
    static.prepare()

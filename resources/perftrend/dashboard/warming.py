"""Does beforehand what the first readers would wait for: reads the traces, compiles, packs.

Nobody is answered before, so each page is as fast as it ever is. What was read stays as long as the process.
So it is taken out of the sight of Python's garbage collector, which otherwise goes through all of it again
and again, and lets everybody wait meanwhile.
"""

from __future__ import annotations

import gc

from perftrend.analysis import mdl
from perftrend.dashboard import static
from perftrend.dashboard.pages import environment
from perftrend.dashboard.site import Site

FEW_TRACES = 100
"""A store with fewer may never need the compiled search, which takes 0.6 s to load.

See :mod:`perftrend.analysis.mdl.engine`, which loads it if it is needed after all.
"""


def warm_up(site: Site) -> None:
    """Do what the first requests need.

    :raises StoreError: if the store cannot be read.
    """
    # What is read is no garbage, and to look for some in it takes as long as to read it.
    gc.disable()
    try:
        traces = _read(site)
        _compile_templates()
        if traces >= FEW_TRACES:
            mdl.load()
        static.prepare()
        gc.freeze()
    finally:
        gc.enable()


def _read(site: Site) -> int:
    """Read what every page needs; return the number of traces."""
    traces = site.catalog.now()
    for testbed in site.store.tiles.testbeds():
        site.store.tiles.axis(testbed)
    return len(traces.stored)


def _compile_templates() -> None:
    templates = environment()
    for name in templates.list_templates():
        templates.get_template(name)

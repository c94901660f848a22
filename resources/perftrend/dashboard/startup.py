"""Warm-up before the first request: reads the traces, compiles the templates, compresses static files.

The dashboard only serves requests afterwards, so the first pages are as fast as later ones. The loaded
objects live as long as the process. They are therefore frozen in Python's garbage collector, which would
otherwise traverse them repeatedly and delay requests.
"""

from __future__ import annotations

import gc

from perftrend.analysis import mdl
from perftrend.dashboard import static
from perftrend.dashboard.context import AppContext
from perftrend.dashboard.pages import environment

FEW_TRACES = 100
"""Minimum number of traces for loading the compiled search, which takes 0.6 s.

A smaller store may never need it; :mod:`perftrend.analysis.mdl.engine` loads it on demand.
"""


def warm_up(site: AppContext) -> None:
    """Prepare everything that the first requests need.

    :raises StoreError: if the store cannot be read.
    """
    # The loaded objects are not garbage, and collecting would take as long as reading them.
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


def _read(site: AppContext) -> int:
    """Read the data that every page needs, and return the number of traces."""
    traces = site.catalog.now()
    for testbed in site.store.tiles.testbeds():
        site.store.tiles.axis(testbed)
    return len(traces.stored)


def _compile_templates() -> None:
    templates = environment()
    for name in templates.list_templates():
        templates.get_template(name)

"""The cache of compiled code, so that it is compiled once and not by each process.

In a virtual environment the cache is its directory ``cache``, which all users of the environment share. If
that cannot be written, and without an environment, numba stores the code next to the source or in the user's
cache directory. ``NUMBA_CACHE_DIR`` overrides all of them. If nothing can be written, each process compiles.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import sys
from pathlib import Path

from numba import config
from numba.core import event
from typing_extensions import override

MODULES = ("cost_terms", "kernel", "level_path", "pruning", "simd_kernel", "trim")
"""Compiled modules: numba notices changes of a function's own file, but not of functions that it inlines."""


def digest() -> str:
    """Return a hash of the sources of the compiled code."""
    found = hashlib.sha256()
    for name in MODULES:
        found.update(Path(__file__).with_name(f"{name}.py").read_bytes())
    return found.hexdigest()[:12]


def prepare_cache() -> None:
    """Set the directory where numba stores compiled code, and log a message if something is compiled."""
    # numba creates its settings when it is imported, so type checkers do not find them.
    if sys.prefix != sys.base_prefix and not config.CACHE_DIR:  # type: ignore[attr-defined]
        config.CACHE_DIR = str(Path(sys.prefix, "cache", f"numba-{digest()}"))  # type: ignore[attr-defined]
    event.register("numba:compile", CompilingListener())


@functools.cache
def announce() -> None:
    """Log why the process waits, once per process."""
    logging.getLogger(__name__).warning("compiling the search for changes; this can take a minute...")


class CompilingListener(event.Listener):
    """A listener that logs a message if something is compiled because it is not in the cache."""

    @override
    def on_start(self, _event: event.Event) -> None:
        announce()

    @override
    def on_end(self, _event: event.Event) -> None:
        """Do nothing."""

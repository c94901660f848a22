"""Where compiled code is stored, so that it is compiled once and not by each process.

In a virtual environment it is the directory ``cache`` of the environment, which its users share. If that
cannot be written, and without an environment, numba stores it next to the source or in the user's cache
directory. ``NUMBA_CACHE_DIR`` overrides all of them. If nothing can be written, each process compiles.
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

MODULES = ("kernel", "lanes", "levels", "screening", "terms", "trim")
"""What is compiled. numba notices a change of the file that a function is in, but not of what it inlines."""


def digest() -> str:
    """Return what identifies the sources of the compiled code."""
    found = hashlib.sha256()
    for name in MODULES:
        found.update(Path(__file__).with_name(f"{name}.py").read_bytes())
    return found.hexdigest()[:12]


def prepare_cache() -> None:
    """Choose where numba will store what it compiles, and announce compiling if nothing is stored yet."""
    # numba makes its settings when it is imported, so that nothing declares them.
    if sys.prefix != sys.base_prefix and not config.CACHE_DIR:  # type: ignore[attr-defined]
        config.CACHE_DIR = str(Path(sys.prefix, "cache", f"numba-{digest()}"))  # type: ignore[attr-defined]
    event.register("numba:compile", CompilingListener())


@functools.cache
def announce() -> None:
    """Log why it takes long, once in a process."""
    logging.getLogger(__name__).warning("compiling the search for changes; this can take a minute...")


class CompilingListener(event.Listener):
    """Announces that something is compiled, because it is not in the cache."""

    @override
    def on_start(self, _event: event.Event) -> None:
        announce()

    @override
    def on_end(self, _event: event.Event) -> None:
        """Nothing is to be announced."""

"""Where compiled code is stored, so that it is compiled once and not by each process.

It is stored in the first of these that can be used:

* the directory that ``NUMBA_CACHE_DIR`` names;
* ``cache`` of the virtual environment, which its users share; a read-only one can be used if it holds the
  code;
* where numba stores code by default: ``__pycache__`` next to the source, then the user's cache directory.

If none can be used, each process that needs the code compiles it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Self

from numba.core import caching

MODULES = ("kernel", "lanes", "levels", "screening", "terms", "trim")
"""What is compiled. The code of one is inlined in others, so all are compiled again if one changes."""

_log = logging.getLogger(__name__)


@functools.cache
def digest() -> str:
    """Return what identifies the sources of the compiled code."""
    found = hashlib.sha256()
    for name in MODULES:
        found.update(Path(__file__).with_name(f"{name}.py").read_bytes())
    return found.hexdigest()[:12]


@functools.cache
def announce() -> None:
    """Log why it takes long, once in a process."""
    _log.warning("compiling the search for changes; this can take a minute...")


class EnvironmentLocator(caching.UserProvidedCacheLocator):
    """A directory of the virtual environment."""

    def __init__(self, function: Callable[..., object], source: str) -> None:
        super().__init__(function, source)
        self._folder = Path(sys.prefix, "cache", "numba", self.get_suitable_cache_subpath(source))
        self._cache_path = str(self._folder)
        self._name = function.__qualname__

    @classmethod
    def from_function(cls, function: Callable[..., object], source: str) -> Self | None:
        """Return the directory for a function, None if it cannot be used."""
        if sys.prefix == sys.base_prefix:
            return None
        found = cls(function, source)
        try:
            found.ensure_cache_path()
        except OSError:
            return None
        return found

    def ensure_cache_path(self) -> None:
        """Make the directory.

        :raises OSError: if it cannot be written and does not hold the function.
        """
        try:
            super().ensure_cache_path()
        except OSError:
            if not any(self._folder.glob(f"*.{self._name}-*-{digest()}.nbi")):
                raise


class _Storage(caching.CompileResultCacheImpl):
    _locator_classes: list[type[object]] = [  # noqa: RUF012 - as numba declares it
        caching.UserProvidedCacheLocator,
        EnvironmentLocator,
        caching.InTreeCacheLocator,
        caching.UserWideCacheLocator,
    ]

    def get_filename_base(self, name: str, flags: str) -> str:
        """Return how the names of a function's files begin."""
        return f"{super().get_filename_base(name, flags)}-{digest()}"


class Cache(caching.FunctionCache):
    """The stored code of one function; code that cannot be read or written costs time only.

    :raises RuntimeError: if there is no directory to store it in.
    """

    _impl_class = _Storage

    def load_overload(self, signature: object, context: object) -> object:
        """Return the code for arguments of these types; None if it is not stored, or cannot be read."""
        try:
            found = super().load_overload(signature, context)
        except (OSError, EOFError, pickle.PickleError):
            # A machine that crashed may leave empty files behind.
            with contextlib.suppress(OSError):
                self.flush()
            found = None
        if found is None:
            announce()
        return found

    def save_overload(self, signature: object, code: object) -> None:
        """Store the code, if it can be."""
        with contextlib.suppress(OSError):
            super().save_overload(signature, code)

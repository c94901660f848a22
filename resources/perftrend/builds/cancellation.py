"""Cancellation of a running build that is not needed any longer."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Self


class StoppedError(Exception):
    """Ends a build that was cancelled; it is not reported to users."""


class Stop:
    """Set by one thread, while another polls it, among other things, until it leaves ``with``."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        self._is_open, self._is_set = True, False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._is_open = False
            os.close(self._descriptor)

    def fileno(self) -> int:
        """Return a descriptor that can be read from when this is set."""
        return self._descriptor

    def check(self) -> None:
        """Return unless this is set. :raises StoppedError: if it is."""
        if self._is_set:
            raise StoppedError

    def set(self) -> None:
        """Stop the thread that polls this; allowed also when none does any longer."""
        with self._lock:
            self._is_set = True
            if self._is_open:
                os.eventfd_write(self._descriptor, 1)

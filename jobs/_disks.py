"""Saying which disk is full: the kernel does not, where a file was opened while there was room."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perftrend.settings import Settings


@contextmanager
def full_one_named(settings: Settings) -> Iterator[None]:
    """Let an error of a full disk say where that is: the folder of the settings with the least room."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC and not error.filename:
            folders = (settings.archive, settings.report, settings.bisect.sessions, settings.project.builds)
            there = [each for each in folders if each.is_dir()] or [Path()]
            error.filename = str(min(there, key=lambda each: shutil.disk_usage(each).free))
        raise

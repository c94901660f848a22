"""The folder of a full disk for error messages: the kernel does not report it for files that are open."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perftrend.settings import Settings


@contextmanager
def full_one_named(settings: Settings) -> Iterator[None]:
    """Add the folder of the settings with the least free space to ENOSPC errors that name no file."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC and not error.filename:
            folders = (settings.archive, settings.report, settings.bisect.sessions, settings.project.builds)
            there = [each for each in folders if each.is_dir()] or [Path()]
            error.filename = str(min(there, key=lambda each: shutil.disk_usage(each).free))
        raise

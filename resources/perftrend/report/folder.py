"""The folder of a report: its file names, the templates of its pages, and its replacement as a whole.

A single page needs no script, so that it displays under Jenkins's policy for artifacts.

Readers see the old folder or the new one, never half of one: the new content is written next to the old
one, and one system call exchanges the two. An error or a kill before that leaves the old one unchanged.
"""

from __future__ import annotations

import ctypes
import errno
import glob
import json
import os
import secrets
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from perftrend.errors import UsageError
from perftrend.text import plain

INDEX, STYLE, MESSAGE, CONSOLE = "index.html", "style.css", "message.txt", "console.txt"
NAMES = frozenset(
    {INDEX, STYLE, "report.js", "plotly.min.js", "report.json", "data", "mails"}
    | {"perftest.json", "bisection.json", MESSAGE, CONSOLE}
)
"""All names in the folder of any kind of report; the mails are written after the report."""
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_CANNOT_EXCHANGE = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP})
_ABANDONED_S = 3600.0


def write_files(directory: Path, files: Mapping[str, str]) -> Path:
    """Write a report into a directory of its own, and replace an old report as a whole.

    :param files: their texts by name.
    :returns: the path of the page.
    :raises UsageError: if the directory contains anything that is not part of a report.
    :raises OSError: if it cannot be written; an old report is then unchanged.
    """
    with replace_directory(directory, names=NAMES) as fresh:
        for name, text in files.items():
            (fresh / name).write_text(text, encoding="utf-8")
    return directory / INDEX


def render(template: str, **values: object) -> str:
    """Render a page."""
    return _templates().get_template(template).render(**values)


@cache
def _templates() -> jinja2.Environment:
    # A search writes its page after each step, so the compiled template is cached.
    found = environment()
    found.filters |= {"plain": plain, "moment": _moment, "signed": _use_minus_sign}
    return found


def style(*names: str) -> str:
    """Return the style sheet of all reports, followed by those for some kinds of reports."""
    folder = resources.files("perftrend.report").joinpath("templates")
    return "".join(folder.joinpath(name).read_text("utf-8") for name in (STYLE, *names))


def format_json(document: Mapping[str, Any]) -> str:
    """Return a report's document as JSON."""
    return json.dumps(document, allow_nan=False, indent=1) + "\n"


def _moment(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}" if moment else ""


def _use_minus_sign(text: str) -> str:
    """Replace hyphens by the true minus sign, which is as wide as the plus."""
    return text.replace("-", "\N{MINUS SIGN}")


@contextmanager
def replace_directory(directory: Path, *, names: Collection[str]) -> Iterator[Path]:
    """Yield an empty directory to fill, which replaces ``directory`` at the end.

    :param directory: the directory to replace; its parents are created.
    :param names: the names that the old directory may contain; other files are not ours to delete.
    :raises UsageError: if the old directory contains anything else, or is a file.
    :raises OSError: if a file cannot be written; nothing is changed then.
    """
    target = directory.resolve()
    _refuse_foreign(target, names=names)
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(target)
    # Not tempfile: only the owner can read its directories, and a web server runs as another user.
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    fresh.mkdir()
    try:
        yield fresh
        _swap(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _refuse_foreign(target: Path, *, names: Collection[str]) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise UsageError(f"{target} is a file; name a directory for the report")
    foreign = sorted(entry.name for entry in target.iterdir() if entry.name not in names)
    if foreign:
        raise UsageError(
            f"{target} contains {foreign[0]!r}, which is not part of a report; name a separate directory"
        )


def _remove_abandoned(target: Path) -> None:
    """Remove leftovers of killed writers; a recent one may still be in use."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        # Another writer may remove it at the same time.
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(left, ignore_errors=True)


def _swap(fresh: Path, target: Path) -> None:
    if not target.exists():
        fresh.rename(target)
        return
    try:
        _exchange(fresh, target)
    except OSError as error:
        if error.errno not in _CANNOT_EXCHANGE:
            raise
        # A file system without exchange: for a moment there is no report, but never half of one.
        old = fresh.with_suffix(".old.tmp")
        target.rename(old)
        try:
            fresh.rename(target)
        except OSError:
            old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> None:
    """Exchange two directories; see renameat2(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(other))


def environment() -> jinja2.Environment:
    """Return an environment of HTML and SVG templates.

    It escapes everything, and raises errors for undefined variables.
    """
    return jinja2.Environment(
        loader=jinja2.PackageLoader(__package__),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

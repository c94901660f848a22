"""Output of a job: its verdict, texts, warnings and log, also to a pipe whose reader closes it.

A closed pipe, as in ``./run trending | head``, is an error of the next write. It must not end a job that does
more than printing: the rest of the output is discarded, and the job continues to its own exit code.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from typing_extensions import override

from perftrend.text import line


def print_verdict(verdict: str) -> None:
    """Print the line that Jenkins shows as the description of the build."""
    print_text(f"perftrend verdict: {verdict}")


def print_text(text: str) -> None:
    """Print a text; characters that the encoding cannot represent become question marks."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), flush=True)


def terminal_width() -> int | None:
    """Return the number of columns of the terminal that the output goes to; None if it goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def warn(message: str) -> None:
    """Print a warning on standard error."""
    print(f"perftrend: {message}", file=sys.stderr, flush=True)


@contextmanager
def show_log(level: str) -> Iterator[None]:
    """Print the log of perftrend on standard error during the block, each event on one line.

    :param level: of the least severe events that are printed, as in ``log_level`` of the settings.
    """
    log, handler = logging.getLogger("perftrend"), _LogHandler()
    before = log.level
    log.addHandler(handler)
    log.setLevel(level.upper())
    try:
        yield
    finally:
        log.setLevel(before)
        log.removeHandler(handler)


class _LogHandler(logging.Handler):
    @override
    def emit(self, record: logging.LogRecord) -> None:
        # A line that a person wrote in a comment must not control the terminal.
        warn(line(self.format(record)))


@contextmanager
def discard_unread_output() -> Iterator[None]:
    """Continue to the end of the block if the reader of standard output or standard error closes it."""
    originals = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123 - os.devnull is a string
        # A stream that was closed before the start is None.
        sys.stdout, sys.stderr = (cast("TextIO", _Output(stream or nowhere)) for stream in originals)
        try:
            yield
        finally:
            for stream in (sys.stdout, sys.stderr):
                # The interpreter flushes once more, and reports other errors of a stream.
                with suppress(OSError):
                    stream.flush()
            sys.stdout, sys.stderr = originals


class _Output:
    """A text stream that discards output if the pipe is closed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the type of the stream's attribute
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._discard_if_closed():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._discard_if_closed():
            self._stream.flush()

    @contextmanager
    def _discard_if_closed(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            # The stream still holds the text, and writes it to the null device from now on.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

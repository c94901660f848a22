"""Output of a job: its verdict, texts, progress, warnings and log, also to a pipe whose reader closes it.

A closed pipe, as in ``./run trending | head``, is an error of the next write. It must not end a job that
does more than printing: the rest of the output is discarded, and the job continues to its own exit code.

Progress is one line, which changes on a terminal and is printed once a minute in a log. No thread runs for
that, so that measurements are not disturbed: the line does not change without new progress.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self, TextIO, cast

from rich.console import Console
from rich.live import Live
from rich.text import Text
from typing_extensions import override

from perftrend.text import line

LOG_EVERY_S = 60.0


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


class ProgressLine:
    """Shows a line, from entering to leaving.

    :param output: receives the line in a log, or the changing line, if this is a terminal.
    :param terminal: a terminal to use if the output is not one.
    :param guard_errors: whether output of others to standard error is separated from the line.
    """

    def __init__(self, output: TextIO, *, terminal: TextIO | None = None, guard_errors: bool = False) -> None:
        self._output = output
        self._terminal = output if output.isatty() else terminal
        self._guard_errors = guard_errors
        self._live: Live | None = None
        self._logged = time.monotonic()

    def __enter__(self) -> Self:
        if self._terminal is not None:
            self._live = Live(
                console=Console(file=self._terminal, force_terminal=True, width=_columns(self._terminal)),
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=self._guard_errors,
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def clear(self) -> None:
        """Clear the line on the terminal for other output."""
        if self._live is not None:
            self._live.update(Text(""), refresh=True)

    def show(self, line: str) -> None:
        """Show the progress."""
        if self._live is not None:
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
        elif time.monotonic() - self._logged >= LOG_EVERY_S:
            self._logged = time.monotonic()
            self._output.write(f"{line}\n")
            self._output.flush()


def _columns(terminal: TextIO) -> int | None:
    """Return the width of a terminal, which may differ from that of the standard streams; None: unknown."""
    try:
        return os.get_terminal_size(terminal.fileno()).columns or None
    except OSError:
        return None

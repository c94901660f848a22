"""Progress of a task, in one line: it changes on a terminal, and is printed once a minute in a log.

No thread runs for that, so that measurements are not disturbed: the line does not change without new
progress.
"""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

LOG_EVERY_S = 60.0


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

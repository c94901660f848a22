"""How far something is, in one line: it changes on a terminal, and comes once a minute in a log.

No thread runs for that: nothing shall disturb what is measured, so a line stands still while nothing
new is told.
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

    :param output: where the line comes in a log, or changes, if this is a terminal.
    :param terminal: one that somebody looks at where the output is none.
    :param guard_errors: whether what others write to standard error meanwhile stays clear of the line.
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
        """Make room on the terminal for a line of somebody else."""
        if self._live is not None:
            self._live.update(Text(""), refresh=True)

    def show(self, line: str) -> None:
        """Show how far it is by now."""
        if self._live is not None:
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
        elif time.monotonic() - self._logged >= LOG_EVERY_S:
            self._logged = time.monotonic()
            self._output.write(f"{line}\n")
            self._output.flush()


def _columns(terminal: TextIO) -> int | None:
    """Return the width of a terminal, which need not be that of any standard stream; None: unknown."""
    try:
        return os.get_terminal_size(terminal.fileno()).columns or None
    except OSError:
        return None

"""Every exception of perftrend, and its exit code.

=========  =============================================================
exit code  meaning
=========  =============================================================
0          all tests pass
1          a regression was found: the verdict of the job, not an error
2          bad use or bad input
3          an external service failed
4          a testbed failed, or a test has no valid result
5          a regression was found, and the settings make the job unstable for it
130        interrupted (Ctrl-C or SIGTERM): the running run is discarded completely
=========  =============================================================

::

    PerftrendError            2
    ├── UsageError            2   an option or a tag expression that cannot be used
    │   ├── FormulaError      2   a formula, a query or a trace id that is not valid
    │   └── NoNumbersError    2   a command that prints no numbers, whatever the commit
    ├── SettingsError         2   a setting, a testbed file or a parameter that is not valid
    ├── ArchiveError          2   an archived output that cannot be read
    ├── BuildError            2   a commit of the product that cannot be built or installed
    ├── StoreError            3   a store that cannot be opened, read or written
    │   ├── StoreFullError    3   a store whose disk is full
    │   ├── NewerStoreError   3   a store that a newer perftrend has upgraded
    │   ├── NoStoreError      3   a file or a database that is not a store
    │   └── UnstorableError   2   a run that no store can hold, or that contradicts its contents
    ├── ServiceError          3   Jenkins, Gerrit, a mail or a file server
    └── TestbedError          4   a traffic generator or a device
        └── SearchTimeoutError 4   a search that timed out

A message is one line: what was wrong, where, and what to do.
"""

from __future__ import annotations

import difflib
import errno
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

EXIT_PASS = 0
EXIT_REGRESSION = 1
EXIT_USAGE = 2
EXIT_SERVICE = 3
EXIT_TESTBED = 4
EXIT_UNSTABLE = 5
EXIT_INTERRUPTED = 130

_OS_HINTS = {
    errno.ENOSPC: "; free some space or choose another place, then run again",
    errno.EACCES: "; give this user the permission or choose another place",
    errno.EPERM: "; give this user the permission or choose another place",
    errno.EROFS: "; choose a place that can be written",
}


class PerftrendError(Exception):
    """The base class: an error that a user can understand and act on."""

    exit_code = EXIT_USAGE


class UsageError(PerftrendError):
    """An option or an argument that cannot be used."""


class FormulaError(UsageError):
    """A formula, a query or a trace id that is not valid.

    :param subject: which of them it is.
    :param position: offset of the error, from 0; the message counts from 1.
    :param reason: what is wrong there, and what to write instead.
    """

    def __init__(self, subject: str, position: int, reason: str) -> None:
        super().__init__(f"{subject}, character {position + 1}: {reason}")
        self.subject = subject
        self.position = position
        self.reason = reason


class NoNumbersError(UsageError):
    """A command that prints no numbers, whatever the commit, so that nothing can be compared."""

    def __init__(self, message: str, *, last_lines: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.last_lines = last_lines
        """The last lines of its output."""


class SettingsError(PerftrendError):
    """A setting, a testbed file or a parameter that is not valid."""


class ArchiveError(PerftrendError):
    """An archived output that cannot be read."""


class BuildError(PerftrendError):
    """A commit of the product that cannot be built or installed."""

    def __init__(
        self, message: str, *, step: str = "", log: str = "", last_lines: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.step = step
        """The step that failed: ``build``, ``artifacts``, ``install``, ``identify`` or ``measure``."""
        self.log = log
        """The file with the whole output of the commands."""
        self.last_lines = last_lines
        """The last lines of their output."""


class StoreError(PerftrendError):
    """A store that cannot be opened, read or written."""

    exit_code = EXIT_SERVICE


class StoreFullError(StoreError):
    """A store that cannot be written because its disk is full."""


class NewerStoreError(StoreError):
    """A store that a newer perftrend has upgraded."""


class NoStoreError(StoreError):
    """A file that is not a database, or the database of another program."""


class UnstorableError(StoreError):
    """A run that no store can hold, or that contradicts its contents: another run may still be stored."""

    exit_code = EXIT_USAGE


class ServiceError(PerftrendError):
    """An external service that refused, failed or did not respond."""

    exit_code = EXIT_SERVICE


class TestbedError(PerftrendError):
    """A traffic generator or a device that cannot be used."""

    # pytest would otherwise collect a class of this name as tests.
    __test__ = False

    exit_code = EXIT_TESTBED


class SearchTimeoutError(TestbedError):
    """A search that timed out.

    ``result`` is the state at the time-out: a SearchResult, or the Measurement of a test.
    """

    def __init__(self, message: str, result: object = None) -> None:
        super().__init__(message)
        self.result = result


class ExitStatus:
    """The exit code of a block that runs inside :func:`report_to_stderr`."""

    def __init__(self) -> None:
        self.exit_code = EXIT_PASS
        self.is_ending = False
        """Whether the job was interrupted by SIGTERM, even if an error replaced the interruption."""


@contextmanager
def report_to_stderr() -> Iterator[ExitStatus]:
    """Convert the errors that a user can act on to one line on stderr and an exit code.

    The last lines of the output of a failed command precede it.

    Used once, around the whole of a job's ``main``. A traceback that passes through is a defect.

    ::

        with errors.report_to_stderr() as outcome:
            outcome.exit_code = trend(options)
        return outcome.exit_code
    """
    outcome = ExitStatus()
    try:
        yield outcome
    except PerftrendError as error:
        if isinstance(error, BuildError | NoNumbersError):
            sys.stderr.writelines(f"    {line}\n" for line in error.last_lines)
        outcome.exit_code = _write_error(str(error), error.exit_code)
    except KeyboardInterrupt:
        outcome.exit_code = _write_error("interrupted", EXIT_INTERRUPTED)
    except OSError as error:
        outcome.exit_code = _write_error(explain(error), EXIT_SERVICE)


def replaces_interruption(error: BaseException) -> bool:
    """Return whether an error was raised while an interruption was handled.

    A library cleans up when it is interrupted. If that fails, its error replaces the interruption.
    """
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, KeyboardInterrupt):
            return True
        current = current.__cause__ or current.__context__
    return False


def explain(error: BaseException) -> str:
    """Return the message of an error for users, in one line."""
    message = str(error)
    if isinstance(error, OSError):
        # A full disk or a missing permission can affect any write; its hint is the same everywhere.
        place = f"{error.filename}: " if error.filename else ""
        message = f"{place}{error.strerror or error}{_OS_HINTS.get(error.errno or 0, '')}"
    return " ".join(message.split())


def _write_error(message: str, exit_code: int) -> int:
    sys.stderr.write(f"perftrend: {' '.join(message.split())}\n")
    return exit_code


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return the known word that was probably meant: ``"; did you mean 'x'?"``, or all the choices.

    :param word: the unknown word.
    :param choices: the known words.
    :returns: the end of an error message, beginning with ``"; "``.
    """
    known = sorted(choices)
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known are {', '.join(known)}" if known else "; none is known"

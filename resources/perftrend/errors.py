"""Every exception of perftrend, and the exit code that each one ends a job with.

=========  =============================================================
exit code  meaning
=========  =============================================================
0          all tests pass
1          a regression was found: the verdict of the job, not an error
2          bad use or bad input
3          an outside service failed
4          a testbed failed, or a test has no result that can be trusted
5          a regression was found, and the settings say that it makes the job unstable
130        interrupted (Ctrl-C or SIGTERM): the run under way is dropped whole
=========  =============================================================

::

    PerftrendError            2
    ├── UsageError            2   an option or a tag expression that cannot be used
    │   └── FormulaError      2   a formula, a query or a trace id that cannot be understood
    ├── SettingsError         2   a setting, a testbed file or a parameter that is wrong
    ├── ArchiveError          2   an archived output that cannot be read
    ├── BuildError            2   a commit of the product that cannot be built or installed
    ├── StoreError            3   a store that cannot be opened, read or written
    │   ├── StoreFullError    3   a store whose disk is full
    │   └── UnstorableError   2   a run that no store can hold, or that contradicts what it holds
    ├── ServiceError          3   Jenkins, Gerrit, a mail or a file server
    └── TestbedError          4   a traffic generator or a device
        └── SearchTimeoutError 4   a search that took longer than it may

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
    """The base of all: something that a person can understand and act on."""

    exit_code = EXIT_USAGE


class UsageError(PerftrendError):
    """An option or an argument that cannot be used."""


class FormulaError(UsageError):
    """A formula, a query or a trace id that cannot be understood.

    :param subject: which of them it is.
    :param position: offset of what is wrong, from 0; people are told it from 1.
    :param reason: what is wrong there, and what to write instead.
    """

    def __init__(self, subject: str, position: int, reason: str) -> None:
        super().__init__(f"{subject}, character {position + 1}: {reason}")
        self.subject = subject
        self.position = position
        self.reason = reason


class SettingsError(PerftrendError):
    """A setting, a testbed file or a parameter that is wrong."""


class ArchiveError(PerftrendError):
    """An archived output that cannot be read."""


class BuildError(PerftrendError):
    """A commit of the product that cannot be built or installed."""

    def __init__(
        self, message: str, *, step: str = "", log: str = "", last_lines: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.step = step
        """What failed: ``build``, ``artifacts``, ``install``, ``identify`` or ``measure``."""
        self.log = log
        """The file with all that the commands said."""
        self.last_lines = last_lines
        """What they said last."""


class StoreError(PerftrendError):
    """A store that cannot be opened, read or written."""

    exit_code = EXIT_SERVICE


class StoreFullError(StoreError):
    """A store that cannot be written because its disk is full."""


class UnstorableError(StoreError):
    """A run that no store can hold, or that contradicts what it holds: another run may enter it."""

    exit_code = EXIT_USAGE


class ServiceError(PerftrendError):
    """An outside service that refused, failed or did not answer."""

    exit_code = EXIT_SERVICE


class TestbedError(PerftrendError):
    """A traffic generator or a device that cannot be used."""

    # pytest would otherwise take a class of this name for a collection of tests.
    __test__ = False

    exit_code = EXIT_TESTBED


class SearchTimeoutError(TestbedError):
    """A search that took longer than it may.

    ``result`` is what was known by then: a SearchResult, or the Measurement of a test.
    """

    def __init__(self, message: str, result: object = None) -> None:
        super().__init__(message)
        self.result = result


class Outcome:
    """The exit code of a block that ran inside :func:`reported`."""

    def __init__(self) -> None:
        self.exit_code = EXIT_PASS


@contextmanager
def reported() -> Iterator[Outcome]:
    """Turn the errors that a person can act on into one line on stderr and an exit code.

    Used once, around the whole of a job's ``main``. A traceback that passes through is a defect.

    ::

        with errors.reported() as outcome:
            outcome.exit_code = trend(options)
        return outcome.exit_code
    """
    outcome = Outcome()
    try:
        yield outcome
    except PerftrendError as error:
        outcome.exit_code = _told(str(error), error.exit_code)
    except KeyboardInterrupt:
        outcome.exit_code = _told("interrupted", EXIT_INTERRUPTED)
    except OSError as error:
        outcome.exit_code = _told(explained(error), EXIT_SERVICE)


def explained(error: BaseException) -> str:
    """Return what a person is told of an error, in one line."""
    told = str(error)
    if isinstance(error, OSError):
        # A full disk or a missing permission can meet any write, and says the same wherever it does.
        place = f"{error.filename}: " if error.filename else ""
        told = f"{place}{error.strerror or error}{_OS_HINTS.get(error.errno or 0, '')}"
    return " ".join(told.split())


def _told(message: str, exit_code: int) -> int:
    sys.stderr.write(f"perftrend: {' '.join(message.split())}\n")
    return exit_code


def nearest(word: str, choices: Iterable[str]) -> str:
    """Say which known word was probably meant: ``"; did you mean 'x'?"``, or all the choices.

    :param word: what was written.
    :param choices: what may be written.
    :returns: the end of an error message, beginning with ``"; "``.
    """
    known = sorted(choices)
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known are {', '.join(known)}" if known else "; none is known"

"""Results of checks: what was looked at, whether it is in order, and how to fix it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum

from perftrend import text
from perftrend.errors import EXIT_PASS, EXIT_SERVICE, EXIT_TESTBED, EXIT_USAGE

_LONGEST_TEXT, _LONGEST_FIX = 400, 4000
"""Characters that are shown, because a text may come from a server; a command is longer than a text."""


class Severity(IntEnum):
    """The result of a check, in the order in which results are listed."""

    OK = 0
    NOT_CHECKED = 1
    """It could not be checked; the text has the reason."""
    WARNING = 2
    """Jobs work, but results or a part of the functions suffer."""
    FAULT = 3
    """Jobs that need it fail."""

    @property
    def label(self) -> str:
        """The word that is printed."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check. Its texts are safe for a terminal."""

    area: Area
    what: str
    """The subject of the check within its area, such as ``disk``."""
    severity: Severity
    text: str
    fix: str = ""
    """The command that fixes it, or what to do if no command does; empty if there is nothing to fix."""


class Area(Enum):
    """A part of what jobs need, and the exit code of a fault there."""

    MACHINE = "machine", EXIT_TESTBED
    TESTBED = "testbed", EXIT_TESTBED
    FILES = "files", EXIT_USAGE
    STORE = "store", EXIT_SERVICE
    GERRIT = "gerrit", EXIT_SERVICE
    JENKINS = "jenkins", EXIT_SERVICE

    @property
    def label(self) -> str:
        """The word that is printed."""
        return self.value[0]

    @property
    def exit_code(self) -> int:
        """The exit code of a fault."""
        return self.value[1]

    def ok(self, what: str, found: str) -> CheckResult:
        """Return a result that something is in order."""
        return self._result(what, Severity.OK, found)

    def not_checked(self, what: str, reason: str) -> CheckResult:
        """Return a result that something could not be checked."""
        return self._result(what, Severity.NOT_CHECKED, reason)

    def warning(self, what: str, found: str, fix: str) -> CheckResult:
        """Return a result that something makes results worse, or a part of the functions impossible."""
        return self._result(what, Severity.WARNING, found, fix)

    def fault(self, what: str, found: str, fix: str) -> CheckResult:
        """Return a result that something makes jobs fail."""
        return self._result(what, Severity.FAULT, found, fix)

    def _result(self, what: str, severity: Severity, found: str, fix: str = "") -> CheckResult:
        return CheckResult(self, what, severity, _clean(found, _LONGEST_TEXT), _clean(fix, _LONGEST_FIX))


def _clean(found: str, longest: int) -> str:
    """Return a text on one line, without anything that a terminal would interpret."""
    line = text.line(found)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def exit_code(results: Sequence[CheckResult]) -> int:
    """Return the highest exit code of all faults; 0 if there is none."""
    faults = (each.area.exit_code for each in results if each.severity is Severity.FAULT)
    return max(faults, default=EXIT_PASS)


def summary(results: Sequence[CheckResult]) -> str:
    """Return the number of results of each severity, the worst first."""
    counts = {severity: sum(each.severity is severity for each in results) for severity in Severity}
    parts = [text.format_count(counts[Severity.FAULT], "fault")] if counts[Severity.FAULT] else ["no fault"]
    if counts[Severity.WARNING]:
        parts.append(text.format_count(counts[Severity.WARNING], "warning"))
    parts.append(f"{counts[Severity.OK]} ok")
    if counts[Severity.NOT_CHECKED]:
        parts.append(f"{counts[Severity.NOT_CHECKED]} not checked")
    return ", ".join(parts)


def as_lines(results: Sequence[CheckResult], width: int) -> list[str]:
    """Return the results as a table, the worst last, with each fix below its result.

    :param width: of the terminal; longer texts continue in their column. A fix is not broken, so that it can
        be copied.
    """
    ordered = sorted(results, key=lambda each: each.severity)
    heads = text.align(
        [[each.severity.label, f"{each.area.label} {each.what}", ""] for each in ordered], left=2
    )
    column = max(map(len, heads), default=0) + 2
    lines = []
    for head, each in zip(heads, ordered, strict=True):
        wrapped = textwrap.wrap(
            each.text, max(width - column, 40), break_long_words=False, break_on_hyphens=False
        )
        first, *more = wrapped or [""]
        lines.append(f"{head.ljust(column)}{first}".rstrip())
        lines.extend(f"{' ' * column}{line}" for line in more)
        if each.fix:
            lines.append(f"{' ' * column}fix: {each.fix}")
    return lines


def as_table(result: CheckResult) -> Mapping[str, str]:
    """Return a result for JSON."""
    return {
        "area": result.area.label,
        "what": result.what,
        "severity": result.severity.label,
        "text": result.text,
        "fix": result.fix,
    }

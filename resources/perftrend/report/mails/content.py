"""The content of a mail: its subject, and its body as HTML and as text with aligned tables."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from urllib.parse import quote

import jinja2

from perftrend.model import Outcome, Run, Verdict
from perftrend.report.folder import environment
from perftrend.report.mails.causes import (
    MOST_ROWS,
    TEXT_COLUMNS,
    Cause,
    ChangeTable,
    causes,
    lacks_result,
    tables,
)
from perftrend.report.mails.mail_text import WIDTH, align, line, plain, shorten, wrap
from perftrend.report.references import References
from perftrend.report.texts import describe_outcomes
from perftrend.settings import Settings
from perftrend.text import format_count

FAILED, FAILED_JOB, REGRESSIONS, PROGRESSIONS = "failed", "failed-job", "regressions", "progressions"
TESTBED = "testbed"

CHANGES = {
    REGRESSIONS: Outcome.REGRESSION,
    PROGRESSIONS: Outcome.PROGRESSION,
    TESTBED: Outcome.TESTBED,
}

MOST_CAUSES = 50
"""Maximum number of groups in a mail; the report has all tests."""

_MESSAGE_LINES = 4
_LONGEST_MESSAGE = 1000
_LONGEST_NAME = 120
_INDENT = "    "
_CONTINUED = " \\"


@dataclass(frozen=True, slots=True)
class Links:
    """Links to further information; empty ones are left out."""

    report: str = ""
    """URL of the report's page; the hash of a test's trace is its anchor."""
    build: str = ""
    """URL of the build that measured or judged the run."""
    settings: Settings | None = field(default=None, hash=False, compare=False, repr=False)
    """Addresses of Gerrit, Jenkins and the dashboard, and the words of requests; None: none of them."""

    @property
    def references(self) -> References:
        """The references of builds and changes."""
        return References(self.settings)

    def of_report(self) -> str:
        """Return the URL of the report."""
        return _address(self.report)

    def of_build(self) -> str:
        """Return the URL of the build."""
        return _address(self.build)

    def of_test(self, verdict: Verdict) -> str:
        """Return the URL of a test's graph."""
        report = self.of_report()
        return f"{report.partition('#')[0]}#{verdict.series.key.hash}" if report else ""


@dataclass(frozen=True, slots=True)
class Content:
    """The subject and the body of a mail."""

    subject: str
    """One line."""
    text: str
    """Aligned for a fixed-width font, in lines of at most 100 columns unless a word is longer."""
    html: str
    """With inline styles only, without images."""


@dataclass(frozen=True, slots=True)
class MailPart:
    """A part of a mail: its kind, and its tables or groups."""

    name: str
    count: str
    """``2 regressions``."""
    tables: Sequence[ChangeTable] = ()
    causes: Sequence[Cause] = ()
    left_out: int = 0
    """Number of changes or groups that are not shown."""


def parts(verdicts: Sequence[Verdict], *, run: Run, links: Links, new_runs: int = 1) -> list[MailPart]:
    """Return the parts of a mail about a run, the most urgent first.

    :param verdicts: one for each trace, in any order.
    :param new_runs: the number of newest runs that no mail has reported.
    """
    candidates = [
        _changes(REGRESSIONS, verdicts, links),
        _changes(TESTBED, verdicts, links),
        _failures(verdicts, run, new_runs),
        _changes(PROGRESSIONS, verdicts, links),
    ]
    return [part for part in candidates if part is not None]


def compose(
    mail_parts: Sequence[MailPart], *, run: Run, links: Links, notices: Sequence[str] = ()
) -> Content:
    """Compose a mail about a run.

    :param mail_parts: at least one part.
    :param notices: notices for readers, such as that another testbed was used.
    """
    values = {
        "parts": mail_parts,
        "run": run,
        "versions": [f"{name} {version}" for name, version in run.versions.items()],
        "commit": links.references.build(run).commit,
        "dashboard": links.references.dashboard,
        "links": links,
        "notices": notices,
    }
    subject = f"{', '.join(part.count for part in mail_parts)} on {run.testbed}: {run.name}"
    return _content("mail", subject, values, simulated=run.simulated)


def compose_no_results(verdicts: Sequence[Verdict], *, run: Run, links: Links) -> Content | None:
    """Compose the mail about a run in which every expected result is missing; return None for others."""
    if not verdicts or any(verdict.outcome is not Outcome.MISSING for verdict in verdicts):
        return None
    return compose_failed_job(
        job=run.job,
        build=run.build,
        testbed=run.testbed,
        reason=f"none of {format_count(len(verdicts), 'expected result')} is in the run",
        links=links,
        simulated=run.simulated,
    )


def compose_failed_job(
    *, job: str, build: int, testbed: str, reason: str, links: Links, simulated: bool = False
) -> Content:
    """Compose the mail about a job that gave no results at all.

    :param testbed: empty if none is involved.
    :param reason: the last message of the job, one or more lines.
    """
    name = f"{job}/{build}"
    on = f" on {testbed}" if testbed else ""
    values = {"name": name, "testbed": testbed, "reason": reason, "links": links}
    return _content("mail-failed-job", f"No results{on}: {name}", values, simulated=simulated)


def _changes(name: str, verdicts: Sequence[Verdict], links: Links) -> MailPart | None:
    reported = [verdict for verdict in verdicts if verdict.outcome is CHANGES[name]]
    if not reported:
        return None
    count = describe_outcomes({CHANGES[name]: len(reported)})
    return MailPart(
        name,
        count,
        tables=tables(reported, link=links.of_test, references=links.references),
        left_out=max(len(reported) - MOST_ROWS, 0),
    )


def _failures(verdicts: Sequence[Verdict], run: Run, new_runs: int) -> MailPart | None:
    found = causes(verdicts, run=run, new_runs=new_runs)
    if not found:
        return None
    # Count tests, not results: a test with two metrics may fail in two ways.
    tests = len({_test(verdict) for verdict in verdicts if lacks_result(verdict)})
    count = f"{format_count(tests, 'test')} without a valid result"
    return MailPart(FAILED, count, causes=found[:MOST_CAUSES], left_out=max(len(found) - MOST_CAUSES, 0))


def _test(verdict: Verdict) -> tuple[str, str]:
    parameters = verdict.series.key.as_dict()
    return parameters.get("suite", ""), parameters.get("test", str(verdict.series.key))


def _content(template: str, subject: str, values: dict[str, object], *, simulated: bool) -> Content:
    subject = shorten(line(f"SIMULATED: {subject}" if simulated else subject), WIDTH)
    values = {**values, "subject": subject, "simulated": simulated}
    text = _environment(html=False).get_template(f"{template}.txt").render(values)
    html = _environment(html=True).get_template(f"{template}.html").render(values)
    # Parts that are left out leave empty lines.
    return Content(subject, re.sub(r"\n{3,}", "\n\n", text).strip() + "\n", html)


@cache
def _environment(*, html: bool) -> jinja2.Environment:
    made = environment().overlay(autoescape=html)
    made.filters |= {"line": line, "message": _message, "moment": _moment, "name": _name}
    made.filters |= {"aligned": _align, "wrapped": _wrap, "cause": _cause, "command": _wrap_command}
    made.filters |= {"address": _address}
    return made


def _align(table: ChangeTable) -> list[list[str]]:
    return align(table.header, [row.cells for row in table.rows], left=TEXT_COLUMNS)


def _wrap(text: str, indent: int = len(_INDENT), lines: int = _MESSAGE_LINES) -> str:
    return "\n".join(wrap(plain(text), indent=" " * indent, lines=lines))


def _wrap_command(command: str) -> str:
    """Break a command line between its words, so that a shell reads it as one."""
    indent = f"{_INDENT}  "
    lines = [indent]
    words = "\0".join(shlex.quote(word) for word in shlex.split(command))
    # An option and its value stay together.
    for part in re.split(r"\0(?=--)", words):
        if len(lines[-1]) + len(part) + len(_CONTINUED) > WIDTH and lines[-1].strip():
            lines[-1] += _CONTINUED
            lines.append(f"{indent}  ")
        text = part.replace("\0", " ")
        lines[-1] += text if lines[-1].isspace() else f" {text}"
    return "\n".join(lines)


def _message(text: str) -> str:
    """Cut a test's message to the part that a reader needs to recognise it."""
    lines = [each.rstrip() for each in plain(text[:_LONGEST_MESSAGE]).strip().split("\n") if each.strip()]
    whole = len(lines) <= _MESSAGE_LINES and len(text) <= _LONGEST_MESSAGE
    return "\n".join(lines[:_MESSAGE_LINES]) + ("" if whole else " …")


def _cause(cause: Cause) -> str:
    """Return how many tests have this cause: ``9 tests failed, 2 of them new``."""
    verb = "failed" if cause.outcome is Outcome.FAILED else str(cause.outcome)
    if cause.new == cause.count:
        new = "new" if cause.count == 1 else "all new"
    else:
        new = f"{cause.new or 'none'} of them new" if cause.count > 1 else "not new"
    return f"{format_count(cause.count, 'test')} {verb}, {new}"


def _name(text: str) -> str:
    return shorten(text, _LONGEST_NAME)


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def _address(url: str) -> str:
    """Return a URL that a mail program may turn into a link; empty for schemes other than http."""
    escaped = quote(url.strip(), safe="%/:?#[]@!&()*+,;=~._-")
    return escaped if re.match(r"https?://[^/]", escaped) else ""

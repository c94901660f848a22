"""A bisection as plain text: the message in Gerrit, and the text of the console.

The message has one sentence to act on, the proof as tables, notes, and a link. The console shows each
measurement as it is made, the result, and each test in the form of CSIT.

Tables of the message are indented by four spaces, as in the message of a per-patch test. They share the
available space: of many tests those that changed the most are shown, of many commits those around a change.

Source: "Bisecting", section Console output.
"""

from __future__ import annotations

from collections.abc import Iterator

from perftrend.bisect import Culprit, MeasureStep
from perftrend.console import print_text
from perftrend.errors import BuildError
from perftrend.model import BuildMeasurement
from perftrend.report.bisect import texts
from perftrend.report.bisect.texts import BisectReport, Cells, attempted_commits, effects, measurements
from perftrend.report.texts import groups, values
from perftrend.text import HASH, align, excerpt, fit_table, format_count, format_probability, line, value

ROOM = 11_000
"""Maximum number of characters of all tables; the message has to fit into Gerrit's limit of 16 Ki."""
_MOST_TESTS, _MOST_COLUMNS, _MOST_COMMITS = 12, 3, 15
_LONGEST_CELL = 100
_INDENT = "    "
_SUSPECTS = 3


def message(report: BisectReport) -> str:
    """Return the text for Gerrit."""
    return "\n\n".join(paragraph for paragraph in _paragraphs(report) if paragraph) + "\n"


def culprit_message(report: BisectReport, culprit: Culprit) -> str:
    """Return the text for the change whose commit alone is a culprit: its effect, and who requested it."""
    paragraphs = [
        texts.culprit_sentence(report, culprit),
        _block(effects(report, culprit), _MOST_TESTS, "test", ROOM),
        texts.search_scope(report),
        f"Requested on {report.subject.page}" if report.subject.page else "",
        *_footer(report),
    ]
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def _paragraphs(report: BisectReport) -> Iterator[str]:
    culprits = report.outcome.culprits
    room = ROOM // (len(culprits) + 1)
    yield texts.sentence(report)
    for culprit in culprits:
        writer = texts.author(report, culprit.commits[0]) if len(culprit.commits) == 1 else ""
        yield f"{texts.among(report, culprit.commits)}{f', by {writer}' if writer else ''}:"
        yield _block(effects(report, culprit), _MOST_TESTS, "test", room)
    if report.last_lines:
        yield _indent_lines(excerpt(report.last_lines), room)
    if report.state.measured:
        yield "What was measured, oldest first:"
        rows = measurements(report, _columns(report))
        yield _block(
            [rows[0], *(rows[1 + place] for place in _around(report))], _MOST_COMMITS, "commit", room
        )
        yield _omissions(report)
    yield texts.search_scope(report)
    yield "\n".join(f"- {note}" for note in texts.notes(report))
    yield from _footer(report)


def _footer(report: BisectReport) -> Iterator[str]:
    """Yield how to repeat the search, and where the whole report is."""
    if report.command:
        yield f"To repeat it by hand:\n\n{_INDENT}{line(report.command)}"
    if report.link:
        yield f"Whole report: {report.link}"


def _columns(report: BisectReport) -> list[str]:
    """Choose the tests that show the changes that were found best."""
    moved = (test for culprit in report.outcome.culprits for test in report.affected_tests(culprit))
    return list(dict.fromkeys([*moved, *report.tests]))[:_MOST_COLUMNS]


def _around(report: BisectReport) -> list[int]:
    """Choose the commits that are shown: the ends, and those next to a change."""
    names = attempted_commits(report)
    found = [place for culprit in report.outcome.culprits for place in _places(names, culprit)]
    near = [*(found or [len(names) // 2]), 0, len(names) - 1]
    order = sorted(range(len(names)), key=lambda place: min(abs(place - each) for each in near))
    return sorted(order[:_MOST_COMMITS])


def _places(names: list[str], culprit: Culprit) -> Iterator[int]:
    yield from (place for place, name in enumerate(names) if name in culprit.commits)


def _omissions(report: BisectReport) -> str:
    """Return what the table of commits omits, as text."""
    commits = len(attempted_commits(report)) - _MOST_COMMITS
    tests = len(report.tests) - _MOST_COLUMNS
    parts = [
        format_count(count, f"more {word}")
        for count, word in ((commits, "commit"), (tests, "test"))
        if count > 0
    ]
    return f"{' and '.join(parts)} in the whole report." if parts else ""


def _block(rows: Cells, most: int, word: str, room: int) -> str:
    shown = [tuple(cell[:_LONGEST_CELL] for cell in row) for row in rows[: most + 1]]
    left = len(rows) - len(shown)
    return _indent_lines(
        [*align(shown), *([f"… and {format_count(left, f'more {word}')}"] if left else [])], room
    )


def _indent_lines(lines: list[str], room: int) -> str:
    """Indent lines, as many as fit."""
    indented: list[str] = []
    for text in lines:
        room -= len(text) + len(_INDENT) + 1
        if room < 0:
            indented.append(f"{_INDENT}…")
            break
        indented.append(f"{_INDENT}{text}")
    return "\n".join(indented)


def show_step(event: MeasureStep | BuildMeasurement | BuildError, number: int) -> None:
    """Print the line of :func:`step`."""
    print_text(step(event, number))


def step(event: MeasureStep | BuildMeasurement | BuildError, number: int = 1) -> str:
    """Return a line about the next measurement and its reason, or about its result.

    :param number: of the step, from 1.
    """
    if isinstance(event, MeasureStep):
        left = f", about {event.remaining} to go" if event.remaining is not None else ""
        paired = f" in turn with {event.against[:HASH]}" if event.against else ""
        what = f"measuring {event.commit[:HASH]}{paired}, {line(event.reason)}"
        return f"step {number}{left}: {what}{_format_suspects(event)}"
    if isinstance(event, BuildError):
        return f"  does not build: {line(str(event))}"
    averages = [
        f"{line(test)} {value(sum(each.samples) / len(each.samples), line(each.unit))}"
        for test, each in event.values.items()
        if each.samples
    ]
    failed = [f"{line(test)} failed" for test in event.failed]
    return f"  {event.commit[:HASH]}: {', '.join([*averages, *failed]) or 'nothing was measured'}"


def _format_suspects(measure_step: MeasureStep) -> str:
    suspects = sorted(
        (each for each in measure_step.belief if each.commits), key=lambda each: -each.probability
    )
    parts = (
        f"{each.commits[0][:HASH]}{f' to {each.commits[-1][:HASH]}' if len(each.commits) > 1 else ''} "
        f"({format_probability(each.probability)})"
        for each in suspects[:_SUSPECTS]
    )
    belief = ", ".join(parts)
    return f"; most likely so far: {belief}" if belief else ""


def console(report: BisectReport, *, width: int | None = None) -> str:
    """Return the final text: the result, the measurements, and each test in the form of CSIT.

    :param width: the columns of a terminal, which tables fit; None: rows are not wrapped.
    """
    lines = [texts.sentence(report), ""]
    for culprit in report.outcome.culprits:
        lines += [*fit_table(effects(report, culprit), width), ""]
    lines += [*excerpt(report.last_lines), *fit_table(measurements(report, report.tests), width), ""]
    lines += [texts.search_scope(report), *texts.notes(report), ""]
    for culprit in report.outcome.culprits:
        lines += _proof(report, *report.state.adjacent_commits(culprit))
    if not report.outcome.culprits and report.state.measured:
        lines += _proof(report, report.state.range.old, report.state.history.new)
    return "\n".join(lines).rstrip("\n") + "\n"


def _proof(report: BisectReport, before: str, after: str) -> Iterator[str]:
    """Yield the values of each test in the last build before a change and the first one after it."""
    yield f"parent: {texts.commit(report, before)}"
    yield f"current: {texts.commit(report, after)}"
    parent, current = report.state.samples(before), report.state.samples(after)
    for index, test in enumerate(report.tests):
        one, other = tuple(parent.get(test, ())), tuple(current.get(test, ()))
        found = report.compare(test, before, after)
        yield f"Test {index}: {line(test)}"
        for each in (*values("parent", one), *values("current", other), *groups(found)):
            yield f"  {each}"
    yield ""

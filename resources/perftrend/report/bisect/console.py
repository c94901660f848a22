"""The text of the console: each measurement as it is made, the result, and each test in the form of CSIT.

Source: "Bisecting", section Console output.
"""

from __future__ import annotations

from collections.abc import Iterator

from perftrend.bisect import MeasureStep
from perftrend.console import print_text
from perftrend.errors import BuildError
from perftrend.model import BuildMeasurement
from perftrend.report.bisect import texts
from perftrend.report.bisect.contents import BisectReport
from perftrend.report.bisect.table import align, effects, measurements
from perftrend.report.csit_console import groups, values
from perftrend.report.prose import HASH, excerpt, line
from perftrend.wording import value

_SUSPECTS = 3


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
        f"({texts.probable(each.probability)})"
        for each in suspects[:_SUSPECTS]
    )
    belief = ", ".join(parts)
    return f"; most likely so far: {belief}" if belief else ""


def console(report: BisectReport) -> str:
    """Return the final text: the result, the measurements, and each test in the form of CSIT."""
    lines = [texts.sentence(report), ""]
    for culprit in report.outcome.culprits:
        lines += [*align(effects(report, culprit)), ""]
    lines += [*excerpt(report.last_lines), *align(measurements(report, report.tests)), ""]
    lines += [texts.search_scope(report), *texts.notes(report), ""]
    for culprit in report.outcome.culprits:
        lines += _proof(report, *report.adjacent_commits(culprit))
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

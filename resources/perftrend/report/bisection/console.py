"""The text of the console: each measurement as it is made, the result, and each test in the form of CSIT.

Source: "Bisecting", section Console output.
"""

from __future__ import annotations

from collections.abc import Iterator

from perftrend.bisect import Measure
from perftrend.errors import BuildError
from perftrend.model import Measured
from perftrend.report.bisection import words
from perftrend.report.bisection.contents import Report
from perftrend.report.bisection.table import aligned, effects, measured
from perftrend.report.documented import groups, values
from perftrend.report.prose import HASH, excerpt, line
from perftrend.wording import value

_SUSPECTS = 3


def step(told: Measure | Measured | BuildError, number: int = 1) -> str:
    """Return a line about the next measurement and its reason, or about its result.

    :param number: of the step, from 1.
    """
    if isinstance(told, Measure):
        left = f", about {told.remaining} to go" if told.remaining is not None else ""
        paired = f" in turn with {told.against[:HASH]}" if told.against else ""
        what = f"measuring {told.commit[:HASH]}{paired}, {line(told.reason)}"
        return f"step {number}{left}: {what}{_suspected(told)}"
    if isinstance(told, BuildError):
        return f"  does not build: {line(str(told))}"
    averages = [
        f"{line(test)} {value(sum(each.samples) / len(each.samples), line(each.unit))}"
        for test, each in told.values.items()
        if each.samples
    ]
    failed = [f"{line(test)} failed" for test in told.failed]
    return f"  {told.commit[:HASH]}: {', '.join([*averages, *failed]) or 'nothing was measured'}"


def _suspected(told: Measure) -> str:
    suspects = sorted((each for each in told.belief if each.commits), key=lambda each: -each.probability)
    parts = (
        f"{each.commits[0][:HASH]}{f' to {each.commits[-1][:HASH]}' if len(each.commits) > 1 else ''} "
        f"({words.probable(each.probability)})"
        for each in suspects[:_SUSPECTS]
    )
    belief = ", ".join(parts)
    return f"; most likely so far: {belief}" if belief else ""


def console(report: Report) -> str:
    """Return the final text: the result, the measurements, and each test in the form of CSIT."""
    lines = [words.sentence(report), ""]
    for culprit in report.outcome.culprits:
        lines += [*aligned(effects(report, culprit)), ""]
    lines += [*excerpt(report.last_lines), *aligned(measured(report, report.tests)), ""]
    lines += [words.searched(report), *words.notes(report), ""]
    for culprit in report.outcome.culprits:
        lines += _proof(report, *report.beside(culprit))
    if not report.outcome.culprits and report.state.measured:
        lines += _proof(report, report.state.range.old, report.state.history.new)
    return "\n".join(lines).rstrip("\n") + "\n"


def _proof(report: Report, before: str, after: str) -> Iterator[str]:
    """Yield the values of each test in the last build before a change and the first one after it."""
    yield f"parent: {words.commit(report, before)}"
    yield f"current: {words.commit(report, after)}"
    parent, current = report.state.samples(before), report.state.samples(after)
    for index, test in enumerate(report.tests):
        one, other = tuple(parent.get(test, ())), tuple(current.get(test, ()))
        found = report.compared(test, before, after)
        yield f"Test {index}: {line(test)}"
        for each in (*values("parent", one), *values("current", other), *groups(found)):
            yield f"  {each}"
    yield ""

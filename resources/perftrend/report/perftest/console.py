"""The text of the console: each test in the format of CSIT, followed by the result of perftrend.

Source: "Bisecting", section Console output.
"""

from __future__ import annotations

from collections.abc import Iterator

from perftrend.perftest import Judged
from perftrend.report import documented
from perftrend.report.perftest import words
from perftrend.report.perftest.aligned import aligned
from perftrend.report.perftest.contents import Report
from perftrend.report.prose import excerpt, line


def console(report: Report) -> str:
    """Return the details of all tests, in the order of their names, followed by the table."""
    tests = sorted(report.verdict.tests, key=lambda test: test.test)
    lines = [line for index, test in enumerate(tests) for line in (*_test(index, test), "")]
    if report.verdict.broken:
        lines += [*excerpt(report.verdict.broken.last_lines), ""]
    if tests:
        lines += [*aligned(words.rows(report.verdict.tests)), ""]
    if legend := words.legend(report):
        lines.append(legend)
    lines += [words.subject(report), *words.notes(report), "", words.sentence(report)]
    return "\n".join(lines) + "\n"


def _test(index: int, test: Judged) -> Iterator[str]:
    yield f"Test {index}: {line(test.test)}"
    for name, build in (("parent", test.parent), ("current", test.current)):
        yield from (f"  {told}" for told in documented.values(name, build.samples))
        for number, reason in build.failed.items():
            yield f"  Failed with {name} in round {number}: {line(reason)}"
        for number, reason in build.untrusted.items():
            yield f"  Not valid with {name} in round {number}: {line(reason)}"
    if test.documented:
        yield from (f"  {told}" for told in documented.groups(test.documented))
    [row] = words.rows([test])
    if test.comparison:
        yield (
            f"  perftrend: {_told(row)}, {row.difference} of the parent, in the interval {row.interval}; "
            f"worse with a probability of {test.comparison.probability_worse:.3g}, "
            f"p-value {test.comparison.evidence.p_value:.2g}"
        )
    else:
        yield f"  perftrend: {_told(row)}"


def _told(row: words.Row) -> str:
    return f"{row.verdict} ({row.reason})" if row.reason else row.verdict

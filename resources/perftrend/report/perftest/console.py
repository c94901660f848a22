"""The text of the console: each test in the format of CSIT, followed by the result of perftrend.

Source: "Bisecting", section Console output.
"""

from __future__ import annotations

from collections.abc import Iterator

from perftrend.perftest import PatchTestVerdict
from perftrend.report import csit_console
from perftrend.report.perftest import texts
from perftrend.report.perftest.contents import PerftestReport
from perftrend.report.perftest.text_table import align
from perftrend.report.prose import excerpt, line


def console(report: PerftestReport) -> str:
    """Return the details of all tests, in the order of their names, followed by the table."""
    tests = sorted(report.verdict.tests, key=lambda test: test.test)
    lines = [line for index, test in enumerate(tests) for line in (*_test(index, test), "")]
    if report.verdict.broken:
        lines += [*excerpt(report.verdict.broken.last_lines), ""]
    if tests:
        lines += [*align(texts.rows(report.verdict.tests)), ""]
    if legend := texts.legend(report):
        lines.append(legend)
    lines += [texts.subject(report), *texts.notes(report), "", texts.sentence(report)]
    return "\n".join(lines) + "\n"


def _test(index: int, test: PatchTestVerdict) -> Iterator[str]:
    yield f"Test {index}: {line(test.test)}"
    for name, build in (("parent", test.parent), ("current", test.current)):
        yield from (f"  {text}" for text in csit_console.values(name, build.samples))
        for number, reason in build.failed.items():
            yield f"  Failed with {name} in round {number}: {line(reason)}"
        for number, reason in build.untrusted.items():
            yield f"  Not valid with {name} in round {number}: {line(reason)}"
    if test.documented:
        yield from (f"  {text}" for text in csit_console.groups(test.documented))
    [row] = texts.rows([test])
    if test.comparison:
        yield (
            f"  perftrend: {_format_verdict(row)}, {row.difference} of the parent, "
            f"in the interval {row.interval}; "
            f"worse with a probability of {test.comparison.probability_worse:.3g}, "
            f"p-value {test.comparison.evidence.p_value:.2g}"
        )
    else:
        yield f"  perftrend: {_format_verdict(row)}"


def _format_verdict(row: texts.PatchTestRow) -> str:
    return f"{row.verdict} ({row.reason})" if row.reason else row.verdict

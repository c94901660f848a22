"""The report as static HTML: one folder that opens from a file and from a Jenkins artifact page.

Jenkins serves artifacts with a policy that blocks scripts and inline styles. So the page is complete
without them: the table, the verdicts and a picture of every test are plain HTML and SVG with a separate
style sheet. If scripts run, opening a test draws an interactive graph. plotly's JavaScript and the data
are loaded only then, from ``.js`` files, because a page that was opened from a file may not read JSON.
The graphs of a search and of its latencies are images of their own, each the background of a link to it:
without scripts, only background images are not loaded while they are hidden. An image loads no style sheet,
so a dark page inverts it. If scripts run, the graph of a search is interactive.

No file name comes from a test: a test's anchor in the page is the hash of its trace.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from importlib import resources
from pathlib import Path

import jinja2
from plotly.offline import get_plotlyjs

from perftrend import message
from perftrend.analysis.families import SharedChange
from perftrend.errors import ArchiveError
from perftrend.measurement import Measurement
from perftrend.model import PRODUCT, Group, Outcome, Result, Run, Verdict
from perftrend.report import latency_graph, search_graph
from perftrend.report.document import RunTable, TrendReport, document, dumps, history, run_entry
from perftrend.report.folder import INDEX, environment, replace_report
from perftrend.report.search_graph import STYLE_SHEET
from perftrend.report.sparkline import HEIGHT, WIDTH, axes, sparkline
from perftrend.report.texts import (
    SYMBOLS,
    WORST_FIRST,
    VerdictRow,
    courses,
    describe_shared_change,
    format_step,
    passes,
    sentence,
)
from perftrend.settings import Settings
from perftrend.text import decimals_of_rates, format_count, percent, plain

TESTS_PER_FILE = 20
"""Opening a test also loads the data of its neighbours: 150 kB at 180 runs."""

_MEGA = 1e6
_LEAST_DECIMALS = 4


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture in a file of its own."""

    name: str
    """The name of the file without its suffix, such as ``search-0``."""
    title: str
    caption: str
    """A description of the picture."""
    draw: Callable[[], str]
    """Returns the picture as SVG."""


def write(
    directory: Path,
    verdicts: Sequence[Verdict],
    *,
    run: Run,
    method: str,
    window: int,
    title: str = "Performance trend",
    notices: Sequence[str] = (),
    results: Sequence[Result] = (),
    families: Sequence[SharedChange] = (),
    settings: Settings | None = None,
) -> Path:
    """Write the report into a directory of its own, and replace an old report as a whole.

    :param directory: created if missing, with its parents.
    :param verdicts: one for each trace, in any order.
    :param run: the run that was analysed.
    :param method: how changes were found, in words for readers.
    :param window: number of runs in the window of the moving statistics.
    :param title: heading.
    :param notices: lines that readers must see, such as that another testbed was used.
    :param results: the run's results with their details, for the graphs of its searches; those of
        the verdicts' series may lack details.
    :param families: recent changes that many traces share.
    :param settings: addresses of Gerrit, Jenkins and the dashboard, and the words of requests, for the
        links and the bisection of each change; None: none of them.
    :returns: the path of ``index.html``.
    :raises UsageError: if the directory contains anything that is not part of a report.
    :raises OSError: if it cannot be written; an old report is then unchanged.
    """
    report = TrendReport(verdicts, run, method, window, title, notices, results, families, settings)
    rows, figures = report.rows, _figures_of(results)
    with replace_report(directory) as fresh:
        _write_page(fresh, report, rows, figures)
        _write_data(fresh / "data", rows)
        _write_figures(fresh, figures.values())
        _put(fresh / "report.json", dumps(document(report)))
        _put(fresh / "plotly.min.js", get_plotlyjs())
        _put(fresh / "report.js", _template("report.js"))
    return directory / INDEX


def _write_page(
    directory: Path, report: TrendReport, rows: Sequence[VerdictRow], figures: Mapping[str, Sequence[Figure]]
) -> None:
    counts = {outcome: sum(row.outcome is outcome for row in rows) for outcome in WORST_FIRST}
    passed = bool(rows) and passes(report.verdicts)
    html = (
        _environment()
        .get_template(INDEX)
        .render(
            title=plain(report.title),
            sentence=sentence(report.verdicts),
            state="pass" if passed else "fail",
            outcome="Pass" if passed else "Fail",
            subject=report.run,
            run=plain(report.run.name),
            started=report.run.started,
            finished=report.run.finished,
            report=report,
            rows=rows,
            counts={outcome: count for outcome, count in counts.items() if count},
            symbols=SYMBOLS,
            references=report.references,
            product=PRODUCT,
            tested=report.references.build(report.run),
            builds=_builds(rows),
            pictures=[sparkline(row.verdict) for row in rows],
            axes=axes,
            width=WIDTH,
            height=HEIGHT,
            tests_per_file=TESTS_PER_FILE,
            figures=figures,
        )
    )
    _put(directory / INDEX, html)


def _builds(rows: Sequence[VerdictRow]) -> list[Run]:
    """Return the runs of all tests, newest first."""
    table = RunTable()
    for row in rows:
        for run in row.verdict.series.runs:
            table.index(run)
    return sorted(table.runs, key=lambda run: (run.started, run.build), reverse=True)


def _write_data(directory: Path, rows: Sequence[VerdictRow]) -> None:
    """Write the data of the interactive graphs, a few tests per file, and the runs that they share."""
    directory.mkdir()
    table = RunTable()
    for first in range(0, len(rows), TESTS_PER_FILE):
        tests = [
            {"unit": plain(row.verdict.series.unit), **history(row.verdict, table, number=_round)}
            for row in rows[first : first + TESTS_PER_FILE]
        ]
        _put(directory / f"{first // TESTS_PER_FILE}.js", _script("receiveTests", first, tests))
    _put(directory / "runs.js", _script("receiveRuns", [run_entry(run) for run in table.runs]))


def _figures_of(results: Iterable[Result]) -> dict[str, tuple[Figure, ...]]:
    """Return the figures of a run by the hashes of their traces.

    :param results: the run's results with their details; those of one measurement share its figures.
    """
    found: dict[str, tuple[Figure, ...]] = {}
    known: dict[str, tuple[Figure, ...]] = {}
    for result in results:
        if not result.details.get("phases") and not result.details.get("latency"):
            continue
        key = json.dumps(result.details, sort_keys=True)
        if key not in known:
            try:
                known[key] = tuple(_figures_in(len(known), message.measurement_of(result.details)))
            except ArchiveError:
                # Such as one of a newer perftrend: its values are known, but its steps are not.
                continue
        found[result.key.hash] = known[key]
    return found


def _figures_in(number: int, measured: Measurement) -> Iterator[Figure]:
    if phases := measured.phases:
        loss_ratios = tuple(measured.loss_ratios.values())
        yield Figure(
            f"search-{number}",
            "graph of the search",
            f"The search: {search_graph.sentence(phases, loss_ratios)}",
            partial(
                search_graph.svg, phases, loss_ratios, simulated=measured.simulated, style_sheet=STYLE_SHEET
            ),
        )
    if latency_graph.can_draw(measured.latency):
        yield Figure(
            f"latency-{number}",
            "graph of the latency",
            f"The latency: {latency_graph.sentence(measured.latency)}",
            partial(
                latency_graph.svg, measured.latency, simulated=measured.simulated, style_sheet=STYLE_SHEET
            ),
        )


def _write_figures(directory: Path, of_traces: Iterable[Sequence[Figure]]) -> None:
    """Write each figure, and the style sheet that positions them."""
    drawn = {figure.name: figure for figures in of_traces for figure in figures}
    for name, figure in drawn.items():
        _put(directory / "data" / f"{name}.svg", figure.draw())
    if drawn:
        _put(directory / "data" / STYLE_SHEET, _template(STYLE_SHEET))
    places = [f".{name} {{ background-image: url(data/{name}.svg); }}\n" for name in drawn]
    _put(directory / "style.css", _template("style.css") + "".join(places))


def _template(name: str) -> str:
    return resources.files(__package__).joinpath("templates", name).read_text("utf-8")


def _script(function: str, *arguments: object) -> str:
    """Return a call with JSON arguments that is safe in a file and inside of a page."""
    text = ",".join(dumps(argument).strip() for argument in arguments)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f"perftrend.{function}({text});\n"


def _round(value: float) -> float | None:
    """Round to seven digits, more than a pixel or a reader can distinguish; None if it is not finite."""
    return float(f"{value:.7g}") if math.isfinite(value) else None


def _put(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


@cache
def _environment() -> jinja2.Environment:
    made = environment()
    made.filters |= {
        "counted": format_count,
        "percent": percent,
        "plain": plain,
        "signed": _use_minus_sign,
        "slug": _slug,
    }
    made.filters |= {"courses": courses, "moment": _moment, "unit": _unit, "value": _value}
    made.filters |= {"change": format_step, "decimals": _decimals, "shared": describe_shared_change}
    return made


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def _use_minus_sign(text: str) -> str:
    """Replace a leading hyphen by the true minus sign, which is as wide as a plus."""
    return text.replace("-", "\N{MINUS SIGN}", 1) if text.startswith("-") else text


def _slug(outcome: Outcome) -> str:
    """Return the outcome as a class of the style sheet."""
    return outcome.replace(" ", "-")


def _decimals(groups: Iterable[Group]) -> int:
    """Return the number of decimals for the averages of groups in Mpps; they may differ by little."""
    return max(_LEAST_DECIMALS, decimals_of_rates(group.mean for group in groups))


def _value(value: float, unit: str, decimals: int) -> str:
    """Format a value without its unit; packets per second in millions."""
    return f"{value / _MEGA:.{decimals}f}" if unit == "pps" else f"{value:.4g}"


def _unit(unit: str) -> str:
    return "Mpps" if unit == "pps" else plain(unit)

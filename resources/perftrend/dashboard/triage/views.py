"""Views of items: with names, sparklines, commits and commands for a bisection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perftrend.analysis.alerts import FindingKind
from perftrend.analysis.formula import Number, format_key, row_id
from perftrend.analysis.query import parse
from perftrend.bisect import command as bisect_command
from perftrend.bisect.command import Bisection
from perftrend.dashboard import links
from perftrend.dashboard.catalog import Traces
from perftrend.dashboard.context import AppContext
from perftrend.dashboard.formats import plain
from perftrend.dashboard.job_requests import jobs_of_item
from perftrend.dashboard.links import MOST_IDS, PlotPart
from perftrend.dashboard.triage.item_details import (
    commits_of,
    environment_changes,
    find_common_features,
    find_costly_parts,
    history_entry,
)
from perftrend.dashboard.triage.item_plot import item_plots, shown_findings, window_of
from perftrend.dashboard.triage.models import (
    FinderView,
    ItemDetail,
    ItemView,
    RangeView,
    SentView,
    TraceView,
)
from perftrend.dashboard.triage.notifications import is_given_up, name_of
from perftrend.model import Samples
from perftrend.scale import Scale, padded_range
from perftrend.store.alerts import CHANGES, Item, StoredFinding

DRAWN_COLUMNS = 60
_MOST_RELATED = 50
_MOST_TRACES = 500
_MOST_ENTRIES = 100
_LONGEST_ADDRESS = 6000
_BY_AVERAGE = "scale_by_ave"
_DIGITS = 6
WIDTH, HEIGHT = 132, 26
_MARGIN = 2
_LEAST_SPAN = 1e-9
"""Relative to the middle: equal values are a line in the middle."""


def item_views(site: AppContext, items: Sequence[Item]) -> list[ItemView]:
    """Return the views of items, with the names of the traces that changed most."""
    now = site.catalog.now()
    return [ItemView.of(item, name_of_trace(now, item.trace)) for item in items]


def hashes(site: AppContext, query: str) -> list[str] | None:
    """Return the hashes of the items' traces that match a query; None if the query is empty: no filter.

    :raises FormulaError: if the query is not valid.
    """
    if not query:
        return None
    now = site.catalog.now()
    fits = now.table.mask(parse(query))
    # Findings store the hash that the trace had when they were found.
    of_items = [name for name in site.store.alerts.items.traces() if name in now.by_hash]
    places = np.searchsorted(now.ids, [now.by_hash[name].trace_id for name in of_items])
    return [name for name, place in zip(of_items, places, strict=True) if fits[place]]


def sparklines(site: AppContext, items: Sequence[Item]) -> dict[int, TriageSparkline]:
    """Return sparklines of the trace with the largest change of each item, by the identities of the items."""
    by_hash = site.catalog.now().by_hash
    found: dict[int, TriageSparkline] = {}
    for testbed in {item.testbed for item in items}:
        chosen = [item for item in items if item.testbed == testbed and item.trace in by_hash]
        axis = site.store.tiles.axis(testbed)
        if not chosen or not axis.columns:
            continue
        columns = range(max(len(axis.columns) - DRAWN_COLUMNS, 0), len(axis.columns))
        starts = [axis.columns[column].started for column in columns]
        values = site.store.tiles.values(axis, [by_hash[item.trace].trace_id for item in chosen], columns)
        for item, row in zip(chosen, values, strict=True):
            changed = next(
                (n for n, started in enumerate(starts) if started >= item.span.first_changed.moment), None
            )
            drawn = sparkline(np.asarray(row), changed)
            if drawn:
                found[item.identity] = drawn
    return found


def item_detail(site: AppContext, item: Item, *, may_edit: bool) -> ItemDetail:
    """Return all details of an item.

    :param may_edit: whether errors of messages are shown, which name the recipients.
    """
    store, now = site.store, site.catalog.now()
    findings = sorted(
        store.alerts.items.findings(item.identity),
        key=lambda each: (each.gone is not None, -abs(each.relative or 0.0), each.trace),
    )
    related = _find_related(site, item)
    of_testbeds = {each.testbed: each.id for each in reversed(related)}
    plot, other_plots = item_plots(site, item, findings, of_testbeds)
    alerts = {alert.identity: alert.rules.name for alert in store.alerts.all()}
    old, new = item.span.last_good.revision, item.span.first_changed.revision
    has_range = bool(old and new) and old != new and item.kind != "stopped"
    commits, commits_are = commits_of(site, item)
    return ItemDetail(
        item=ItemView.of(item, name_of_trace(now, item.trace)),
        traces=[_trace(now, each) for each in findings[:_MOST_TRACES] if each.trace],
        plot=plot,
        other_plots=other_plots,
        merged=store.alerts.items.merged(item.identity),
        split_from=_split_from(site, item),
        beside=related,
        commits=commits,
        commits_are=commits_are,
        same_commit=bool(old) and old == new and item.kind in CHANGES,
        common=find_common_features(now, item, findings),
        cycles=find_costly_parts(site, now, item, findings),
        environment=[] if item.kind == "stopped" else environment_changes(site, item),
        git_log=f"git log --oneline {old}..{new}" if has_range else "",
        bisect=_bisection(site, now, item),
        jobs=jobs_of_item(site, item.identity),
        explore=f"/triage/{item.identity}/explore" if item.trace else "",
        alerts=[
            FinderView(id=each, name=alerts[each])
            for each in store.alerts.items.alerts(item.identity)
            if each in alerts
        ],
        activity=[history_entry(each, alerts) for each in store.activity.newest(_MOST_ENTRIES, item.subject)],
        messages=[
            SentView(
                alert=alerts.get(each.alert, "a deleted alert"),
                action=each.action,
                sent=each.sent,
                error=each.error if may_edit or not each.error else "it could not be sent",
                given_up=is_given_up(each),
            )
            for each in store.alerts.outbox.of(item.identity)
        ],
    )


@dataclass(frozen=True, slots=True)
class ExploreLink:
    """Plot of the traces of an item: its URL, or, if the URL is empty, the traces to save in a shortcut."""

    url: str
    ids: tuple[str, ...]
    part: PlotPart | None
    testbed: str
    column: int | None
    since: int | None

    def by_shortcut(self, shortcut: str) -> str:
        """Return the URL with a shortcut of the traces, each divided by its average.

        A shortcut has one formula for all traces, so it cannot have the mean of each before the change.
        """
        scaled = f'@{_BY_AVERAGE}(shortcut("{shortcut}"))'
        return self._plot([scaled], row_id(f"{_BY_AVERAGE}({self.ids[0]})"))

    def by_ids(self, scaled: Sequence[str]) -> ExploreLink:
        """Return the link with the URL of scaled traces, unless it is too long."""
        url = self._plot(scaled, scaled[0]) if 0 < len(scaled) <= MOST_IDS else ""
        return replace(self, url=url if len(url) <= _LONGEST_ADDRESS else "")

    def _plot(self, ids: Sequence[str], selected: str) -> str:
        point = None if self.column is None else (self.column, selected)
        return links.of_plot(testbed=self.testbed, ids=ids, part=self.part, point=point, since=self.since)


def explore_link(site: AppContext, item: Item, column: int | None = None) -> ExploreLink:
    """Return the plot of exactly the traces of an item around the change, scaled as on its page.

    :param column: whose point in the trace with the largest change is selected; None: that of the first
        changed commit, compared with the last good one.
    """
    by_hash = site.catalog.now().by_hash
    means: dict[str, float | None] = {}
    for each in shown_findings(site.store.alerts.items.findings(item.identity)):
        means.setdefault(each.trace, each.before if item.kind in CHANGES else None)
    ids = {trace: format_key(by_hash[trace].key) for trace in means if trace in by_hash}
    columns = site.store.tiles.axis(item.testbed).columns
    window = window_of(columns, item.span, is_own=True)
    part = PlotPart.of(window.columns, len(columns)) if window else None
    since = None
    if column is None and window and window.first_changed < len(columns):
        column, since = window.first_changed, window.last_good
    scaled = [row_id(_scaled(identity, means[trace])) for trace, identity in ids.items()]
    return ExploreLink("", tuple(ids.values()), part, item.testbed, column, since).by_ids(scaled)


def _scaled(identity: str, mean: float | None) -> str:
    """Return the name of a trace divided by its mean before the change, or by its average without one."""
    if mean is None or mean <= 0:
        return f"{_BY_AVERAGE}({identity})"
    return f"scale_by_mean({identity}, {Number(float(f'{mean:.{_DIGITS}g}'))})"


def _split_from(site: AppContext, item: Item) -> ItemView | None:
    origin = site.store.alerts.items.one(item.split_from) if item.split_from is not None else None
    if origin is None or origin.merged_into is not None or item.merged_into is not None:
        return None
    return item_views(site, [origin])[0]


def _find_related(site: AppContext, item: Item) -> list[ItemView]:
    if item.kind not in CHANGES:
        return []
    return item_views(site, site.store.alerts.items.find_related(item, limit=_MOST_RELATED))


def _bisection(site: AppContext, now: Traces, item: Item) -> Bisection | None:
    if item.kind not in CHANGES or item.kind == FindingKind.TESTBED:
        return None
    trace = now.by_hash.get(item.trace)
    return bisect_command.prepare(
        site.settings,
        item.testbed,
        trace.key if trace else None,
        old=item.span.last_good.revision,
        new=item.span.first_changed.revision,
    )


def _trace(now: Traces, finding: StoredFinding) -> TraceView:
    trace = now.by_hash.get(finding.trace)
    low, high = finding.relative_interval or (None, None)
    return TraceView(
        hash=finding.trace,
        name=name_of_trace(now, finding.trace),
        parameters=trace.key.as_dict() if trace else {},
        unit=trace.unit if trace else "",
        before=finding.before,
        after=finding.after,
        relative=finding.relative,
        low=low,
        high=high,
        confidence=finding.confidence,
        range=RangeView.of(finding.span),
        found=finding.found,
        gone=finding.gone,
    )


def name_of_trace(now: Traces, trace: str) -> str:
    """Return the display name of a trace by its hash; empty if the store no longer has it."""
    found = now.by_hash.get(trace)
    return plain(name_of(found.key)) if found else ""


@dataclass(frozen=True, slots=True)
class TriageSparkline:
    """An SVG path with gaps at missing values, and the position of the change."""

    course: str
    mark: int | None
    """Horizontal position of the change, in pixels from the left; None: outside."""
    width: int = WIDTH
    height: int = HEIGHT


def sparkline(values: Samples, changed: int | None = None) -> TriageSparkline | None:
    """Return the sparkline of values; None if all are missing.

    :param values: shape (n,), NaN if missing.
    :param changed: position of the first value after the change.
    """
    present = np.isfinite(values)
    if not present.any():
        return None
    x = Scale(0.0, max(len(values) - 1.0, 1.0), _MARGIN, WIDTH - _MARGIN)
    low_and_high = padded_range(values[present].tolist(), least_span=_LEAST_SPAN)
    y = Scale(*low_and_high, HEIGHT - _MARGIN, _MARGIN)
    parts = []
    is_drawn = False
    for position, value in enumerate(values.tolist()):
        if not present[position]:
            is_drawn = False
            continue
        place = f"{x(position):.0f} {y(value):.0f}"
        # A line of length zero is drawn as a dot.
        parts.append(f"L{place}" if is_drawn else f"M{place}h0")
        is_drawn = True
    is_inside = changed is not None and 0 < changed < len(values)
    return TriageSparkline("".join(parts), round(x(changed - 0.5)) if changed and is_inside else None)

"""Details of an item: what its traces have in common, commits, environment differences, and history."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from perftrend.analysis.cycles import CycleHistory, part_of, without_metric
from perftrend.analysis.environment import compare_environments
from perftrend.analysis.formula import Query, Term
from perftrend.analysis.query import find_contrast
from perftrend.builds import find_mirror
from perftrend.clients.git import Commit, Repository
from perftrend.dashboard import links
from perftrend.dashboard.catalog import Traces
from perftrend.dashboard.context import AppContext
from perftrend.dashboard.triage.item_plot import shown_findings, window_of
from perftrend.dashboard.triage.models import CommitView, CommonFeatures, HistoryEntry
from perftrend.errors import PerftrendError
from perftrend.model import REFERENCE, EnvironmentChange, SuspectRange
from perftrend.settings import ProjectSettings
from perftrend.store.activity import ActivityEntry
from perftrend.store.alerts import CHANGES, STATUSES, Item, StoredFinding
from perftrend.store.tiles import TileColumn

MOST_COMMITS = 100
_READ_S = 0.5
_RANGES = 256
"""Number of ranges whose commits are cached."""
_WHOLE_HASH = 40

Extent: TypeAlias = Literal["all", "newest", "measured"]

_STATUS = "|".join(STATUSES)
_UNTIL = r"\d{4}-\d\d-\d\d \d\d:\d\d UTC|[^:]+/\d+"
_TRIAGED = re.compile(
    rf"(?:(?P<old>{_STATUS}) → )?(?P<new>{_STATUS})(?P<until> until (?:{_UNTIL}))?(?:: (?P<message>.*))?",
    re.DOTALL,
)
_SENT = re.compile(r"(?P<action>.+) of alert (?P<alert>\d{1,10})")
_KINDS = {
    "regression": "a regression",
    "progression": "an improvement",
    "testbed": "a change of the testbed",
    "silence": "missing data",
    "stopped": "a testbed without runs",
}
_FORMS = {
    "joined": "Found in {what}",
    "closed": "Closed automatically{detail}",
    "reopened": "Reopened automatically{detail}",
    "assigned": "{user} assigned it to {what}",
    "merged": "{user} merged {part}",
    "separated": "{user} separated {part}",
    "split": "{user} split {part}",
}


def find_common_features(now: Traces, item: Item, findings: Sequence[StoredFinding]) -> CommonFeatures | None:
    """Return what the traces of a change have in common, and the fewest other traces of the testbed have."""
    if item.kind not in CHANGES:
        return None
    keys = {now.by_hash[each.trace].key for each in shown_findings(findings) if each.trace in now.by_hash}
    chosen = np.array(sorted(now.table.place_of[key] for key in keys), dtype=np.intp)
    others = np.setdiff1d(now.of_testbed(item.testbed), chosen)
    found = find_contrast(now.table, chosen, others)
    if found is None or found.others > len(chosen):
        # What most others have as well says nothing about the change.
        return None
    return CommonFeatures(
        features=[str(each) for each in found.features],
        traces=len(chosen),
        others=found.others,
        of_others=found.of_others,
    )


def find_costly_parts(
    site: AppContext, now: Traces, item: Item, findings: Sequence[StoredFinding]
) -> list[str]:
    """Return the parts of the device that take more cycles per packet, in the test that fell the most.

    :param findings: those of the item, the largest first.
    """
    found = [now.by_hash[each.trace].key for each in findings if each.trace in now.by_hash]
    names = [without_metric(key) for key in found if not part_of(key)]
    if item.kind != "regression" or not names:
        return []
    name = names[0]
    rows = now.table.rows(Query(tuple(Term(key, value) for key, value in name)))
    traces = [now.stored[row] for row in rows]
    parts = {part_of(each.key): each for each in traces if without_metric(each.key) == name}
    parts.pop("", None)
    if not parts:
        return []
    axis = site.store.tiles.axis(item.testbed)
    window = window_of(axis.columns, item.span, is_own=True)
    columns = window.columns if window else range(len(axis.columns))
    values = site.store.tiles.values(axis, [each.trace_id for each in parts.values()], columns)
    moments = [axis.columns[place].started for place in columns]
    history = CycleHistory.of(moments, dict(zip(parts, values, strict=True)))
    return [str(each) for each in history.costly(item.span.last_good.moment, item.span.first_changed.moment)]


def environment_changes(site: AppContext, item: Item) -> list[EnvironmentChange]:
    """Return what differs between the last good run and the first changed one, except the device's commit."""
    columns = site.store.tiles.axis(item.testbed).columns
    window = window_of(columns, item.span, is_own=True)
    if window is None or window.first_changed >= len(columns):
        return []
    old, new = (site.store.tiles.runs(columns[place]) for place in (window.last_good, window.first_changed))
    return compare_environments(old, new)


def commits_of(site: AppContext, item: Item) -> tuple[list[CommitView], Extent]:
    """Return the commits of the range, the oldest first, and which ones these are."""
    columns = site.store.tiles.axis(item.testbed).columns
    span = item.span
    measured = [
        column
        for column in columns
        if span.last_good.moment < column.started <= span.first_changed.moment
        and _is_of_product(site, column)
    ]
    known = () if item.kind == "stopped" else _read_commits(site.settings.project, span)
    if not known:
        return _views(site, item, [(column, None) for column in measured[:MOST_COMMITS]]), "measured"
    shown = known[::-1][-MOST_COMMITS:]
    pairs = [(_find_column(measured, commit), commit) for commit in shown]
    # Such as the last good commit, measured again with the change.
    others = [column for column in measured if column not in [found for found, _ in pairs]]
    return (
        _views(site, item, [*((column, None) for column in others[:MOST_COMMITS]), *pairs]),
        "newest" if len(known) > MOST_COMMITS else "all",
    )


def _is_of_product(site: AppContext, column: TileColumn) -> bool:
    return any(run.experiment != REFERENCE for run in site.store.tiles.runs(column))


def _find_column(measured: Sequence[TileColumn], commit: Commit) -> TileColumn | None:
    """Return the first measurement of a commit; None: it was not measured."""
    return next((each for each in measured if each.revision and commit.hash.startswith(each.revision)), None)


def _views(
    site: AppContext, item: Item, pairs: Sequence[tuple[TileColumn | None, Commit | None]]
) -> list[CommitView]:
    # Annotations have the hash as the run named it.
    names = [column.revision if column else commit.hash if commit else "" for column, commit in pairs]
    annotations = site.store.annotations.of(names, testbed=item.testbed)
    return [
        CommitView(
            commit=commit.hash if commit else name,
            subject=commit.subject if commit else "",
            author=commit.author if commit else "",
            started=column.started if column else None,
            link=links.of_commit(commit.hash if commit else name, site.settings),
            annotations=[each.text for each in annotations.get(name, ())],
        )
        for name, (column, commit) in zip(names, pairs, strict=True)
    ]


def _read_commits(project: ProjectSettings, span: SuspectRange) -> tuple[Commit, ...]:
    """Return the newest commits of a range, the newest first; none if they are not known."""
    old, new = span.last_good.revision, span.first_changed.revision
    if not old or not new or old == new:
        return ()
    try:
        mirror = find_mirror(project, timeout_s=_READ_S)
        return _read(mirror.folder, old, new) if mirror else ()
    except PerftrendError:
        # The mirror does not have these commits yet, or git takes too long: tried again the next time.
        return ()


@lru_cache(maxsize=_RANGES)
def _read(folder: Path, old: str, new: str) -> tuple[Commit, ...]:
    """Return the newest commits of a range in a mirror; the commits of a range never change.

    :raises PerftrendError: if they cannot be read.
    """
    mirror = Repository.local(folder, timeout_s=_READ_S)
    whole = (each if len(each) == _WHOLE_HASH else mirror.resolve(each) for each in (old, new))
    return mirror.newest(*whole, limit=MOST_COMMITS + 1)


def history_entry(entry: ActivityEntry, alerts: Mapping[int, str]) -> HistoryEntry:
    """Return an entry with its sentence.

    :param alerts: names of the alerts by their ids.
    """
    return HistoryEntry(
        number=entry.number,
        moment=entry.moment,
        user=entry.user,
        action=entry.action,
        subject=entry.subject,
        detail=entry.detail,
        text=_sentence(entry, alerts),
    )


def _sentence(entry: ActivityEntry, alerts: Mapping[int, str]) -> str:
    triaged = _TRIAGED.fullmatch(entry.detail) if entry.action == "triaged" else None
    sent = _SENT.fullmatch(entry.detail) if entry.action == "sent" else None
    if triaged:
        return f"{entry.user} {_describe(triaged)}"
    if sent:
        name = alerts.get(int(sent["alert"]), "a deleted alert")
        return f"{sent['action'].capitalize()} sent for {name}"
    if entry.action == "found":
        kind, _, testbed = entry.detail.partition(" on ")
        return f"Found as {_KINDS.get(kind, kind)} on {testbed}"
    detail = f": {entry.detail}" if entry.detail else ""
    form = _FORMS.get(entry.action, "{user} {action} it{detail}")
    part = f"it {entry.detail}" if entry.detail.startswith(("into ", "from ")) else entry.detail
    return form.format(user=entry.user, action=entry.action, detail=detail, what=entry.detail, part=part)


def _describe(triaged: re.Match[str]) -> str:
    message = f": {triaged['message']}" if triaged["message"] else ""
    until = triaged["until"] or ""
    if triaged["old"]:
        return f"changed the status from {triaged['old']} to {triaged['new']}{until}{message}"
    if until:
        return f"snoozed it{until}{message}"
    return f"changed the message{message}" if message else "removed the message"

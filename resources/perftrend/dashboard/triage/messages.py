"""Messages about a new item, for mail, Gerrit reviews and webhooks.

A message is built when its item is found, from the data of that time. Names of tests come from archives and
may contain any characters, so each channel escapes them in its own way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from html import escape
from typing import Any

from perftrend.analysis.alerts import Finding, FindingGroup, FindingKind, MeasuredCommit
from perftrend.dashboard.formats import plain, value
from perftrend.model import TraceKey, finite
from perftrend.store.alerts import Alert, Rules
from perftrend.store.tiles import StoredTrace
from perftrend.text import format_count, percent

MOST_TRACES = 20
"""Maximum number of traces that a message lists; the page of the item lists more."""

_OMITTED_PARAMETERS = ("testbed", "suite", "test", "metric")
"""Parameters that are part of the name, or shown elsewhere."""

WORDS = {
    FindingKind.REGRESSION: "regression",
    FindingKind.PROGRESSION: "progression",
    FindingKind.SILENCE: "missing data",
    FindingKind.STOPPED: "no runs",
}


def targets_of(rules: Rules) -> list[str]:
    """Return the recipients of the messages of an alert; for mail, each address."""
    if rules.action == "none":
        return []
    if rules.action != "mail":
        return [rules.target]
    # An address that is listed twice receives one mail.
    return list(dict.fromkeys(filter(None, re.split(r"[\s,;]+", rules.target))))


def payload_of(
    item: int, testbed: str, group: FindingGroup, alert: Alert, traces: Mapping[str, StoredTrace]
) -> dict[str, Any]:
    """Return the content of a message as JSON."""
    span = group.range
    ordered = sorted(group.members, key=lambda each: (-_size(each), each.trace))
    return {
        "item": item,
        "testbed": testbed,
        "kind": group.members[0].kind.value,
        "last_good": _place(span.last_good),
        "first_changed": _place(span.first_changed),
        "alert": {"id": alert.identity, "name": alert.rules.name, "owner": alert.rules.owner},
        "count": len([each for each in group.members if each.trace]),
        "traces": [_trace(each, traces[each.trace]) for each in ordered[:MOST_TRACES] if each.trace],
    }


def name_of(key: TraceKey) -> str:
    """Return the display name of a trace: its test, its metric and other parameters that distinguish it.

    Without a test: all its parameters.
    """
    parameters = key.as_dict()
    test, metric = parameters.get("test"), parameters.get("metric", "")
    if test is None:
        return plain(str(key))
    name = test if not metric or test.endswith(f"-{metric}") else f"{test} {metric}"
    others = {key: text for key, text in parameters.items() if key not in _OMITTED_PARAMETERS}
    rest = ", ".join(f"{key}={text}" for key, text in others.items() if text.lower() not in test.lower())
    return plain(f"{name} ({rest})" if rest else name)


def subject(payload: Mapping[str, Any]) -> str:
    """Return the subject of a message: testbed, kind, commit and number of traces."""
    what = WORDS[FindingKind(payload["kind"])]
    first = payload["first_changed"]["revision"][:12]
    count = payload["count"]
    where = f" at {first}" if first else ""
    of = f", {format_count(count, 'trace')}" if count else ""
    return f"{payload['testbed']}: {what}{where}{of}"


def text(payload: Mapping[str, Any], link: str = "") -> str:
    """Return a message as plain text."""
    lines = [f"{subject(payload)}.", "", _format_range(payload)]
    lines += [f"- {plain(each['name'])}: {_step(each)}" for each in payload["traces"]]
    more = payload["count"] - len(payload["traces"])
    lines += [f"and {more} more"] if more > 0 else []
    lines += ["", f"Alert: {payload['alert']['name']}"]
    lines += [link] if link else []
    return "\n".join(lines)


def html(payload: Mapping[str, Any], link: str = "") -> str:
    """Return a message as HTML."""
    rows = "".join(
        f"<tr><td>{escape(plain(each['name']))}</td><td>{escape(_step(each))}</td></tr>"
        for each in payload["traces"]
    )
    more = payload["count"] - len(payload["traces"])
    rest = f"<p>and {more} more</p>" if more > 0 else ""
    to = f'<p><a href="{escape(link)}">{escape(link)}</a></p>' if link else ""
    return (
        f"<p><b>{escape(subject(payload))}</b></p><p>{escape(_format_range(payload))}</p><table>{rows}</table>{rest}"
        f"<p>Alert: {escape(plain(payload['alert']['name']))}</p>{to}"
    )


def _format_range(payload: Mapping[str, Any]) -> str:
    last, first = payload["last_good"], payload["first_changed"]
    return f"After {_format_commit(last)}, up to {_format_commit(first)}."


def _format_commit(place: Mapping[str, str]) -> str:
    moment = f"{place['moment'][:16].replace('T', ' ')} UTC"
    return f"{place['revision'][:12]} ({moment})" if place["revision"] else moment


def _step(trace: Mapping[str, Any]) -> str:
    unit, before, after = trace["unit"], trace["before"], trace["after"]
    if after is None:
        return f"no value since {value(before, unit)}"
    change = f" ({percent(trace['relative'])})" if trace["relative"] is not None else ""
    return f"{value(before, unit)} → {value(after, unit)}{change}"


def _trace(finding: Finding, trace: StoredTrace) -> dict[str, Any]:
    return {
        "name": name_of(trace.key),
        "parameters": trace.key.as_dict(),
        "unit": trace.unit,
        **finding.numbers,
        "relative": finite(finding.relative),
    }


def _place(place: MeasuredCommit) -> dict[str, str]:
    return {"revision": place.revision, "moment": f"{place.moment:%Y-%m-%dT%H:%M:%SZ}"}


def _size(finding: Finding) -> float:
    return abs(finding.relative) if math.isfinite(finding.relative) else 0.0

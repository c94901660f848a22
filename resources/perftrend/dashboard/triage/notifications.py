"""Messages about new items, and their delivery as mails, Gerrit review messages and webhooks.

A message is built when its item is found, from the data of that time, and put into the outbox. Names of tests
come from archives and may contain any characters, so each channel escapes them in its own way.

Failed messages are retried with increasing delays and given up after some days; the page of the item shows
the reason. An unreachable server does not delay messages to others: it is not contacted again until the next
call of :func:`deliver`.

Source: RFC 5321 (SMTP), section 4.5.4.1: senders retry for four to five days.
"""

from __future__ import annotations

import json
import logging
import math
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Any

from perftrend.analysis.alerts import Finding, FindingGroup, FindingKind
from perftrend.clients import gerrit
from perftrend.clients.mail import Mail, MailRefusedError, MailServer
from perftrend.clients.webhook import Webhooks
from perftrend.dashboard.background import defect
from perftrend.dashboard.formats import plain, value
from perftrend.errors import PerftrendError, ServiceError, SettingsError, UsageError, explain
from perftrend.model import MeasuredCommit, TraceKey, finite
from perftrend.settings import Settings
from perftrend.store import Store
from perftrend.store.alerts import Alert, Message, Rules
from perftrend.store.alerts.outbox import MOST_ATTEMPTS
from perftrend.store.tiles import StoredTrace
from perftrend.text import format_count, percent

LOG = logging.getLogger(__name__)

_FIRST_WAIT = timedelta(minutes=1)
_LONGEST_WAIT = timedelta(hours=4)

MOST_TRACES = 20
"""Maximum number of traces that a message lists; the page of the item lists more."""

_OMITTED_PARAMETERS = ("testbed", "suite", "test", "metric")
"""Parameters that are part of the name, or shown elsewhere."""

WORDS = {
    FindingKind.REGRESSION: "regression",
    FindingKind.PROGRESSION: "progression",
    FindingKind.TESTBED: "change of the testbed",
    FindingKind.SILENCE: "missing data",
    FindingKind.STOPPED: "no runs",
}

Send = Callable[[Message], None]
"""Sends one message; raises PerftrendError if that fails."""


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """Number of messages that were sent, and that failed."""

    sent: int
    failed: int


def deliver(
    store: Store,
    settings: Settings,
    *,
    now: datetime | None = None,
    channels: Mapping[str, Send] | None = None,
    most: int = 100,
    ending: threading.Event | None = None,
) -> DeliveryCounts:
    """Send the messages that are due, one after the other.

    :param channels: the function that sends messages, by action; None: according to the settings.
    :param most: the maximum number of messages.
    :param ending: stops the delivery after the current message once it is set.
    """
    send_by = channels_of(settings) if channels is None else channels
    outbox = store.alerts.outbox
    away: set[tuple[str, str | None]] = set()
    sent = failed = 0
    while sent + failed < most and not (ending and ending.is_set()):
        moment = now or datetime.now(UTC)
        message = outbox.claim(now=moment, most_attempts=MOST_ATTEMPTS, away=away)
        if message is None:
            break
        try:
            send_by[message.action](message)
        except PerftrendError as error:
            reason = explain(error)
            if isinstance(error, ServiceError) and not isinstance(error, MailRefusedError):
                # All mails use one server, and so do all review messages.
                away.add((message.action, message.target if message.action == "webhook" else None))
        except Exception as error:
            # A defect with one message must not stop the others.
            reason = defect(error)
            LOG.exception("message %s about item %d: %s", message.key, message.item, reason)
        else:
            outbox.mark(message, now=moment)
            sent += 1
            continue
        wait = min(_FIRST_WAIT * 2 ** (message.attempts - 1), _LONGEST_WAIT)
        outbox.release(message, reason, due=moment + wait)
        failed += 1
    return DeliveryCounts(sent, failed)


def is_given_up(message: Message) -> bool:
    """Return whether a message was not sent and is no longer retried."""
    return message.sent is None and message.attempts >= MOST_ATTEMPTS


def delivery_problem(settings: Settings, action: str) -> str:
    """Return why messages of an action cannot be sent with the settings; empty if they can."""
    match action:
        case "mail" if settings.mail.server is None:
            return "mail.server is not set; set it to send mails of alerts"
        case "gerrit" if not settings.gerrit.post:
            return "gerrit.post is off; messages of alerts are not posted"
        case "gerrit" if settings.gerrit.url is None:
            return "gerrit.url is not set; set it to post messages of alerts"
        case "webhook" if settings.dashboard.alert_secret is None:
            return "dashboard.alert_secret is not set; webhooks are signed with it"
    return ""


def channels_of(settings: Settings) -> dict[str, Send]:
    """Return the function that sends messages, by action."""

    def link(message: Message) -> str:
        url = settings.dashboard.url
        return f"{url}/triage/{message.item}" if url else ""

    return {
        "mail": lambda message: _mail(settings, message, link(message)),
        "gerrit": lambda message: _review(settings, message, link(message)),
        "webhook": lambda message: _webhook(settings, message, link(message)),
    }


def targets_of(rules: Rules) -> list[str]:
    """Return the recipients of the messages of an alert; for mail, each address."""
    if rules.action == "none":
        return []
    if rules.action != "mail":
        return [rules.target]
    return mail_addresses(rules.target)


def mail_addresses(text: str) -> list[str]:
    """Return the mail addresses of a list; one that is listed twice receives one mail."""
    return list(dict.fromkeys(filter(None, re.split(r"[\s,;]+", text))))


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


def message_subject(payload: Mapping[str, Any]) -> str:
    """Return the subject of a message: testbed, kind, commit and number of traces."""
    what = WORDS[FindingKind(payload["kind"])]
    first = payload["first_changed"]["revision"][:12]
    count = payload["count"]
    where = f" at {first}" if first else ""
    of = f", {format_count(count, 'trace')}" if count else ""
    return f"{payload['testbed']}: {what}{where}{of}"


def message_text(payload: Mapping[str, Any], link: str = "") -> str:
    """Return a message as plain text."""
    lines = [f"{message_subject(payload)}.", "", _format_range(payload)]
    lines += [f"- {plain(each['name'])}: {_step(each)}" for each in payload["traces"]]
    more = payload["count"] - len(payload["traces"])
    lines += [f"and {more} more"] if more > 0 else []
    lines += ["", f"Alert: {payload['alert']['name']}"]
    lines += [link] if link else []
    return "\n".join(lines)


def message_html(payload: Mapping[str, Any], link: str = "") -> str:
    """Return a message as HTML."""
    rows = "".join(
        f"<tr><td>{escape(plain(each['name']))}</td><td>{escape(_step(each))}</td></tr>"
        for each in payload["traces"]
    )
    more = payload["count"] - len(payload["traces"])
    rest = f"<p>and {more} more</p>" if more > 0 else ""
    to = f'<p><a href="{escape(link)}">{escape(link)}</a></p>' if link else ""
    return (
        f"<p><b>{escape(message_subject(payload))}</b></p><p>{escape(_format_range(payload))}</p>"
        f"<table>{rows}</table>{rest}"
        f"<p>Alert: {escape(plain(payload['alert']['name']))}</p>{to}"
    )


def _mail(settings: Settings, message: Message, link: str) -> None:
    server = MailServer.of(settings.mail)
    if server is None:
        raise SettingsError(delivery_problem(settings, "mail"))
    payload = message.payload
    mail = Mail(
        recipient=message.target,
        subject=message_subject(payload),
        text=message_text(payload, link),
        html=message_html(payload, link),
        identity=message.key,
        thread=f"item {message.item} {payload['testbed']}",
        list_name=payload["testbed"],
    )
    # Temporary errors are retried from the outbox, where no other message waits.
    replace(server, attempts=1).send(mail)


def _review(settings: Settings, message: Message, link: str) -> None:
    """Post a message on the change of the first changed commit; the same text is not posted twice."""
    if problem := delivery_problem(settings, "gerrit"):
        raise SettingsError(problem)
    commit = message.payload["first_changed"]["revision"]
    if not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise UsageError(f"the first changed commit is known as {commit!r} only; its change cannot be found")
    server = gerrit.connect(settings.gerrit.model_copy(update={"attempts": 1}))
    found = server.patch_set_of(commit, project=message.target)
    if found is None:
        raise UsageError(f"no change of project {message.target} is known of commit {commit[:12]}")
    change, patch_set = found
    # Each item has its own tag, so that its message does not replace that of another item.
    verdict = gerrit.ReviewVerdict(
        job=f"alert-{message.alert}/item-{message.item}",
        text=message_text(message.payload, link),
        link=link,
    )
    server.post(change.number, patch_set.number, verdict)


def _webhook(settings: Settings, message: Message, link: str) -> None:
    chosen = settings.dashboard
    webhooks = Webhooks(chosen.alert_secret, chosen.alert_networks)
    body = {"key": message.key, "link": link, **message.payload}
    webhooks.post(message.target, json.dumps(body, allow_nan=False).encode(), key=message.key)


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

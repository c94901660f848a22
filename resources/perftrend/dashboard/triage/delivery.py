"""Delivery of the messages in the outbox: mails, Gerrit review messages, webhooks.

Failed messages are retried with increasing delays and given up after some days; the page of the item shows
the reason. An unreachable server does not delay messages to others: it is not contacted again until the next
call of :func:`deliver`.

Source: RFC 5321 (SMTP), section 4.5.4.1: senders retry for four to five days.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from perftrend.clients import gerrit
from perftrend.clients.mail import Mail, MailRefusedError, MailServer
from perftrend.clients.webhook import Webhooks
from perftrend.dashboard.background import defect
from perftrend.dashboard.triage import messages
from perftrend.errors import PerftrendError, ServiceError, SettingsError, UsageError, explain
from perftrend.settings import Settings
from perftrend.store import Store
from perftrend.store.alerts import Message

LOG = logging.getLogger(__name__)

MOST_ATTEMPTS = 36
"""With the waits between them: four and a half days."""
_FIRST_WAIT = timedelta(minutes=1)
_LONGEST_WAIT = timedelta(hours=4)

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


def _mail(settings: Settings, message: Message, link: str) -> None:
    server = MailServer.of(settings.mail)
    if server is None:
        raise SettingsError(delivery_problem(settings, "mail"))
    payload = message.payload
    mail = Mail(
        recipient=message.target,
        subject=messages.subject(payload),
        text=messages.text(payload, link),
        html=messages.html(payload, link),
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
        text=messages.text(message.payload, link),
        link=link,
    )
    server.post(change.number, patch_set.number, verdict)


def _webhook(settings: Settings, message: Message, link: str) -> None:
    chosen = settings.dashboard
    webhooks = Webhooks(chosen.alert_secret, chosen.alert_networks)
    body = {"key": message.key, "link": link, **message.payload}
    webhooks.post(message.target, json.dumps(body, allow_nan=False).encode(), key=message.key)

"""Mails are sent here, by SMTP: to each recipient one, with what concerns him.

General recipients get everything. Those whom the specification names for some tests get the changes
of these, and which of them are newly without a valid result. Whom a run does not concern gets
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache

from perftrend.clients.mail import Mail, MailRefusedError, MailServer
from perftrend.errors import PerftrendError, ServiceError, SettingsError
from perftrend.model import Run, Verdict
from perftrend.report.mails.causes import is_new, lacks_result
from perftrend.report.mails.content import (
    Content,
    Links,
    compose,
    compose_failed_job,
    compose_no_results,
    parts,
)
from perftrend.report.mails.files import NO_LINKS
from perftrend.report.mails.record import Pending, Record

Judged = Callable[[Pending], Sequence[Verdict]]
"""Returns the verdicts that a mail about some runs is made of."""


def send(
    judged: Judged,
    *,
    run: Run,
    runs: Sequence[Run],
    server: MailServer,
    recipients: Collection[str],
    record: Record,
    links: Links = NO_LINKS,
    notices: Sequence[str] = (),
    at_first: int = 1,
) -> tuple[str, ...]:
    """Send the mails of a run to those who have not had them.

    Whoever was told is kept at once, so that a job that was killed or met an error goes on with the
    others when it runs again.

    :param judged: the analysis; called once for each set of runs that a recipient missed.
    :param run: the run that was analysed.
    :param runs: what the store knows of its testbed.
    :param recipients: who get everything, beside those whom the specification names.
    :param record: who has been told of which run.
    :param links: where a reader goes on.
    :param notices: what a reader must be told, such as that another testbed was used.
    :param at_first: how many of the newest runs are told of to somebody who had no mail before.
    :returns: whom a mail was sent to.
    :raises ServiceError: if mails were not sent: how many, and why the first was not. One that is
        refused does not stop the others; a server that cannot be used does.
    """
    verdicts_of = cache(judged)

    @cache
    def content_for(owner: str | None, pending: Pending) -> Content | None:
        return _content(
            verdicts_of(pending),
            owner=owner,
            run=run,
            links=links,
            notices=notices,
            new_runs=len(pending.runs),
        )

    general = {_folded(each): each for each in recipients}
    named = {_folded(each): each for verdict in verdicts_of(Pending((run,))) for each in verdict.mail}
    delivery = _Delivery(server)
    for key, recipient in sorted({**named, **general}.items()):
        pending = record.pending(run, runs, key, at_first=at_first)
        if not pending.runs:
            continue
        content = content_for(None if key in general else key, pending)
        if content is None or delivery.hand_over(
            _mail(recipient, content, testbed=run.testbed, job=run.job, build=run.build)
        ):
            record.mark(pending, key)
    return delivery.result()


def send_failed_job(
    *,
    server: MailServer,
    recipients: Collection[str],
    job: str,
    build: int,
    testbed: str,
    reason: str,
    links: Links = NO_LINKS,
    simulated: bool = False,
) -> tuple[str, ...]:
    """Send the mail of a job that ended without results.

    :returns: whom it was sent to.
    :raises ServiceError: if mails were not sent: how many, and why the first was not.
    """
    content = compose_failed_job(
        job=job, build=build, testbed=testbed, reason=reason, links=links, simulated=simulated
    )
    delivery = _Delivery(server)
    for recipient in sorted({_folded(each): each for each in recipients}.values()):
        delivery.hand_over(_mail(recipient, content, testbed=testbed, job=job, build=build))
    return delivery.result()


class _Delivery:
    """Mails that are handed over one after the other, and what became of them."""

    def __init__(self, server: MailServer) -> None:
        self._server = server
        self._usable = True
        self._sent: list[str] = []
        self._failures: list[PerftrendError] = []

    def hand_over(self, mail: Mail) -> bool:
        """Send a mail, and say whether it was sent; a server that failed is not asked again."""
        if not self._usable:
            return False
        try:
            self._server.send(mail)
        except (MailRefusedError, SettingsError) as error:
            self._failures.append(error)
        except ServiceError as error:
            self._failures.append(error)
            self._usable = False
        else:
            self._sent.append(mail.recipient)
            return True
        return False

    def result(self) -> tuple[str, ...]:
        """Return who got a mail. :raises ServiceError: if somebody should have and did not."""
        if self._failures:
            more = len(self._failures) - 1
            others = f", and {more} more" if more else ""
            raise ServiceError(f"{self._failures[0]}{others}")
        return tuple(self._sent)


def _content(
    verdicts: Sequence[Verdict],
    *,
    owner: str | None,
    run: Run,
    links: Links,
    notices: Sequence[str],
    new_runs: int,
) -> Content | None:
    """Return what a run says to an owner of some tests, or to those who get everything: owner None."""
    if owner is not None:
        verdicts = _concerning(owner, verdicts, run, new_runs)
    elif nothing := compose_no_results(verdicts, run=run, links=links):
        return nothing
    said = parts(verdicts, run=run, links=links, new_runs=new_runs)
    return compose(said, run=run, links=links, notices=notices) if said else None


def _concerning(owner: str, verdicts: Sequence[Verdict], run: Run, new_runs: int) -> list[Verdict]:
    """Return what concerns somebody who looks after some tests: not each night that one of them fails."""
    return [
        verdict
        for verdict in verdicts
        if owner in map(_folded, verdict.mail)
        and (not lacks_result(verdict) or is_new(verdict, run, new_runs))
    ]


def _mail(recipient: str, content: Content, *, testbed: str, job: str, build: int) -> Mail:
    return Mail(
        recipient=recipient,
        subject=content.subject,
        text=content.text,
        html=content.html,
        identity=f"{testbed} {job} {build} {content.subject}",
        thread=f"{testbed} {job}",
        list_name=testbed,
    )


def _folded(address: str) -> str:
    return address.lower()

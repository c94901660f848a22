"""Delivery of the mails of a run: as files that Jenkins sends, or by SMTP from here.

Jenkins uses the files as the bodies and subjects of its mails. ``NAME.subject``, ``NAME.txt`` and
``NAME.html`` exist only if there is something to report: the mails of an earlier run are removed first. Each
file is replaced atomically, and ``NAME.html`` comes last: if it exists, the mail can be sent. Jenkins expands
its own tokens, such as ``${ENV,var="…"}``, in the text of a file. A test's message may contain text that
looks like a token, so no file has a dollar sign.

By SMTP each recipient gets one mail with everything that concerns them. General recipients get everything.
Recipients that the specification names for some tests get the changes of these, and those that are newly
without a valid result. A recipient whom a run does not concern gets no mail.

A job that a user starts by hand sends nothing by default: outside of Jenkins no file is written, and without
``mail.server`` nothing leaves this machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from perftrend import console
from perftrend.clients.mail import Mail, MailRefusedError, MailServer
from perftrend.errors import EXIT_PASS, PerftrendError, ServiceError, SettingsError, UsageError
from perftrend.files import write_whole
from perftrend.model import Run, Verdict
from perftrend.report.mails.causes import is_new, lacks_result
from perftrend.report.mails.content import (
    FAILED,
    FAILED_JOB,
    PROGRESSIONS,
    REGRESSIONS,
    TESTBED,
    Content,
    Links,
    compose,
    compose_failed_job,
    compose_no_results,
    parts,
)
from perftrend.report.mails.record import FILES, MailRecord, PendingRuns
from perftrend.settings import Settings

NAMES = (FAILED, FAILED_JOB, REGRESSIONS, PROGRESSIONS, TESTBED)
"""The possible mails."""

FOLDER = "mails"
"""The name of the folder of the files."""

NO_LINKS = Links()

_KINDS = ("subject", "txt", "html")
_LIKE_DOLLAR = "\N{FULLWIDTH DOLLAR SIGN}"

Judged = Callable[[PendingRuns], Sequence[Verdict]]
"""Returns the verdicts for a mail about some runs."""


def write(
    folder: Path,
    verdicts: Sequence[Verdict],
    *,
    run: Run,
    links: Links = NO_LINKS,
    notices: Sequence[str] = (),
    new_runs: int = 1,
) -> tuple[Path, ...]:
    """Write the mails of a run into ``folder/mails``, and remove those of an earlier one.

    The same verdicts give the same files: the verdicts already exclude changes that earlier mails
    reported, see :class:`~perftrend.report.mails.MailRecord`.

    :param folder: created if missing, with its parents; in ``mails``, only mails are changed.
    :param verdicts: one for each trace, in any order; empty if everything was already reported.
    :param run: the run that was analysed.
    :param links: links to further information.
    :param notices: notices for readers, such as that another testbed was used.
    :param new_runs: the number of newest runs that no mail has reported.
    :returns: the files.
    :raises OSError: if a file cannot be written.
    """
    return _replace(folder, mails_of(verdicts, run=run, links=links, notices=notices, new_runs=new_runs))


def write_failed_job(
    folder: Path,
    *,
    job: str,
    build: int,
    testbed: str,
    reason: str,
    links: Links = NO_LINKS,
    simulated: bool = False,
) -> tuple[Path, ...]:
    """Write the mail of a job that ends without results, and remove all mails of an earlier one.

    It needs neither a store nor a run. If a job writes it first, and the others at its end, it is
    reported even if the job is killed.

    :param reason: what went wrong, one or more lines.
    :returns: the files.
    :raises OSError: if a file cannot be written.
    """
    content = compose_failed_job(
        job=job, build=build, testbed=testbed, reason=reason, links=links, simulated=simulated
    )
    return _replace(folder, {FAILED_JOB: content})


def mails_of(
    verdicts: Sequence[Verdict],
    *,
    run: Run,
    links: Links = NO_LINKS,
    notices: Sequence[str] = (),
    new_runs: int = 1,
) -> dict[str, Content]:
    """Return the mails of a run by name, without those that have nothing to report.

    A run in which every expected test is missing gave no results: its job failed.
    """
    if nothing := compose_no_results(verdicts, run=run, links=links):
        return {FAILED_JOB: nothing}
    mail_parts = parts(verdicts, run=run, links=links, new_runs=new_runs)
    return {part.name: compose([part], run=run, links=links, notices=notices) for part in mail_parts}


def send(
    judged: Judged,
    *,
    run: Run,
    runs: Sequence[Run],
    server: MailServer,
    recipients: Collection[str],
    record: MailRecord,
    links: Links = NO_LINKS,
    notices: Sequence[str] = (),
    at_first: int = 1,
) -> tuple[str, ...]:
    """Send the mails of a run to the recipients that have not had them.

    Each sent mail is recorded at once, so that a job that was killed or failed continues with the other
    recipients when it runs again.

    :param judged: the analysis; called once for each set of runs that a recipient missed.
    :param run: the run that was analysed.
    :param runs: the runs of its testbed in the store.
    :param recipients: the recipients of everything, in addition to those that the specification names.
    :param record: the record of runs reported to each recipient.
    :param links: links to further information.
    :param notices: notices for readers, such as that another testbed was used.
    :param at_first: the number of newest runs that the first mail to a recipient covers.
    :returns: the recipients to whom a mail was sent.
    :raises ServiceError: if mails were not sent: the reason of the first, and how many more. A refused
        mail does not stop the others; a server that cannot be used does.
    """
    verdicts_of = cache(judged)

    @cache
    def content_for(owner: str | None, pending: PendingRuns) -> Content | None:
        return _content(
            verdicts_of(pending),
            owner=owner,
            run=run,
            links=links,
            notices=notices,
            new_runs=len(pending.runs),
        )

    general = {_fold_case(each): each for each in recipients}
    named = {_fold_case(each): each for verdict in verdicts_of(PendingRuns((run,))) for each in verdict.mail}
    delivery = _Delivery(server)
    for key, recipient in sorted({**named, **general}.items()):
        pending = record.find_pending(run, runs, key, at_first=at_first)
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

    :returns: the recipients to whom it was sent.
    :raises ServiceError: if mails were not sent: the reason of the first, and how many more.
    """
    content = compose_failed_job(
        job=job, build=build, testbed=testbed, reason=reason, links=links, simulated=simulated
    )
    delivery = _Delivery(server)
    for recipient in sorted({_fold_case(each): each for each in recipients}.values()):
        delivery.hand_over(_mail(recipient, content, testbed=testbed, job=job, build=build))
    return delivery.result()


def _replace(folder: Path, mails: Mapping[str, Content]) -> tuple[Path, ...]:
    target = folder / FOLDER
    target.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        for kind in reversed(_KINDS):
            (target / f"{name}.{kind}").unlink(missing_ok=True)
    return tuple(
        # A subject has no newline, because Jenkins uses the whole file.
        write_whole(target / f"{name}.{kind}", text)
        for name, content in mails.items()
        for kind, text in zip(_KINDS, _harmless(content), strict=True)
    )


def _harmless(content: Content) -> tuple[str, str, str]:
    """Return subject, text and HTML without a dollar sign."""
    return (
        content.subject.replace("$", _LIKE_DOLLAR),
        content.text.replace("$", _LIKE_DOLLAR),
        content.html.replace("$", "&#36;"),
    )


class _Delivery:
    """Delivery of mails, one after the other, with its successes and failures."""

    def __init__(self, server: MailServer) -> None:
        self._server = server
        self._usable = True
        self._sent: list[str] = []
        self._failures: list[PerftrendError] = []

    def hand_over(self, mail: Mail) -> bool:
        """Send a mail, and return whether it was sent; a server that failed is not used again."""
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
        """Return the recipients of sent mails. :raises ServiceError: if a mail was not sent."""
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
    """Return the mail for an owner of some tests, or for general recipients if owner is None."""
    if owner is not None:
        verdicts = _select_for_owner(owner, verdicts, run, new_runs)
    elif nothing := compose_no_results(verdicts, run=run, links=links):
        return nothing
    mail_parts = parts(verdicts, run=run, links=links, new_runs=new_runs)
    return compose(mail_parts, run=run, links=links, notices=notices) if mail_parts else None


def _select_for_owner(owner: str, verdicts: Sequence[Verdict], run: Run, new_runs: int) -> list[Verdict]:
    """Return the verdicts for an owner of some tests; repeated failures of a test are left out."""
    return [
        verdict
        for verdict in verdicts
        if owner in map(_fold_case, verdict.mail)
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


def _fold_case(address: str) -> str:
    return address.lower()


def write_and_send(
    settings: Settings,
    judged: Judged,
    *,
    run: Run,
    runs: Callable[[], Sequence[Run]],
    notices: Sequence[str],
    new_runs: int,
) -> int:
    """Write and send the mails of a run, and return the exit code: a mail that was not sent is an error.

    :param judged: returns the verdicts for a mail about some runs.
    :param runs: returns the runs of the testbed in the store; called only if mails are written or sent.
    :param notices: notices for readers.
    :param new_runs: number of the newest runs that the first mail to a recipient covers.
    """
    if not (_build_url() or settings.mail.server):
        return EXIT_PASS
    try:
        record = MailRecord(settings.mail.record)
        with record.lock(run):
            return _write_and_send(
                settings, judged, run=run, runs=runs(), record=record, notices=notices, new_runs=new_runs
            )
    except PerftrendError as error:
        # The verdict is valid nevertheless, so this must not end the job as one without results.
        console.warn(f"mails: {error}")
        return error.exit_code


def _write_and_send(
    settings: Settings,
    judged: Judged,
    *,
    run: Run,
    runs: Sequence[Run],
    record: MailRecord,
    notices: Sequence[str],
    new_runs: int,
) -> int:
    server = MailServer.of(settings.mail)  # raises errors before a run counts as reported
    if _build_url():
        pending = record.find_pending(run, runs, FILES, at_first=new_runs)
        write(
            settings.report,
            judged(pending) if pending.runs else (),
            run=run,
            links=_links(settings),
            notices=notices,
            new_runs=len(pending.runs) or 1,
        )
        record.mark(pending, FILES)
    if server is None:
        return EXIT_PASS
    try:
        send(
            judged,
            run=run,
            runs=runs,
            server=server,
            recipients=settings.mail.recipients,
            record=record,
            links=_links(settings),
            notices=notices,
            at_first=new_runs,
        )
    except ServiceError as error:
        # The verdict is valid nevertheless; the next analysis sends the missing mails.
        console.warn(str(error))
        return error.exit_code
    return EXIT_PASS


@contextmanager
def report_failure(settings: Settings, *, testbed: str | None = None) -> Iterator[None]:
    """Write the mail of a job that ends without results, if Jenkins runs it.

    :param testbed: its name, empty if none is involved; None: that of the settings.
    """
    try:
        yield
    except PerftrendError as error:
        build = os.environ.get("BUILD_NUMBER", "")
        # A mistake in a comment concerns its author, who gets it from Jenkins or the listener.
        is_mistyped = isinstance(error, UsageError) and os.environ.get("GERRIT_EVENT_COMMENT_TEXT")
        if _build_url() and build.isdecimal() and not is_mistyped:
            write_failed_job(
                settings.report,
                job=os.environ.get("JOB_NAME", ""),
                build=int(build),
                testbed=settings.testbed if testbed is None else testbed,
                reason=str(error),
                links=_links(settings),
            )
        raise


def _build_url() -> str:
    return os.environ.get("BUILD_URL", "")


def _links(settings: Settings) -> Links:
    url = _build_url()
    report = f"{url.rstrip('/')}/artifact/report/index.html" if url else ""
    return Links(report=report, build=url, settings=settings)

"""Mails about a run: files that Jenkins sends, or SMTP if a server is configured.

A job that a user starts by hand sends nothing by default: outside of Jenkins no file is written, and without
``mail.server`` nothing leaves this machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from perftrend import console, errors
from perftrend.clients.mail import MailServer
from perftrend.model import Run
from perftrend.report import mails
from perftrend.report.mails.delivery import Judged
from perftrend.settings import Settings


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
        return errors.EXIT_PASS
    try:
        record = mails.MailRecord(settings.mail.record)
        with record.lock(run):
            return _write_and_send(
                settings, judged, run=run, runs=runs(), record=record, notices=notices, new_runs=new_runs
            )
    except errors.PerftrendError as error:
        # The verdict is valid nevertheless, so this must not end the job as one without results.
        console.warn(f"mails: {error}")
        return error.exit_code


def _write_and_send(
    settings: Settings,
    judged: Judged,
    *,
    run: Run,
    runs: Sequence[Run],
    record: mails.MailRecord,
    notices: Sequence[str],
    new_runs: int,
) -> int:
    server = MailServer.of(settings.mail)  # raises errors before a run counts as reported
    if _build_url():
        pending = record.find_pending(run, runs, mails.FILES, at_first=new_runs)
        mails.write(
            settings.report,
            judged(pending) if pending.runs else (),
            run=run,
            links=_links(settings),
            notices=notices,
            new_runs=len(pending.runs) or 1,
        )
        record.mark(pending, mails.FILES)
    if server is None:
        return errors.EXIT_PASS
    try:
        mails.send(
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
    except errors.ServiceError as error:
        # The verdict is valid nevertheless; the next analysis sends the missing mails.
        console.warn(str(error))
        return error.exit_code
    return errors.EXIT_PASS


@contextmanager
def report_failure(settings: Settings, *, testbed: str | None = None) -> Iterator[None]:
    """Write the mail of a job that ends without results, if Jenkins runs it.

    :param testbed: its name, empty if none is involved; None: that of the settings.
    """
    try:
        yield
    except errors.PerftrendError as error:
        build = os.environ.get("BUILD_NUMBER", "")
        # A mistake in a comment concerns its author, who gets it from Jenkins or the listener.
        is_mistyped = isinstance(error, errors.UsageError) and os.environ.get("GERRIT_EVENT_COMMENT_TEXT")
        if _build_url() and build.isdecimal() and not is_mistyped:
            mails.write_failed_job(
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


def _links(settings: Settings) -> mails.Links:
    url = _build_url()
    report = f"{url.rstrip('/')}/artifact/report/index.html" if url else ""
    return mails.Links(report=report, build=url, settings=settings)

"""The mails of a run as files, which Jenkins uses as the bodies and subjects of the mails that it sends.

``NAME.subject``, ``NAME.txt`` and ``NAME.html`` exist only if there is something to report: the mails of
an earlier run are removed first. Each file is replaced atomically, and ``NAME.html`` comes last: if it
exists, the mail can be sent.

Jenkins expands its own tokens, such as ``${ENV,var="…"}``, in the text of a file. A test's message may
contain text that looks like a token, so no file has a dollar sign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from perftrend.files import write_whole
from perftrend.model import Run, Verdict
from perftrend.report.mails.content import (
    FAILED,
    FAILED_JOB,
    PROGRESSIONS,
    REGRESSIONS,
    Content,
    Links,
    compose,
    compose_failed_job,
    compose_no_results,
    parts,
)

NAMES = (FAILED, FAILED_JOB, REGRESSIONS, PROGRESSIONS)
"""The possible mails."""

FOLDER = "mails"
"""The name of the folder of the files."""

NO_LINKS = Links()

_KINDS = ("subject", "txt", "html")
_LIKE_DOLLAR = "\N{FULLWIDTH DOLLAR SIGN}"


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

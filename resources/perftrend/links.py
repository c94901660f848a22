"""Addresses of pages: the dashboard's for traces, runs with their files, and commits in Gerrit.

Addresses on the dashboard are relative to its root, see :func:`on_dashboard`. External addresses are only
linked if they are HTTP or HTTPS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

from perftrend.clients.jenkins.builds import job_path
from perftrend.errors import UsageError
from perftrend.model import Run
from perftrend.settings import Settings

_ADDRESS = re.compile(r"https?://[^\s\"'<>\\]+")
_OF_A_BUILD = re.compile(r"(.*/job/[^?#]*/\d+)(/artifact/.*)?")
_OUTPUT = re.compile(r"/output\.(?:xml|json)(?:\.gz|\.xz|\.bz2|\.zst)?\Z")
_NO_FOLDER = re.compile(r"^\.+|[^\w.-]+")

EXPLORE = "/explore"
"""The path of Explore."""
MOST_IDS = 50
"""Maximum number of traces in one address; use a shortcut for more."""


def of_plot(*, testbed: str = "", ids: Sequence[str] = (), shortcut: str = "") -> str:
    """Return the address of the plot of traces, on this dashboard.

    :param testbed: testbed whose commits are the points; empty: the one of the settings.
    :param ids: ids of traces, at most :data:`MOST_IDS`.
    :param shortcut: id of a shortcut; empty: none.
    """
    chosen = [("testbed", testbed), *(("id", each) for each in ids), ("shortcut", shortcut)]
    return f"{EXPLORE}?{urlencode([pair for pair in chosen if pair[1]])}"


def of_query(*, testbed: str, query: str) -> str:
    """Return the address of the plot of the traces that match a query, on the dashboard."""
    chosen = [("testbed", testbed), ("q", query)]
    return f"{EXPLORE}?{urlencode([pair for pair in chosen if pair[1]])}"


def of_column(testbed: str, column: int) -> str:
    """Return the address of the plot around a column of a testbed, on the dashboard."""
    return f"{EXPLORE}?{urlencode({'testbed': testbed, 'at': column})}"


def of_items(*, testbed: str, query: str) -> str:
    """Return the address of the items of some traces, open or not, on the dashboard.

    :param query: a query that the traces match.
    """
    return f"/triage?{urlencode({'status': 'all', 'testbed': testbed, 'query': query})}"


def of_new_bisection(testbed: str, *, old: str, new: str, trace: str) -> str:
    """Return the address of the page that starts a bisection, on the dashboard.

    :param trace: id of the trace whose test is measured; empty: the default tests of the job.
    """
    chosen = [("job", "bisect"), ("testbed", testbed), ("old", old), ("new", new), ("trace", trace)]
    return f"/jobs/new?{urlencode([pair for pair in chosen if pair[1]])}"


def on_dashboard(path: str, settings: Settings) -> str:
    """Return the public URL of a page of the dashboard; empty: there is no dashboard."""
    return f"{str(settings.dashboard.url).rstrip('/')}{path}" if settings.dashboard.url else ""


def of_run(run: Run, settings: Settings) -> Mapping[str, str]:
    """Return the known addresses of a run by kind: ``build``, ``log``, ``report`` and ``archive``."""
    archive = run.archive.rstrip("/") if _ADDRESS.fullmatch(run.archive) else ""
    build = _OF_A_BUILD.fullmatch(archive)
    if build and not build[2]:
        # The address of a perftrend build: Jenkins archives the folders of its workspace as artifacts.
        folder = f"{archive}/artifact/archives/{quote(_NO_FOLDER.sub('-', run.job))}/{run.build}"
        return {
            "build": f"{archive}/",
            "log": f"{folder}/log.html",
            "report": f"{archive}/artifact/report/index.html",
            "archive": f"{archive}/artifact/",
        }
    found = {"build": f"{build[1]}/" if build else _build(run, settings)}
    if archive:
        log = _OUTPUT.sub("/log.html", archive) if _OUTPUT.search(archive) else f"{archive}/log.html"
        found |= {"log": log, "archive": archive}
    return {name: address for name, address in found.items() if address}


def of_commit(revision: str, settings: Settings) -> str:
    """Return the address of a commit's review; empty: not known."""
    if not (settings.gerrit.url and revision):
        return ""
    return f"{str(settings.gerrit.url).rstrip('/')}/q/{quote(revision, safe='')}"


def of_change(project: str, number: int, settings: Settings) -> str:
    """Return the address of a change in Gerrit; empty: not known."""
    if not settings.gerrit.url:
        return ""
    return f"{str(settings.gerrit.url).rstrip('/')}/c/{quote(project)}/+/{number}"


def external(address: str) -> str:
    """Return an address if it can be linked, otherwise an empty text."""
    return address if _ADDRESS.fullmatch(address) else ""


def _build(run: Run, settings: Settings) -> str:
    if not settings.jenkins.url:
        return ""
    try:
        return f"{str(settings.jenkins.url).rstrip('/')}/{job_path(run.job)}/{run.build}/"
    except UsageError:
        # The job of a manual run may have a name that is not valid in Jenkins.
        return ""

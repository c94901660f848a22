"""Notification of the dashboard about a run, if configured; the dashboard then ingests the archived run."""

from __future__ import annotations

from perftrend import console
from perftrend.clients import ingest_event
from perftrend.errors import ServiceError
from perftrend.model import Run
from perftrend.settings import Settings


def announce(settings: Settings, run: Run) -> None:
    """Notify the dashboard; print a warning if that fails."""
    url, secret = settings.dashboard.url, settings.dashboard.ingest_secret
    if not url or secret is None:
        return
    try:
        ingest_event.notify(url, secret, run.job, run.build)
    except ServiceError as error:
        console.warn(f"the dashboard was not notified of run {run.name}: {error}")

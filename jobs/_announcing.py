"""Tells the dashboard of a run, where the settings say so: it then takes the run from its archive."""

from __future__ import annotations

from jobs import _options as options
from perftrend.clients import ingest_event
from perftrend.errors import ServiceError
from perftrend.model import Run
from perftrend.settings import Settings


def announce(settings: Settings, run: Run) -> None:
    """Tell the dashboard; where it does not answer, that is told, and the job goes on."""
    url, secret = settings.dashboard.url, settings.dashboard.ingest_secret
    if not url or secret is None:
        return
    try:
        ingest_event.tell(url, secret, run.job, run.build)
    except ServiceError as error:
        options.warn(f"the dashboard was not told of run {run.name}: {error}")

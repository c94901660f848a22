"""When a snoozed item is new again, as a user writes it: a date, a number of days, or a run."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from perftrend.dashboard.context import AppContext
from perftrend.errors import UsageError
from perftrend.store.alerts import Snooze

NEXT_RUN = "next run"
FORMS = "enter next run, 7 days, a date such as 2026-12-01, or a build such as build 61"

_LONGEST = timedelta(days=3660)
_BUILD = re.compile(r"(?:build )?#?([0-9]{1,9})")
_PERIOD = re.compile(r"([0-9]{1,4}) ?(d|days?|w|weeks?)")
_WEEK_DAYS = 7


def parse_snooze(site: AppContext, testbed: str, text: str, now: datetime) -> Snooze:
    """Return when an item of a testbed is new again; an empty text is the next run.

    A build is one of the job of the newest nightly run.

    :raises UsageError: if the text has no such form, or the moment or the run is in the past.
    """
    entered = " ".join(text.lower().split())
    if entered in {"", NEXT_RUN}:
        job, newest = _newest_build(site, testbed)
        return Snooze(job=job, build=newest + 1)
    if build := _BUILD.fullmatch(entered):
        job, newest = _newest_build(site, testbed)
        if int(build[1]) <= newest:
            raise UsageError(
                f"until: {testbed} has measured build {newest} of {job} already; enter a greater number"
            )
        return Snooze(job=job, build=int(build[1]))
    until = _moment(entered, now)
    if until is None:
        raise UsageError(f"until: {FORMS}")
    if not now < until <= now + _LONGEST:
        raise UsageError(f"until: {until:%Y-%m-%d} is not within the next ten years; enter a later date")
    return Snooze(until=until)


def _moment(entered: str, now: datetime) -> datetime | None:
    if period := _PERIOD.fullmatch(entered):
        return now + timedelta(days=int(period[1]) * (_WEEK_DAYS if period[2].startswith("w") else 1))
    try:
        moment = datetime.fromisoformat(entered.upper())
    except ValueError:
        return None
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:
        return None


def _newest_build(site: AppContext, testbed: str) -> tuple[str, int]:
    found = site.store.alerts.newest_build(testbed)
    if found is None:
        raise UsageError(f"until: {testbed} has no nightly run yet; enter a date")
    return found

"""The difference between this machine's clock and that of a server, by the Date header of a response."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from perftrend.clients.http_session import read_date
from perftrend.doctor.check_results import Area, CheckResult

_LARGEST_SKEW_S = 5.0
"""Runs and comments are ordered by time; the header has whole seconds."""
_SYNCHRONIZE = "sudo timedatectl set-ntp true"


def check(area: Area, url: str, timeout_s: float) -> CheckResult:
    """Compare the clocks; the request has no login.

    :param url: an address that answers quickly.
    """
    began = time.time()
    header = read_date(url, timeout_s)
    return judge(area, header, began, time.time())


def judge(area: Area, header: str, began: float, ended: float) -> CheckResult:
    """Compare a Date header with the times before the request and after the response.

    :param began: seconds since 1970, as ``ended``.
    """
    try:
        sent = parsedate_to_datetime(header)
    except ValueError:
        return area.not_checked("clock", "the response has no valid header Date")
    # The header may have been written at any time between the two, and is rounded down.
    earliest, latest = datetime.fromtimestamp(began - 1, UTC), datetime.fromtimestamp(ended, UTC)
    moment = sent if sent.tzinfo else sent.replace(tzinfo=UTC)
    skew_s = max((earliest - moment).total_seconds(), (moment - latest).total_seconds(), 0.0)
    if skew_s <= _LARGEST_SKEW_S:
        return area.ok(
            "clock", f"this machine and the server differ by less than {_LARGEST_SKEW_S + 1:.0f} s"
        )
    direction = "behind" if moment > latest else "ahead of"
    found = f"this machine's clock is {skew_s:.0f} s {direction} that of the server"
    return area.warning("clock", found, _SYNCHRONIZE)

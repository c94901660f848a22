from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from perftrend.clients.http_service import retry_after_s


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("120", 120.0), (" 5 ", 5.0), ("soon", None), ("", None), ("-5", None), ("1" * 10, None)],
)
def test_seconds_to_wait_are_understood(told: str, seconds: float | None) -> None:
    assert seconds == retry_after_s(told)


def test_a_moment_that_has_passed_is_no_wait() -> None:
    assert 0.0 == retry_after_s(format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True))


@pytest.mark.parametrize("zone", ["GMT", "+0000", "-0000"])
def test_a_moment_to_come_is_waited_for(zone: str) -> None:
    moment = datetime.now(UTC) + timedelta(hours=1)

    told = retry_after_s(f"{moment:%a, %d %b %Y %H:%M:%S} {zone}")

    assert told is not None
    assert 3590 < told <= 3600

"""Clocks are compared by a header of whole seconds."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perftrend.doctor import servers
from perftrend.doctor.check_results import Area, Severity
from tests.doubles import gerrit

DATE = "Fri, 02 Jan 2026 12:00:00 GMT"
MOMENT_S = datetime(2026, 1, 2, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("offset_s", [-5.0, -1.0, 0.0, 0.9, 5.9])
def test_small_difference_is_ok(offset_s: float) -> None:
    found = servers.judge_clock(Area.GERRIT, DATE, MOMENT_S + offset_s, MOMENT_S + offset_s + 0.1)

    assert Severity.OK is found.severity


@pytest.mark.parametrize(
    ("offset_s", "text"),
    [(-90.0, "90 s behind that of the server"), (91.0, "90 s ahead of that of the server")],
)
def test_large_difference_has_its_direction(offset_s: float, text: str) -> None:
    found = servers.judge_clock(Area.GERRIT, DATE, MOMENT_S + offset_s, MOMENT_S + offset_s)

    assert Severity.WARNING is found.severity
    assert found.text.endswith(text)


def test_slow_response_is_no_difference() -> None:
    assert Severity.OK is servers.judge_clock(Area.GERRIT, DATE, MOMENT_S - 60, MOMENT_S + 60).severity


@pytest.mark.parametrize("header", ["", "yesterday", "\x1b[2J", "Fri, 99 Jan 2026 12:00:00 GMT"])
def test_header_that_is_no_date_is_not_judged(header: str) -> None:
    assert Severity.NOT_CHECKED is servers.judge_clock(Area.GERRIT, header, MOMENT_S, MOMENT_S).severity


def test_server_without_an_answer_is_not_judged() -> None:
    assert Severity.NOT_CHECKED is servers.check_clock(Area.GERRIT, "http://127.0.0.1:9/", 1.0).severity


def test_clock_is_read_from_a_response() -> None:
    with gerrit.running() as double:
        found = servers.check_clock(Area.GERRIT, f"{double.url}/config/server/version", 30.0)

    assert Severity.OK is found.severity

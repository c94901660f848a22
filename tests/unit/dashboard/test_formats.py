"""Values are formatted as in the reports, and names cannot change the markup around them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from perftrend.dashboard import formats


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (12_345_678.0, "pps", "12.35 Mpps"),
        (-3.25, "ms", "\N{MINUS SIGN}3.250 ms"),
        (1e-9, "s", "1.000e-09 s"),
        (2.0, "a\u202eb", "2.000 a\N{REPLACEMENT CHARACTER}b"),
        (None, "pps", "\N{EN DASH}"),
    ],
)
def test_value(number: float | None, unit: str, text: str) -> None:
    assert text == formats.value(number, unit)


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.0142, "+1.4 %"), (-0.15, "\N{MINUS SIGN}15.0 %"), (None, "\N{EN DASH}")]
)
def test_percent(ratio: float | None, text: str) -> None:
    assert text == formats.percent(ratio)


def test_moment_is_in_utc_and_for_scripts() -> None:
    at = datetime(2026, 3, 1, 1, 30, tzinfo=timezone(timedelta(hours=2)))

    assert '<time datetime="2026-02-28T23:30:00Z">2026-02-28 23:30 UTC</time>' == formats.moment(at)


def test_archive_is_a_link_only_where_a_browser_may_follow_it() -> None:
    assert '<a href="https://x/&#34;y">archive</a>' == formats.archive('https://x/"y')
    assert "<code>javascript:alert(1)</code>" == formats.archive("javascript:alert(1)")
    assert "<code>/archives/&lt;b&gt;</code>" == formats.archive("/archives/<b>")
    assert "\N{EN DASH}" == formats.archive("")


def test_commit_is_short_and_told_in_full() -> None:
    assert f'<code title="{"0a" * 20}">0a0a0a0a0a0a</code>' == formats.commit("0a" * 20)


def test_marks_of_direction_are_shown() -> None:
    assert "a\N{REPLACEMENT CHARACTER}b" == formats.plain("a\u202eb")


@pytest.mark.parametrize(
    ("detail", "shown"),
    [
        ("silence on 2n-clx", "missing data on 2n-clx"),
        ("stopped on 2n-clx", "no runs on 2n-clx"),
        ("regression on 2n-clx", "regression on 2n-clx"),
        ("new → bug: silence", "new → bug: silence"),
    ],
)
def test_activity_has_the_words_of_the_pages(detail: str, shown: str) -> None:
    assert shown == formats.activity_detail(detail)

"""Lines about finished builds, from any sender."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftrend.clients import build_events
from perftrend.errors import ArchiveError


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ('{"job": "a/b", "build": 7}', build_events.BuildEvent("a/b", 7)),
        ('{"name":"b","url":"job/a/job/b%20c/","build":{"phase":"FINALIZED","number":7,"status":"SUCCESS"}}',
         build_events.BuildEvent("a/b c", 7)),
        ('{"name":"b","url":"","build":{"phase":"COMPLETED","number":7}}', build_events.BuildEvent("b", 7)),
        ('{"name":"b","build":{"phase":"STARTED","number":7}}', None),
    ],
)  # fmt: skip
def test_event_tells_of_a_build(line: str, event: build_events.BuildEvent | None) -> None:
    assert event == build_events.parse(line.encode())


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    "line",
    [
        "", "x", "[]", "7", "{}", '{"job": "a"}', '{"job": 7, "build": 7}', '{"job": "../a", "build": 7}',
        '{"job": "a", "build": "7; reboot"}', '{"job": "a", "build": true}', '{"job": "a", "build": -1}',
        '{"job": "a\\u0000", "build": 1}', '{"job": "a", "build": 99999999999}', "[" * 100_000,
        '{"build": {"phase": "COMPLETED"}}',
    ],
)  # fmt: skip
def test_event_that_is_none_is_refused(line: str) -> None:
    with pytest.raises(ArchiveError, match="event '"):
        build_events.parse(line.encode())


def test_lines_without_end_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build_events, "LONGEST_LINE", 10)
    (tmp_path / "lines").write_bytes(b"x" * 35 + b"\n\n  \nshort\nlast")

    with (tmp_path / "lines").open("rb") as stream:
        assert [b"x" * 10, b"short\n", b"last"] == list(build_events.lines(stream))

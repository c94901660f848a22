"""Traces are read as they were entered, many at a time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store, rows
from perftrend.store.tiles import StoredTrace, reader

KEYS = (
    TraceKey.of(testbed="1n", test="64B-1c-ip4", metric="mrr"),
    TraceKey.of(testbed="1n", test='a "quoted" \\ name,=\n', metric="größe"),
    TraceKey.of(testbed="1n"),
    TraceKey.of(testbed="1n", test="64B-1c-ip4", metric="latency"),
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        started = datetime(2026, 1, 2, tzinfo=UTC)
        opened.add(
            Run("1n", "nightly", 1, started, started, {"device": 40 * "0"}),
            [
                Result(key, "s" if number else "pps", Better.LOWER, Status.PASS, (1.0,), 1.0)
                for number, key in enumerate(KEYS)
            ],
        )
        yield opened


@pytest.mark.parametrize("at_once", [1, 3, 5000])
def test_all_of_a_trace_is_read(store: Store, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_AT_ONCE", at_once)
    found = {trace.key: trace for trace in store.tiles.traces()}

    assert {
        key: StoredTrace(found[key].trace_id, key.hash, key, "s" if number else "pps", Better.LOWER)
        for number, key in enumerate(KEYS)
    } == found


def test_only_those_that_came_later_are_read(store: Store) -> None:
    first, *later = store.tiles.traces()

    assert later == list(store.tiles.traces(after=first.trace_id))
    assert [] == list(store.tiles.traces(after=later[-1].trace_id))


@given(st.lists(st.dictionaries(st.text(min_size=1), st.text(), min_size=1)))
def test_keys_are_read_as_they_were_written(parameters: list[dict[str, str]]) -> None:
    keys = [TraceKey(tuple(sorted(each.items()))) for each in parameters]

    assert keys == rows.KeyReader().read([key.json for key in keys])

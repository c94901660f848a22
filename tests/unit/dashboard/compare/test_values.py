"""The value of a trace that represents a point in time is that of an exhaustive search."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from numpy.typing import NDArray

from perftrend.analysis.ratios import noise_of_history
from perftrend.dashboard.catalog import Catalog
from perftrend.dashboard.compare import comparison, values
from perftrend.dashboard.compare.comparison import WholeTiles
from perftrend.dashboard.compare.models import FallbackRule
from perftrend.dashboard.compare.values import AxisPlace, axes_of, read_nearest_values
from perftrend.model import Better, Result, Run, Samples, Status, TraceKey
from perftrend.store import Store
from perftrend.store.tiles import Axis

COLUMNS, REACH, HISTORY = 40, 14, 9
SHARES = (0.05, 0.2, 0.9, 1.0)
"""Of the columns in which a trace has a value."""
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let values count only in the vicinity of a place, so that a small store has some out of reach."""
    monkeypatch.setattr(values, "REACH", REACH)
    monkeypatch.setattr(values, "_HISTORY", HISTORY)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Give a store with traces of two testbeds with few values and with many, which no test changes."""
    with Store.open(tmp_path_factory.mktemp("values") / "store.sqlite") as opened:
        fill(opened)
        yield opened


def fill(store: Store) -> None:
    chance = random.Random(5)  # noqa: S311 - noise, no secret
    keys = {
        testbed: [
            TraceKey.of(testbed=testbed, test=f"t{share}-{number}") for share in SHARES for number in "ab"
        ]
        for testbed in ("2n-clx", "3n-icx")
    }
    for build in range(COLUMNS):
        started = BEGIN + timedelta(days=build)
        for testbed, of_testbed in keys.items():
            store.add(Run(testbed, "nightly", build + 1, started, started, {"device": f"{build:07x}"}), [
                Result(key, "pps", Better.HIGHER, Status.PASS, (), chance.gauss(1e7, 1e5))
                for key, share in zip(of_testbed, np.repeat(SHARES, 2), strict=True)
                if chance.random() < share
            ])  # fmt: skip


def by_definition(row: list[float], place: AxisPlace, rule: FallbackRule) -> tuple[int, int] | None:
    """Return the column of the value that is taken, and its distance."""
    found = []
    for column in range(max(0, place.last + 1 - REACH), min(COLUMNS, place.first + REACH)):
        far = min(column - place.first, 0) or max(column - place.last, 0)
        if place.last < place.first:
            far = column - place.first if column < place.first else column - place.last
        allowed = {FallbackRule.BEFORE: column <= place.last, FallbackRule.AFTER: column >= place.first}.get(
            rule, True
        )
        if math.isfinite(row[column]) and abs(far) < REACH and allowed:
            found.append((abs(far), far > 0, -column, far))
    return (-min(found)[2], min(found)[3]) if found else None


def test_places_close_together_are_read_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "POINTS", 16)
    axis, ids = store.tiles.axis("2n-clx"), Catalog(store).now().ids[::-1]
    read: list[range] = []
    really = store.tiles.values

    def noting(axis: Axis, ids: NDArray[np.int64], columns: range) -> Samples:
        read.append(columns)
        return really(axis, ids, columns)

    monkeypatch.setattr(store.tiles, "values", noting)
    whole_tiles = WholeTiles(store)
    for columns in (range(20), range(3, 4), range(15, 17), range(33, COLUMNS), range(COLUMNS), range(5, 5)):
        np.testing.assert_array_equal(really(axis, ids, columns), whole_tiles.values(axis, ids, columns))

    assert [range(16), range(16, 32), range(32, COLUMNS)] == read
    assert (2, 0) == whole_tiles.values(axis, ids[:2], range(0)).shape


@pytest.mark.parametrize("rule", list(FallbackRule))
@pytest.mark.parametrize(
    "place",
    [
        AxisPlace(39, 39),
        AxisPlace(0, 0),
        AxisPlace(17, 17),
        AxisPlace(17, 19),
        AxisPlace(20, 19),
        AxisPlace(0, -1),
    ],
)
def test_value_and_noise_are_those_of_the_definition(
    store: Store, place: AxisPlace, rule: FallbackRule
) -> None:
    now = Catalog(store).now()
    places = np.arange(len(now.stored))[::-1]
    axes = axes_of(store, now, places)

    found = read_nearest_values(store.tiles.values, now, places, axes, dict.fromkeys(axes, place), rule)

    for number, trace in enumerate(places.tolist()):
        axis: Axis = axes[now.stored[trace].key["testbed"]]
        [row] = store.tiles.values(axis, [now.stored[trace].trace_id], range(COLUMNS)).tolist()
        expected = by_definition(row, place, rule)
        if expected is None:
            assert found.column(number) is None
            assert math.isnan(found.values.value[number])
            continue
        column, distance = expected
        first = max(0, place.last + 1 - REACH, column + 1 - HISTORY)
        history = np.full((1, HISTORY), np.nan)
        history[0, HISTORY - (column + 1 - first) :] = row[first : column + 1]
        deviation, freedom = noise_of_history(history)
        assert (axis.columns[column], distance, row[column]) == (
            found.column(number), found.distance[number], found.values.value[number],
        )  # fmt: skip
        assert freedom[0] == found.values.freedom[number]
        np.testing.assert_array_equal(deviation[0], found.values.error[number])

"""Tiles give what the results have, in whatever order and by whatever way these came."""

from __future__ import annotations

import math
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import Connection

from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store
from perftrend.store.schema import results, runs, tile_axes, tile_runs, tiles
from perftrend.store.tiles import (
    POINTS,
    Axis,
    Tile,
    blocks,
    coarsen,
    columns_of_point,
    points_of,
    reader,
    scales,
    writer,
)

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
COMMITS = ("", "aaaaaaa", "bbbbbbb", "ccccccc")


def run_of(build: int, *, revision: str = "", job: str = "nightly", testbed: str = "2n-clx") -> Run:
    started = MOMENT + timedelta(days=build)
    return Run(testbed, job, build, started, started, {"device": revision})


def result_of(trace: int, value: float, *, testbed: str = "2n-clx") -> Result:
    key = TraceKey.of(testbed=testbed, test=f"t{trace:03}")
    return Result(key, "pps", Better.HIGHER, Status.PASS, (value, value + 1), value)


def commit(build: int) -> str:
    return f"{build:06x}c"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store.open(path) as opened:
        yield opened


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of four points and blocks of two traces, so that few runs fill many."""
    make_small(monkeypatch)


def make_small(patch: pytest.MonkeyPatch) -> None:
    for module in (scales, writer, reader):
        patch.setattr(module, "POINTS", 4)
    for module in (blocks, writer, reader):
        patch.setattr(module, "BLOCK", 2)
    patch.setattr(blocks, "_MOST", 2)
    patch.setattr(writer, "AT_ONCE", 2)


def ids(store: Store) -> list[int]:
    return [trace.trace_id for trace in store.tiles.traces()]


def everything(store: Store, testbed: str = "2n-clx") -> list[np.ndarray]:
    """Return all points of all traces at all scales."""
    axis = store.tiles.axis(testbed)
    found = []
    for scale in range(6):
        points = store.tiles.points(axis, ids(store), scale, range(points_of(len(axis.columns), scale)))
        found += [points.mean, points.least, points.greatest, points.count]
    return found


def by_definition(store: Store, testbed: str = "2n-clx") -> list[np.ndarray]:
    """Return the same, from the series alone."""
    with store._engine.connect() as connection:
        query = sa.select(runs.c.id, runs.c.job, runs.c.build).where(runs.c.testbed == testbed)
        run_ids = {(row.job, row.build): row.id for row in connection.execute(query)}
    columns = store.tiles.axis(testbed).columns
    number_of = {run: number for number, column in enumerate(columns) for run in column.runs}
    assert number_of.keys() == set(run_ids.values())
    known = [trace.key for trace in store.tiles.traces()]
    usable: dict[tuple[int, int], list[float]] = defaultdict(list)
    for series in store.series(testbed):
        for run, value in zip(series.runs, series.samples.tolist(), strict=True):
            if not math.isnan(value):
                usable[number_of[run_ids[run.job, run.build]], known.index(series.key)].append(value)
    values = np.full((len(columns), len(known)), math.nan)
    for place, found_values in usable.items():
        values[place] = sum(found_values) / len(found_values)
    found = []
    for scale in range(6):
        points = coarsen(values.T, scale)
        found += [points.mean, points.least, points.greatest, points.count]
    return found


@contextmanager
def edited(store: Store) -> Iterator[Connection]:
    """Let somebody change the database by hand."""
    with store._engine.begin() as connection:
        yield connection


def assert_right(store: Store, testbed: str = "2n-clx") -> None:
    for expected, found in zip(by_definition(store, testbed), everything(store, testbed), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def assert_made(axis: Axis) -> None:
    assert len(axis.columns) == axis.whole


def assert_remade(store: Store) -> None:
    """Check that the command makes all of them, and makes them right."""
    store.tiles.remake()
    assert_made(store.tiles.axis("2n-clx"))
    assert_right(store)


def test_values_of_runs_are_columns_in_the_order_of_time(store: Store) -> None:
    for build in (1, 2, 3):
        store.add(run_of(build, revision=commit(build)), [result_of(0, 10.0 * build), result_of(1, build)])

    axis = store.tiles.axis("2n-clx")
    values = store.tiles.values(axis, ids(store), range(3))

    assert [[10.0, 20.0, 30.0], [1.0, 2.0, 3.0]] == values.tolist()
    assert [commit(1), commit(2), commit(3)] == [column.revision for column in axis.columns]
    assert_made(axis)


def test_values_keep_all_their_digits(store: Store) -> None:
    store.add(run_of(1), [result_of(0, 0.1 + 0.2), result_of(1, 2.0**53 - 1)])

    axis = store.tiles.axis("2n-clx")
    assert [[0.1 + 0.2], [2.0**53 - 1]] == store.tiles.values(axis, ids(store), range(1)).tolist()


def test_value_that_may_not_enter_a_trend_is_a_hole(store: Store) -> None:
    wrong = [
        replace(result_of(0, 1.0), status=Status.FAIL),
        replace(result_of(1, 1.0), invalid="generator too slow"),
        replace(result_of(2, math.nan), samples=()),
        replace(result_of(3, math.inf), samples=()),
    ]
    store.add(run_of(1), [*wrong, result_of(4, 1.0)])

    values = store.tiles.values(store.tiles.axis("2n-clx"), ids(store), range(1))
    assert [True, True, True, True, False] == np.isnan(values[:, 0]).tolist()


def test_runs_of_one_commit_keep_all_that_they_measured(store: Store) -> None:
    store.add(run_of(1, revision="aaaaaaa"), [result_of(0, 10.0)])
    store.add(run_of(2, revision="aaaaaaa", job="weekly"), [result_of(0, 20.0)])

    axis = store.tiles.axis("2n-clx")
    [column] = axis.columns

    assert [[15.0]] == store.tiles.values(axis, ids(store), range(1)).tolist()
    assert [(1, (10.0, 11.0)), (2, (20.0, 21.0))] == [
        (run.build, result.samples) for run, result in store.tiles.results(ids(store)[0], column)
    ]


def test_traces_come_in_any_order_and_unknown_ones_have_no_values(store: Store) -> None:
    store.add(run_of(1), [result_of(trace, float(trace)) for trace in range(1200)])
    axis = store.tiles.axis("2n-clx")

    known = ids(store)
    values = store.tiles.values(axis, [known[150], 9999, known[3], known[150]], range(1))

    np.testing.assert_array_equal([[150.0], [math.nan], [3.0], [150.0]], values)


def test_testbeds_have_columns_of_their_own(store: Store) -> None:
    store.add(run_of(1), [result_of(0, 1.0)])
    store.add(run_of(2, testbed="3n-icx"), [result_of(0, 2.0, testbed="3n-icx")])

    assert ["2n-clx", "3n-icx"] == store.tiles.testbeds()
    for testbed in store.tiles.testbeds():
        assert 1 == len(store.tiles.axis(testbed).columns)
        assert_right(store, testbed)


def test_testbeds_are_read_side_by_side(store: Store) -> None:
    for build, testbed, revision in [
        (1, "a", "c1"),
        (2, "b", "c2"),
        (3, "b", "c1"),
        (4, "a", "c2"),
        (5, "a", ""),
    ]:
        run = run_of(build, testbed=testbed, revision=f"{revision}00000" if revision else "")
        store.add(run, [result_of(0, float(build), testbed=testbed)])
    axes = [store.tiles.axis("a"), store.tiles.axis("b")]
    [a, b] = ids(store)

    first, second = store.tiles.side_by_side(axes, [[a], [b]], range(3))

    np.testing.assert_array_equal([[1.0, 4.0, 5.0]], first)
    np.testing.assert_array_equal([[3.0, 2.0, math.nan]], second)


def test_last_tile_is_short(store: Store) -> None:
    for build in range(POINTS + 3):
        store.add(run_of(build), [result_of(0, build)])

    axis = store.tiles.axis("2n-clx")
    assert (1, POINTS) == store.tiles.tile(axis, ids(store), Tile(0, 0)).mean.shape
    assert [[128.0, 129.0, 130.0]] == store.tiles.tile(axis, ids(store), Tile(0, 1)).mean.tolist()
    assert [[1.5, 5.5]] == store.tiles.tile(axis, ids(store), Tile(1, 0)).mean[:, :2].tolist()
    assert_right(store)


EVENTS = st.lists(
    st.tuples(
        st.integers(0, 80),
        st.sampled_from(COMMITS),
        st.sampled_from(["nightly", "weekly"]),
        st.dictionaries(st.integers(0, 6), st.one_of(st.just(math.nan), st.floats(-1e9, 1e9)), max_size=5),
    ),
    max_size=50,
    unique_by=lambda event: (event[0], event[2]),
)
ONE_PATCH = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@ONE_PATCH
@given(EVENTS, st.integers(0, 3), st.sampled_from([0, 100]))
def test_tiles_are_right_after_any_sequence_of_runs(
    small: None, events: list, remade_every: int, scattered: int
) -> None:
    """Read by blocks, and one by one."""
    with (
        mock.patch.object(reader, "_SCATTERED", {"sqlite": scattered, "postgresql": scattered}),
        TemporaryDirectory() as folder,
        Store.open(Path(folder) / "store.sqlite") as store,
    ):
        for place, (build, revision, job, values) in enumerate(events):
            results = [result_of(trace, value) for trace, value in values.items()]
            store.add(run_of(build, revision=revision, job=job), results)
            if remade_every and place % (5 * remade_every) == 0:
                store.tiles.remake()
        as_they_came = everything(store)
        store.tiles.remake()
        brought_up = everything(store)
        assert_made(store.tiles.axis("2n-clx"))
        store.tiles.forget()
        from_results = everything(store)
        store.tiles.remake()
        from_nothing = everything(store)
        assert_made(store.tiles.axis("2n-clx"))

        assert_right(store)
        for other in (as_they_came, brought_up, from_results):
            for one, two in zip(from_nothing, other, strict=True):
                np.testing.assert_array_equal(one, two)


def fill(store: Store, builds: Sequence[int]) -> None:
    for build in builds:
        store.add(
            run_of(build, revision=commit(build)), [result_of(trace, build + trace) for trace in range(3)]
        )


@pytest.mark.usefixtures("small")
def test_few_late_runs_are_made_up_for_at_once(store: Store) -> None:
    fill(store, [*range(10, 30), 5])
    assert store.tiles.axis("2n-clx").whole == 0

    store.tiles.remake()
    fill(store, [40, 39])

    assert_made(store.tiles.axis("2n-clx"))
    assert_right(store)


@pytest.mark.usefixtures("small")
def test_history_that_comes_newest_first_is_right_before_and_after_it_is_made(store: Store) -> None:
    fill(store, range(40, 0, -1))

    assert store.tiles.axis("2n-clx").whole < 40
    assert_right(store)
    assert_remade(store)


@pytest.mark.usefixtures("small")
def test_axis_that_was_read_before_a_late_run_still_gives_its_own_columns(store: Store) -> None:
    fill(store, range(10, 30))
    axis = store.tiles.axis("2n-clx")
    before = store.tiles.values(axis, ids(store), range(20)).tolist()
    coarse = store.tiles.points(axis, ids(store), 1, range(5)).mean.tolist()

    fill(store, [5, 31])
    store.tiles.remake()

    assert before == store.tiles.values(axis, ids(store), range(20)).tolist()
    assert coarse == store.tiles.points(axis, ids(store), 1, range(5)).mean.tolist()


@pytest.mark.sqlite
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("gone", [0, 9, 19])
def test_run_that_somebody_removed_is_removed_from_the_tiles(store: Store, path: Path, gone: int) -> None:
    fill(store, range(20))
    # Nobody watches over the references there.
    with closing(sqlite3.connect(path)) as connection, connection:
        [[run_id]] = connection.execute("SELECT id FROM runs WHERE build = ?", [gone])
        for table, column in (("results", "run_id"), ("runs", "id")):
            connection.execute(f"DELETE FROM {table} WHERE {column} = ?", [run_id])  # noqa: S608 - ours

    assert_right(store)
    assert 19 == len(store.tiles.axis("2n-clx").columns)
    fill(store, [50, 51])
    assert_right(store)
    assert_remade(store)


@pytest.mark.usefixtures("small")
def test_results_that_somebody_replaced_are_taken_when_all_is_made_anew(store: Store) -> None:
    fill(store, range(20))
    with edited(store) as connection:
        connection.execute(sa.update(results).values(value=7.0))

    store.tiles.forget()
    assert_right(store)
    store.tiles.remake()
    assert_right(store)
    assert_made(store.tiles.axis("2n-clx"))


@pytest.mark.usefixtures("small")
def test_results_that_somebody_replaced_are_taken_from_their_column_on(store: Store) -> None:
    fill(store, range(20))
    with edited(store) as connection:
        connection.execute(sa.update(results).where(results.c.run_id == 12).values(value=7.0))

    assert 11 == store.tiles.distrust("2n-clx", 11)
    assert_right(store)
    assert_remade(store)


@pytest.mark.usefixtures("small")
def test_tables_that_are_gone_are_made_again(store: Store) -> None:
    fill(store, range(20))
    with edited(store) as connection:
        for table in (tiles, tile_runs, tile_axes):
            table.drop(connection)

    store.tiles.forget()
    store.tiles.remake()

    assert_made(store.tiles.axis("2n-clx"))
    assert_right(store)


@pytest.mark.usefixtures("small")
def test_tiles_of_another_layout_are_neither_read_nor_kept(store: Store) -> None:
    fill(store, range(20))
    with edited(store) as connection:
        connection.execute(sa.update(tile_axes).values(layout=0))
        connection.execute(sa.update(tiles).values(data=b"\0"))

    assert 0 == store.tiles.axis("2n-clx").whole
    assert_right(store)
    fill(store, [20])
    assert_right(store)
    assert_remade(store)


@pytest.mark.usefixtures("small")
def test_remaking_goes_on_where_it_was_stopped(store: Store) -> None:
    fill(store, range(30))
    store.tiles.forget()
    told: list[tuple[str, int, int]] = []

    class KilledError(Exception):
        pass

    def progress(*state: object) -> None:
        told.append(state)  # type: ignore[arg-type]
        if len(told) == 2:
            raise KilledError

    with pytest.raises(KilledError):
        store.tiles.remake(progress)
    assert_right(store)
    store.tiles.remake(progress)

    assert [("2n-clx", whole, 30) for whole in (*range(4, 30, 4), 30)] == told
    assert_right(store)


@pytest.mark.usefixtures("small")
def test_runs_that_several_writers_store_at_once_all_have_their_columns(store: Store, path: Path) -> None:
    def write(first: int) -> None:
        with Store.open(path) as own:
            fill(own, range(first, 40, 4))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))

    assert 40 == len(store.tiles.axis("2n-clx").columns)
    assert_right(store)
    assert_remade(store)


@pytest.mark.usefixtures("small")
def test_reader_never_sees_half_of_what_a_writer_does(store: Store, path: Path, *, thorough: bool) -> None:
    """Each run has one value for all traces, also while runs come late and tiles are made again."""
    finished = threading.Event()
    wide = 20 if thorough else 10
    middle = 20 + wide

    def write() -> None:
        with Store.open(path) as own:
            for build in [*range(20, middle), *range(20, 25 - wide, -1), *range(middle, middle + wide // 2)]:
                own.add(run_of(100 + build), [result_of(trace, float(build)) for trace in range(5)])
                own.tiles.remake()
        finished.set()

    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write)
        while not finished.is_set() and not written.done():
            axis = store.tiles.axis("2n-clx")
            values = store.tiles.values(axis, ids(store), range(len(axis.columns)))
            assert (values == values[:1]).all()
            assert (np.diff(values[:1]) > 0).all()
        written.result()
    assert_right(store)


def test_what_a_point_covers_is_told_by_its_scale() -> None:
    assert [1, 4, 16, 64, 256, 1024] == [columns_of_point(scale) for scale in range(6)]

"""Runs and results survive the way into Parquet files and back; other files are refused with a reason."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.errors import StoreError
from perftrend.model import MARKED, Better, Result, Run, Status, TraceKey
from perftrend.store import Store, parquet

MOMENT = datetime(2026, 1, 30, 23, 59, 59, 678, tzinfo=UTC)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
VALUES = st.floats(allow_nan=False, allow_infinity=False)


def result_of(test: str, *samples: float) -> Result:
    key = TraceKey.of(testbed="2n-clx", test=test, metric="mrr")
    value = samples[0] if samples else math.nan
    return Result(key, "pps", Better.HIGHER, Status.PASS, samples, value, details={"trials": [1, True]})


def run_of(build: int, testbed: str = "2n-clx") -> Run:
    started = MOMENT + timedelta(days=build)
    return Run(testbed, "nightly", build, started, started + timedelta(hours=1), {"device": f"{build:07x}"})


def entered(store: Store, testbed: str = "2n-clx") -> list[tuple[Run, list[str]]]:
    """Return everything of a testbed; NaN is equal to NaN as a text."""
    return [(run, sorted(map(repr, store.results(run)))) for run in store.runs(testbed)]


@st.composite
def made_results(draw: st.DrawFn) -> list[Result]:
    names = draw(st.lists(TEXT, max_size=3, unique=True))
    return [
        Result(
            TraceKey.of(testbed="2n-clx", test=name),
            "pps",
            Better.LOWER,
            draw(st.sampled_from(Status)),
            tuple(draw(st.lists(VALUES, max_size=3))),
            draw(VALUES | st.just(math.nan)),
            draw(TEXT),
            draw(TEXT),
            draw(st.dictionaries(TEXT, VALUES | TEXT | st.booleans() | st.none(), max_size=2)),
        )
        for name in names
    ]


@given(nights=st.lists(made_results(), max_size=4), versions=st.dictionaries(TEXT, TEXT, max_size=2))
def test_store_comes_back_as_it_was(
    nights: list[list[Result]], versions: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("parquet")
    one, other = folder / "one.sqlite", folder / "other.sqlite"
    with Store.open(one) as store:
        for build, results in enumerate(nights):
            store.add(replace(run_of(build), versions=versions, environment=versions), results)
        before = entered(store)

    written = parquet.export_folder(one, folder / "files")
    read = parquet.import_folder(folder / "files", other)

    with Store.open(other) as store:
        assert before == entered(store)
    assert (len(nights), sum(map(len, nights))) == (written.runs, written.results)
    assert (len(nights), 0) == (read.added, read.known)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a store of two testbeds and two months."""
    place = tmp_path / "store.sqlite"
    with Store.open(place) as store:
        for build in range(4):
            store.add(run_of(build), [result_of("a", 1.0 + build, 2.0), result_of("b", 3.0), result_of("c")])
        store.add(run_of(9, "3n/ä b"), [replace(result_of("a", 7.0), invalid="generator too slow")])
    return place


def test_files_are_one_partitioned_table_to_others(place: Path, tmp_path: Path) -> None:
    parquet.export_folder(place, tmp_path / "files")

    partitioning = ds.HivePartitioning(pa.schema([("testbed", pa.string()), ("month", pa.string())]))
    results = ds.dataset(tmp_path / "files" / "results", partitioning=partitioning).to_table()
    traces = pq.read_table(tmp_path / "files" / "traces.parquet").to_pylist()
    names = {each["trace"]: dict(each["parameters"])["test"] for each in traces}
    rows = results.to_pylist()

    assert 13 == len(rows)
    assert {1.0, 3.0, None} < {each["value"] for each in rows}
    of_month = [each for each in rows if each["testbed"] == "2n-clx" and each["month"] == "2026-02"]
    assert [3.0, 4.0] == sorted(each["value"] for each in of_month if names[each["trace"]] == "a")
    assert {"3n/ä b", "2n-clx"} == set(results["testbed"].to_pylist())


def test_runs_that_are_there_are_not_added_again(place: Path, tmp_path: Path) -> None:
    parquet.export_folder(place, tmp_path / "files")
    with Store.open(place) as store:
        store.add(run_of(20), [result_of("a", 5.0)])
        before = entered(store)

    read = parquet.import_folder(tmp_path / "files", place)

    assert (0, 5) == (read.added, read.known)
    with Store.open(place) as store:
        assert before == entered(store)


def test_names_and_marks_are_those_of_today(place: Path, tmp_path: Path) -> None:
    with Store.open(place) as store:
        store.renames.add("test", "a", "new", author="me")
        store.invalidations.add(run_of(1), "a cable was loose", author="me", test="b")

    parquet.export_folder(place, tmp_path / "files")
    parquet.import_folder(tmp_path / "files", tmp_path / "other.sqlite")

    with Store.open(tmp_path / "other.sqlite") as store:
        found = {each.key.as_dict()["test"]: each for each in store.results(run_of(1))}
    assert {"new", "b", "c"} == set(found)
    assert f"{MARKED}me: a cable was loose" == found["b"].invalid


def test_months_that_the_store_lacks_remain(place: Path, tmp_path: Path) -> None:
    parquet.export_folder(place, tmp_path / "files")
    with Store.open(tmp_path / "new.sqlite") as store:
        store.add(run_of(100), [result_of("a", 1.0)])

    parquet.export_folder(tmp_path / "new.sqlite", tmp_path / "files")

    months = sorted(each.name for each in (tmp_path / "files" / "runs").glob("testbed=2n-clx/*"))
    assert ["month=2026-01", "month=2026-02", "month=2026-05"] == months
    assert [] == list((tmp_path / "files").rglob(".*"))


def change(change_table: Callable[[pa.Table], pa.Table], table: str) -> Callable[[Path], None]:
    """Return what changes the first file of a table."""

    def apply(folder: Path) -> None:
        path = min((folder / table).rglob("*.parquet")) if table != "traces" else folder / "traces.parquet"
        pq.write_table(change_table(pq.read_table(path, partitioning=None)), path)

    return apply


def replace_column(name: str, value: object) -> Callable[[pa.Table], pa.Table]:
    def apply(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index(name)
        return table.set_column(at, name, pa.array([value] * table.num_rows))

    return apply


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda folder: (folder / "traces.parquet").unlink(), "traces.parquet: the file does not exist"),
        (lambda folder: (folder / "traces.parquet").write_text("a,b\n"), "not a table of an export"),
        (change(lambda table: table.drop_columns(["samples"]), "results"), "lacks the column samples"),
        (change(replace_column("status", "gone"), "results"), "'gone' is not a valid Status"),
        (change(replace_column("details", "{"), "results"), "not a table of an export"),
        (change(replace_column("build", "one"), "runs"), "not a table of an export"),
        (change(replace_column("started", None), "runs"), "not a table of an export"),
        (change(replace_column("trace", "0" * 32), "traces"), "have the hash"),
        (change(lambda table: table.slice(1), "traces"), "has no trace"),
        (change(lambda table: table.slice(0, 0), "runs"), "the table runs lacks it"),
        (
            change(lambda table: table.take(pc.sort_indices(table, [("trace", "ascending")])), "results"),
            "are not adjacent",
        ),
    ],
)
def test_other_files_are_refused(
    harm: Callable[[Path], None], reason: str, place: Path, tmp_path: Path
) -> None:
    """What was added before such a file was met remains; nothing of a run is half there."""
    folder = tmp_path / "files"
    parquet.export_folder(place, folder)
    for other in ("runs", "results"):
        # The others would be read first.
        shutil.rmtree(folder / other / "testbed=3n%2F%C3%A4%20b")
        (folder / other / "testbed=2n-clx" / "month=2026-01").rename(folder / f"{other}-first")
    harm(folder)

    with pytest.raises(StoreError, match=reason) as error:
        parquet.import_folder(folder, tmp_path / "other.sqlite")

    assert "\n" not in str(error.value)
    with Store.open(tmp_path / "other.sqlite") as store, Store.open(place) as source:
        assert all(len(store.results(run)) in {0, len(source.results(run))} for run in store.runs("2n-clx"))


@pytest.mark.sqlite
def test_store_that_is_not_there_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        parquet.export_folder(tmp_path / "none.sqlite", tmp_path / "files")

    assert [] == list(tmp_path.iterdir())

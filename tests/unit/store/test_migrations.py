"""A store of each earlier version becomes one of the newest, with all that it has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Engine

from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store, connection
from perftrend.store.requests import Request, RequestState
from perftrend.store.rows import row_of_result
from perftrend.store.schema import HEAD, metadata
from perftrend.store.schema_version import MIGRATIONS, VERSION_TABLE

MOMENT = datetime(2026, 3, 2, 18, 0, 0, 5)  # noqa: DTZ001 - as the table keeps it
RUN = Run(
    "2n-clx", "nightly", 7, MOMENT.replace(tzinfo=UTC), MOMENT.replace(tzinfo=UTC), {"device": "0123abc"},
    "https://logs.example.org/7",
)  # fmt: skip
RESULT = Result(
    TraceKey.of(testbed="2n-clx", test="a"), "pps", Better.HIGHER, Status.PASS, (0.1, 0.2), 0.15, "", "",
    {"trials": [1, 2]},
)  # fmt: skip
REQUEST = Request(
    key="k1", change=1, patch_set=2, project="router", branch="master", revision="a" * 40,
    ref="refs/changes/01/1/2", review="m1", comment="c1", path=None, account="1",
    asked=MOMENT.replace(tzinfo=UTC), place=0, line="perftest-2n-clx", job="perftest", testbed="2n-clx",
)  # fmt: skip

Rows = dict[str, dict[str, Any]]
ENTERED: dict[str, Rows] = {
    "0001": {
        "runs": {
            "id": 1, "job": RUN.job, "build": RUN.build, "testbed": RUN.testbed, "started": MOMENT,
            "finished": MOMENT, "versions": dict(RUN.versions), "archive": RUN.archive, "simulated": False,
        },
        "traces": {
            "id": 1, "hash": RESULT.key.hash, "parameters": RESULT.key.json, "unit": "pps", "better": "higher"
        },
        "trace_params": {"trace_id": 1, "name": "test", "value": "a"},
        "results": {"run_id": 1, "trace_id": 1, **row_of_result(RESULT)},
        "details": {"run_id": 1, "trace_id": 1, "details": dict(RESULT.details)},
    },
    "0002": {
        "requests": {
            name: value
            for name, value in {**asdict(REQUEST), "state": "seen", "asked": MOMENT}.items()
            if name != "estimated_s"
        },
        "marks": {"name": "comments", "moment": MOMENT},
    },
    "0005": {"read_archives": {"location": RUN.archive, "run_id": 1, "version": ""}},
}  # fmt: skip
"""What a store of a version can have, by the table; tiles are made of the results."""

VERSIONS = [each.revision for each in ScriptDirectory(str(MIGRATIONS)).walk_revisions()][::-1]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = connection.engine_of(tmp_path / "store.sqlite")
    yield made
    made.dispose()


def migrated(engine: Engine, version: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with connection.write_transaction(engine) as opened:
        config.attributes["connection"] = opened
        command.upgrade(config, version)


def enter(engine: Engine, versions: Sequence[str]) -> None:
    with connection.write_transaction(engine) as opened:
        for version in versions:
            for name, row in ENTERED.get(version, {}).items():
                table = sa.Table(name, sa.MetaData(), autoload_with=opened)
                opened.execute(sa.insert(table), row)


@pytest.mark.parametrize("version", VERSIONS[:-1])
def test_store_of_an_earlier_version_keeps_all_that_it_has(
    tmp_path: Path, engine: Engine, version: str
) -> None:
    migrated(engine, version)
    enter(engine, VERSIONS[: VERSIONS.index(version) + 1])

    with Store.open(tmp_path / "store.sqlite") as store:
        assert [RUN] == store.runs("2n-clx")
        assert [RESULT] == store.results(RUN)
        assert {RUN.archive: ""} == store.archives.versions(RUN.job)
        assert not store.add(replace(RUN, suites_started=RUN.started), [RESULT])
        if version >= "0002":
            assert [REQUEST] == store.requests.in_states(RequestState.SEEN)
            assert MOMENT.replace(tzinfo=UTC) == store.requests.mark("comments")
        store.tiles.remake()
        axis = store.tiles.axis("2n-clx")
        assert [[0.15]] == store.tiles.values(axis, [1], range(1)).tolist()
        assert 1 == axis.whole
    if engine.dialect.name == "sqlite":
        with connection.read_transaction(engine) as opened:
            assert [] == opened.exec_driver_sql("PRAGMA foreign_key_check").all()


@pytest.mark.parametrize("version", VERSIONS[:-1])
def test_store_of_an_earlier_version_goes_on(tmp_path: Path, engine: Engine, version: str) -> None:
    migrated(engine, version)

    with Store.open(tmp_path / "store.sqlite") as store:
        assert store.add(RUN, [RESULT])
        assert 1 == len(store.requests.add([REQUEST]))
    with Store.open(tmp_path / "store.sqlite") as store:
        assert [RUN] == store.runs("2n-clx")


def test_migrations_lead_to_the_schema(engine: Engine) -> None:
    migrated(engine, "head")
    with connection.read_transaction(engine) as opened:
        context = MigrationContext.configure(opened, opts={"version_table": VERSION_TABLE})

        assert [] == compare_metadata(context, metadata)


def form_of(engine: Engine) -> dict[str, Any]:
    """Return all that a database says of its tables, in an order that does not depend on who created them."""
    found = sa.inspect(engine)
    parts = (
        found.get_columns, found.get_foreign_keys, found.get_unique_constraints, found.get_indexes
    )  # fmt: skip
    form: dict[str, Any] = {
        table: [found.get_pk_constraint(table), *(sorted(map(repr, part(table))) for part in parts)]
        for table in found.get_table_names()
    }
    if engine.dialect.name == "sqlite":
        with connection.read_transaction(engine) as opened:
            numbered = "SELECT name FROM sqlite_master WHERE sql LIKE '%AUTOINCREMENT%' ORDER BY name"
            form["numbered"] = opened.exec_driver_sql(numbered).all()
    return form


def test_new_store_is_what_all_migrations_lead_to(tmp_path: Path, engine: Engine) -> None:
    migrated(engine, "head")
    Store.open(tmp_path / "new.sqlite").close()
    new = connection.engine_of(tmp_path / "new.sqlite")

    assert form_of(engine) == form_of(new)
    new.dispose()


def test_last_version_is_the_newest() -> None:
    assert HEAD == VERSIONS[-1]

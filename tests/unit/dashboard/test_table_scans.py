"""No page reads a table from its beginning to its end if it grows with the results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine
from starlette.testclient import TestClient

from benchmarks.dashboard.pages import FORMS, PAGES
from benchmarks.tiles import TESTBED
from perftrend.dashboard.catalog import Catalog
from perftrend.dashboard.triage import evaluate
from perftrend.store.alerts import Rules
from tests.unit.dashboard.conftest import TESTBEDS, Filled

GROWING = {"details", "patch_traces", "results", "tile_runs", "tiles", "trace_params", "traces"}
"""Tables with a row or more for each result, trace, or block of tiles."""
OTHER_VALUES = ("vertical=driver&left=avf&right=rdma", "vertical=cores&left=1c&right=2c")
"""The store of these tests has no drivers to compare."""


@contextmanager
def explained() -> Iterator[dict[str, str]]:
    """Give the statements that read in the meantime, and how SQLite plans to execute each of them."""
    plans: dict[str, str] = {}

    def explain(_: object, cursor: Any, statement: str, parameters: Any, *__: object) -> None:
        if re.match(r"\s*(SELECT|WITH)\b", statement):
            own = cursor.connection.cursor()
            own.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans[statement] = "\n".join(row[3] for row in own.fetchall())
            own.close()

    sa.event.listen(Engine, "before_cursor_execute", explain)
    try:
        yield plans
    finally:
        sa.event.remove(Engine, "before_cursor_execute", explain)


def scanned(plan: str) -> set[str]:
    """Return the tables that a plan reads as a whole, without an index or along one."""
    return set(re.findall(r"^SCAN (\w+)", plan, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES)
def test_page_scans_no_table_that_grows_with_the_results(
    client: TestClient, filled: Filled, page: str
) -> None:
    store = filled.store
    store.alerts.add(Rules("all", "", change=0.03, owner="ann"), user="ann")
    newest = store.runs(TESTBEDS[0])[-1].finished
    assert evaluate(store, Catalog(store), TESTBEDS[0], newest + timedelta(hours=1)).new
    path = PAGES[page].replace(TESTBED, TESTBEDS[0]).replace(*OTHER_VALUES)
    for accepted in FORMS.values():
        with explained() as plans:
            answer = client.get(path, headers={"Accept": accepted})

        assert answer.is_success, answer.text
        assert {} == {read: plan for read, plan in plans.items() if scanned(plan) & GROWING}


def test_scan_would_be_noticed(filled: Filled, tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'store.sqlite'}")
    with explained() as plans, engine.connect() as connection:
        connection.execute(sa.text("SELECT sum(value) FROM results WHERE value > 1"))
        connection.execute(sa.text("SELECT value FROM results WHERE run_id = 1"))

    assert [{"results"}, set()] == [scanned(plan) for plan in plans.values()]

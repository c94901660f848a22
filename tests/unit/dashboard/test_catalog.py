"""The catalog has every trace of the store, those that came a moment ago included."""

from __future__ import annotations

import random

from starlette.testclient import TestClient

from perftrend.analysis.query import parse
from perftrend.dashboard.catalog import Catalog
from perftrend.dashboard.triage.evaluation import evaluate
from perftrend.store import Store
from perftrend.store.alerts import Rules
from tests.unit.dashboard.conftest import METRICS, RUNS, SLOWER, TESTBEDS, TESTS, Filled, add_run


def test_rows_of_the_table_are_traces_in_the_same_order(filled: Filled) -> None:
    now = Catalog(filled.store).now()

    rows = now.table.rows(parse(f"test={SLOWER['test']}&testbed={SLOWER['testbed']}&metric=mrr"))

    assert len(TESTBEDS) * len(TESTS) * len(METRICS) == len(now.stored) == len(now.table)
    assert [SLOWER] == [now.stored[row].key for row in rows]


def test_traces_are_found_by_unit_and_by_what_is_better(filled: Filled) -> None:
    now = Catalog(filled.store).now()

    def metrics(query: str) -> set[str]:
        return {now.stored[row].key["metric"] for row in now.table.rows(parse(query))}

    assert {"mrr", "ndr"} == metrics("unit=pps") == metrics("better=higher")
    assert {"latency"} == metrics("unit=us") == metrics("better!=higher")


def test_explore_and_alerts_take_queries_by_unit(client: TestClient, filled: Filled) -> None:
    drawn = client.get("/explore", params={"format": "json", "testbed": TESTBEDS[0], "q": "unit=us"}).json()[
        "lines"
    ]
    rules = Rules("Latency", "unit=us", owner="eva")
    filled.store.alerts.add(rules, user="eva")
    [alert] = client.get("/alerts?format=json").json()["alerts"]

    assert {"latency"} == {line["parameters"]["metric"] for line in drawn}
    assert len(TESTBEDS) * len(TESTS) == alert["traces"]
    assert 1 == evaluate(filled.store, Catalog(filled.store), TESTBEDS[0]).new


def test_trace_is_found_by_key_and_by_hash(filled: Filled) -> None:
    now = Catalog(filled.store).now()

    found = now.of_key(SLOWER)

    assert found is not None
    assert found is now.by_hash[SLOWER.hash]


def test_new_traces_are_there_at_once(store: Store) -> None:
    catalog = Catalog(store)
    assert 0 == len(catalog.table())
    add_run(store, "1n-new", RUNS, random.Random(1))  # noqa: S311 - noise, no secret

    assert {"1n-new"} == {trace.key["testbed"] for trace in catalog.now().stored}


def test_what_somebody_works_with_stays_as_it_is(filled: Filled) -> None:
    catalog = Catalog(filled.store)
    before = catalog.now()
    count = len(before.stored)
    add_run(filled.store, "1n-new", RUNS, random.Random(1))  # noqa: S311 - noise, no secret

    assert len(catalog.now().stored) > count
    assert count == len(before.stored) == len(before.table)


def test_nothing_new_is_nothing_to_do(filled: Filled) -> None:
    catalog = Catalog(filled.store)

    assert catalog.now() is catalog.now()

"""A table with many rows and columns is shown in parts, and exported whole as CSV."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard.compare.table import MOST_COLUMNS
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store

ASKED = {"vertical": "driver", "left": "avf", "right": "rdma"}
CARDS, TESTS = 50, 30
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def wide(store: Store) -> None:
    """Put 30 tests on 50 cards with two drivers into the store; on the last ten cards one test alone."""
    run = Run("2n-clx", "nightly", 1, MOMENT, MOMENT, {"device": "a" * 40})
    store.add(run, [
        Result(
            TraceKey.of(testbed="2n-clx", test=f"test-{test:02}", nic=f"card-{card:02}", driver=driver),
            "pps", Better.HIGHER, Status.PASS, (), 1e7 + test * card * (driver == "avf") * 1e4,
        )
        for test in range(TESTS) for card in range(CARDS) for driver in ("avf", "rdma")
        if card < MOST_COLUMNS or test == 0
    ])  # fmt: skip


def told(client: TestClient, **asked: Any) -> Any:
    params = {**ASKED, **asked}
    return client.get("/compare", params=params, headers={"Accept": "application/json"}).json()["table"]


def test_columns_with_the_most_cells_are_shown(client: TestClient) -> None:
    table = told(client)

    assert [f"card-{card:02}" for card in range(MOST_COLUMNS)] == [
        column["name"] for column in table["columns"]
    ]
    assert CARDS - MOST_COLUMNS == table["hidden_columns"]


def test_all_rows_come_page_by_page_in_one_order(client: TestClient) -> None:
    names: list[str] = []
    while len(names) < TESTS:
        table = told(client, first=len(names))
        names += [row["name"] for row in table["rows"]]

    assert TESTS == table["all_rows"]
    assert [f"test-{test:02}" for test in reversed(range(TESTS))] == names
    assert [] == told(client, first=TESTS)["rows"]


def test_page_is_light(client: TestClient) -> None:
    page = client.get("/compare", params=ASKED, headers={"Accept-Encoding": "identity"})

    assert len(page.content) < 300_000
    assert "Next rows" in page.text


def test_csv_has_what_the_page_has_not(client: TestClient) -> None:
    lines = client.get("/compare/table.csv", params=ASKED).text.splitlines()

    assert 1 + TESTS * MOST_COLUMNS + CARDS - MOST_COLUMNS == len(lines)


def test_cells_without_known_noise_have_no_interval(client: TestClient) -> None:
    cell = told(client)["rows"][0]["cells"][-1]

    assert ("better", None, None) == (cell["verdict"], cell["low"], cell["high"])


def test_row_that_is_not_there_is_told(client: TestClient) -> None:
    assert "This row does not exist" in client.get("/compare", params={**ASKED, "row": "nothing"}).text

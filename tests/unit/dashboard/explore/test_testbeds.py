"""Traces of several testbeds in one plot: over the commits of one of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from starlette.testclient import TestClient

from perftrend.analysis.formula import format_key
from perftrend.dashboard.explore import window
from perftrend.dashboard.explore.window import AlignedTestbeds
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store
from perftrend.store.tiles import Axis, TileColumn
from tests.unit.dashboard.conftest import FIRST, RUNS, STEP, TESTBEDS, Filled, commit

HERE, THERE = TESTBEDS
BOTH = f"metric=mrr&test=64b-1c-ethip4-ip4base&testbed={HERE}&testbed={THERE}"


def asked(client: TestClient, *pairs: tuple[str, object]) -> dict[str, Any]:
    answer = client.get(f"/explore?{urlencode(pairs)}", headers={"Accept": "application/json"})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def there(filled: Filled) -> TraceKey:
    return TraceKey.of(**{**filled.slower.as_dict(), "testbed": THERE})


def axis(testbed: str, commits: str) -> Axis:
    """Return an axis whose columns measure commits of one letter, a blank: not known."""
    columns = tuple(
        TileColumn(letter.strip(), FIRST + timedelta(days=number), (number,))
        for number, letter in enumerate(commits)
    )
    return Axis(testbed, columns, 0, -1, ())


@pytest.mark.parametrize(
    ("ours", "theirs", "places"),
    [
        ("abc", "abc", [0, 1, 2]),
        ("abc", "bd", [-1, 0, -1]),
        # The second time there stands with the second time here.
        ("aab", "aa", [0, 1, -1]),
        ("aa", "a", [0, -1]),
        # What is not known is the same nowhere.
        ("a b", " ab", [1, -1, 2]),
        ("abc", "", [-1, -1, -1]),
        ("", "abc", []),
    ],
)
def test_columns_stand_at_the_same_commits(ours: str, theirs: str, places: list[int]) -> None:
    assert places == AlignedTestbeds.from_axes(axis(HERE, ours), axis(THERE, theirs)).places.tolist()


def test_other_testbed_is_drawn_beside_this_one(client: TestClient, filled: Filled) -> None:
    answer = asked(client, ("q", BOTH))
    (series,) = filled.store.series(THERE, where=there(filled).as_dict())
    values = {line["parameters"]["testbed"]: line["values"] for line in answer["lines"]}

    assert values[THERE] == series.samples.tolist()
    assert HERE == answer["testbed"]
    assert any(THERE in notice for notice in answer["notices"])


def test_coarse_points_of_another_testbed_are_folded_as_its_own(client: TestClient, filled: Filled) -> None:
    beside = asked(client, ("q", BOTH), ("scale", 1), ("testbed", HERE))["lines"]
    alone = asked(client, ("id", format_key(there(filled))), ("scale", 1), ("testbed", THERE))["lines"]
    (line,) = (each for each in beside if each["parameters"]["testbed"] == THERE)

    for name in ("values", "least", "greatest"):
        assert line[name] == pytest.approx(alone[0][name])


def test_what_the_other_did_not_measure_is_a_hole(client: TestClient, store: Store) -> None:
    for testbed, commits in ((HERE, (1, 2, 3, 4)), (THERE, (2, 9, 4))):
        for build, number in enumerate(commits, 1):
            started = FIRST + timedelta(days=number)
            key = TraceKey.of(test="a", testbed=testbed)
            run = Run(testbed, "nightly", build, started, started, {"device": commit(number)})
            store.add(run, [Result(key, "pps", Better.HIGHER, Status.PASS, (float(number),), float(number))])
    answer = asked(client, ("q", f"testbed={HERE}&testbed={THERE}"), ("spread", "range"))
    values = {line["parameters"]["testbed"]: line["values"] for line in answer["lines"]}
    lows = {line["parameters"]["testbed"]: line["low"] for line in answer["lines"]}

    assert values == lows == {HERE: [1.0, 2.0, 3.0, 4.0], THERE: [None, 2.0, None, 4.0]}


def test_formula_takes_rows_of_several_testbeds(client: TestClient, filled: Filled) -> None:
    wanted = "metric=mrr&test=64b-1c-ethip4-ip4base"
    formula = f'ratio(filter("{wanted}&testbed={HERE}"), filter("{wanted}&testbed={THERE}"))'
    (line,) = asked(client, ("formula", formula))["lines"]
    series = [
        filled.store.series(key.as_dict()["testbed"], where=key.as_dict())[0]
        for key in (filled.slower, there(filled))
    ]

    assert line["values"] == pytest.approx((series[0].samples / series[1].samples).tolist())


def test_too_many_of_other_testbeds_are_refused_where_no_tile_has_them(
    client: TestClient, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window, "MOST_SINGLE", 2 * RUNS)
    pairs = {"scale": 1, "formula": 'ave(filter("testbed=~."))'}
    (mistake,) = client.get("/explore", params=pairs, headers={"Accept": "application/json"}).json()[
        "mistakes"
    ]

    assert "18 traces are too many to be read commit by commit" in mistake["reason"]


def test_every_nth_commit_of_another_testbed_is_its_value_there(client: TestClient, filled: Filled) -> None:
    pairs = [("id", format_key(there(filled))), ("testbed", HERE)]
    (fine,) = asked(client, *pairs)["lines"]
    (coarse,) = asked(client, *pairs, ("scale", 1), ("downsample", "nth"))["lines"]

    assert fine["values"][3::4] == coarse["values"]


def test_point_of_another_testbed_tells_its_own_run_and_bisection(client: TestClient, filled: Filled) -> None:
    identity = format_key(there(filled))
    point = asked(client, ("q", BOTH), ("at", STEP), ("of", identity))["point"]
    (series,) = filled.store.series(THERE, where=there(filled).as_dict())

    assert [series.results[STEP].value] == [run["value"] for run in point["runs"]]
    assert point["bisect"]["comment"].startswith(f"bisecttest-{THERE} {commit(STEP - 1)}")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("id", "{id}"),
        ("id", "!norm({id})"),
        ("formula", f'norm(filter("metric=mrr&testbed={THERE}"))'),
        ("q", f"metric=mrr&testbed={THERE}"),
    ],
)
def test_testbed_is_the_one_that_is_named(client: TestClient, filled: Filled, name: str, text: str) -> None:
    answer = asked(client, (name, text.format(id=format_key(there(filled)))))

    assert THERE == answer["testbed"]
    assert all(np.isfinite(line["values"]).all() for line in answer["lines"])


def test_testbed_of_a_shortcut_is_that_of_its_traces(client: TestClient, filled: Filled) -> None:
    kept = filled.store.shortcuts.save([format_key(there(filled))], user="eva")

    assert THERE == asked(client, ("shortcut", kept))["testbed"]


@pytest.mark.parametrize("query", ["metric=mrr", f"testbed!={THERE}", "testbed=~skx", "testbed=nowhere"])
def test_usual_testbed_is_shown_where_none_is_named(client: TestClient, filled: Filled, query: str) -> None:
    answer = asked(client, ("q", query))

    assert HERE == answer["testbed"]
    assert "testbed=2n" not in answer["url"]


def test_address_puts_all_testbeds_beside_each_other(client: TestClient, filled: Filled) -> None:
    beside = asked(client, ("q", "metric=mrr"))["beside"]
    answer = client.get(beside, headers={"Accept": "application/json"}).json()

    assert {HERE, THERE} == {line["parameters"]["testbed"] for line in answer["lines"]}
    assert answer["beside"] is None
    assert RUNS == len(answer["points"])

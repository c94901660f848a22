"""Plots of up to a thousand lines: values in binary, a list that is cut, and windows of many points."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext, make_app
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.settings import Settings
from perftrend.store import Store
from tests.unit.dashboard.conftest import FIRST, commit

TRACES, RUNS = 120, 300
CHANGED = 7
"""The number of the trace that changed most: its newest value is half of the others."""
HOLE = (3, 290)
"""A trace and a run without its value."""


def level(trace: int) -> float:
    return 1e6 * (trace + 1)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Give a client of a store with more traces and runs than others."""
    with Store.open(tmp_path_factory.mktemp("many") / "store.sqlite") as store:
        keys = [TraceKey.of(test=f"64b-t{number:03}-mrr", testbed="2n-clx") for number in range(TRACES)]
        noise = np.random.default_rng(1).normal(1, 0.001, (RUNS, TRACES))
        store.add_all(
            (
                Run("2n-clx", "nightly", number + 1, FIRST, FIRST, {"device": commit(number)}),
                [
                    result(key, trace, number, noise)
                    for trace, key in enumerate(keys)
                    if (trace, number) != HOLE
                ],
            )
            for number in range(RUNS)
        )
        app = make_app(AppContext.of(Settings.load(environment={}), store))
        with TestClient(app, base_url="http://localhost") as client:
            yield client


def result(key: TraceKey, trace: int, number: int, noise: np.ndarray) -> Result:
    value = level(trace) * noise[number, trace] * (0.5 if (trace, number) == (CHANGED, RUNS - 1) else 1.0)
    return Result(key, "pps", Better.HIGHER, Status.PASS, (value,), value)


def model_of(client: TestClient, **pairs: object) -> dict[str, Any]:
    answer = client.get(
        f"/explore?{urlencode({'q': 'test=~t', **pairs})}", headers={"Accept": "application/json"}
    )
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def page_of(client: TestClient, **pairs: object) -> str:
    return client.get(
        f"/explore?{urlencode({'q': 'test=~t', **pairs})}", headers={"Accept": "text/html"}
    ).text


def plot_of(text: str) -> dict[str, Any]:
    [written] = re.findall(r'<script type="application/json" id="drawn">(.*?)</script>', text, re.DOTALL)
    found: dict[str, Any] = json.loads(written)
    return found


def listed(text: str) -> list[str]:
    return re.findall(r'<tr data-line=",test=64b-t(\d+)-mrr', text)


def test_many_values_are_packed(many: TestClient) -> None:
    plot, lines = plot_of(page_of(many, points=256)), model_of(many, points=256)["lines"]
    packed = np.frombuffer(b64decode(plot["packed"]), "<u2").reshape(TRACES, 256)

    assert all("values" not in line for line in plot["lines"])
    for line, numbers, exact in zip(plot["lines"], packed, lines, strict=True):
        values = line["low"] + numbers * line["step"]
        expected = np.array([np.nan if value is None else value / 1e6 for value in exact["values"]])
        assert ((numbers == 0xFFFF) == np.isnan(expected)).all()
        known = ~np.isnan(expected)
        assert values[known] == pytest.approx(expected[known], rel=1e-5)
    assert [[HOLE[0], HOLE[1] - (RUNS - 256)]] == np.argwhere(packed == 0xFFFF).tolist()


@pytest.mark.parametrize(
    ("lines", "points", "is_packed"), [(40, 128, False), (41, 128, True), (40, 512, False), (20, 512, False)]
)
def test_plots_of_few_lines_are_not_packed(
    many: TestClient, lines: int, points: int, is_packed: bool
) -> None:
    names = "|".join(f"t{number:03}" for number in range(lines))
    text = many.get(
        f"/?{urlencode({'q': f'test=~({names})', 'points': points})}", headers={"Accept": "text/html"}
    ).text

    assert is_packed is ("packed" in plot_of(text))


def test_equal_values_and_lines_without_any_are_packed(client: TestClient, store: Store) -> None:
    keys = [TraceKey.of(test=f"t{number}", testbed="2n-clx") for number in range(200)]
    results = [
        Result(key, "us", Better.LOWER, Status.PASS, (value,), value)
        for key, value in zip(keys, [5.0] * 199 + [-1.0], strict=True)
    ]
    store.add_all((Run("2n-clx", "nightly", build, FIRST, FIRST), results) for build in range(1, 129))
    pairs = [("q", "test=~t&test!=t199"), ("formula", 'log(filter("test=t199"))')]
    plot = plot_of(client.get(f"/explore?{urlencode(pairs)}", headers={"Accept": "text/html"}).text)
    packed = np.frombuffer(b64decode(plot["packed"]), "<u2").reshape(200, 128)

    assert [(5.0, 0.0)] * 199 + [(0.0, 0.0)] == [(line["low"], line["step"]) for line in plot["lines"]]
    assert ({0}, {0xFFFF}) == (set(packed[:199].flat), set(packed[199]))


def test_long_list_has_the_largest_changes_first(many: TestClient) -> None:
    rows = listed(page_of(many))

    assert (100, f"{CHANGED:03}") == (len(rows), rows[0])
    assert "100 of 120 lines" in page_of(many)


def test_whole_list_is_requested(many: TestClient) -> None:
    [url] = re.findall(r'<a href="([^"]+)" data-live>List all</a>', page_of(many))
    text = many.get(url.replace("&amp;", "&"), headers={"Accept": "text/html"}).text

    assert TRACES == len(listed(text))
    assert "List all" not in text


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("newest", 0),
        ("-newest", TRACES - 1),
        ("line", 0),
        ("-line", TRACES - 1),
        ("-mean", TRACES - 1),
        ("-change", CHANGED),
    ],
)
def test_long_list_is_sorted_before_it_is_cut(many: TestClient, sort: str, first: int) -> None:
    text = page_of(many, sort=sort)

    assert f"{first:03}" == listed(text)[0]
    assert 1 == text.count(f'aria-sort="{"descending" if sort[0] == "-" else "ascending"}"')


def test_headings_lead_to_their_order_and_back(many: TestClient) -> None:
    once = re.findall(r'<a href="([^"]+)" data-live title="Sort">Newest</a>', page_of(many))
    twice = re.findall(r'<a href="([^"]+)" data-live title="Sort">Newest</a>', page_of(many, sort="-newest"))

    assert ["sort=-newest", "sort=newest"] == [
        url.partition("sort=")[1] + url.partition("sort=")[2] for [url] in (once, twice)
    ]


def test_row_of_the_selected_point_is_listed(many: TestClient) -> None:
    last = listed(page_of(many, rows="all"))[-1]
    of = f",test=64b-t{last}-mrr,testbed=2n-clx,"

    assert last == listed(page_of(many, at=RUNS - 1, of=of))[0]


@pytest.mark.parametrize("sort", ["nothing", "--line", "line-"])
def test_unknown_order_is_refused(many: TestClient, sort: str) -> None:
    answer = many.get(f"/explore?sort={sort}", headers={"Accept": "application/json"})

    assert (400, True) == (answer.status_code, "sort" in answer.json()["error"])


def test_window_has_as_many_points_as_are_chosen(many: TestClient) -> None:
    newest = model_of(many, points=256)
    first = model_of(many, points=256, tile=1)
    whole = model_of(many, points=512)

    assert (256, RUNS - 256) == (len(newest["points"]), newest["points"][0]["column"])
    assert (256, 0) == (len(first["points"]), first["points"][0]["column"])
    assert (RUNS, None, None) == (len(whole["points"]), whole["tile"]["older"], whole["tile"]["newer"])
    assert "tile=1&points=256" in newest["tile"]["older"]
    assert None is first["tile"]["older"]
    assert 128 == len(model_of(many)["points"])


def test_point_of_a_link_is_in_its_window(many: TestClient) -> None:
    of = ",test=64b-t000-mrr,testbed=2n-clx,"

    assert 10 == model_of(many, points=256, at=10, of=of)["point"]["column"]


@pytest.mark.parametrize("points", ["0", "129", "100000", "x", "-128"])
def test_other_numbers_of_points_are_refused(many: TestClient, points: str) -> None:
    answer = many.get(f"/explore?points={points}", headers={"Accept": "application/json"})

    assert (400, True) == (answer.status_code, "points" in answer.json()["error"])


def test_changes_of_many_traces_are_not_marked_and_the_page_says_so(many: TestClient) -> None:
    assert ["Changes are not marked for more than 50 traces; zoom in or select fewer traces"] == model_of(
        many
    )["notices"]

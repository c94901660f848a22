"""What the script of the page gets."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from perftrend.analysis.formula import format_key
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store
from tests.unit.dashboard.conftest import FIRST, STEP, Filled

_DRAWN = re.compile(r'<script type="application/json" id="drawn">(.*?)</script>', re.DOTALL)


def drawn(client: TestClient, *pairs: tuple[str, object]) -> dict[str, Any]:
    """Return what stands in the page, as a browser reads it."""
    (text,) = _DRAWN.findall(client.get(f"/explore?{urlencode(pairs)}").text)
    found: dict[str, Any] = json.loads(text)
    return found


def test_plot_has_the_values_of_the_page(client: TestClient, filled: Filled) -> None:
    pairs = (("q", "metric=~mrr|ndr|latency"), ("at", STEP), ("of", format_key(filled.slower)))
    model = client.get(f"/explore?{urlencode(pairs)}", headers={"Accept": "application/json"}).json()
    plot = drawn(client, *pairs)

    for line, told in zip(plot["lines"], model["lines"], strict=True):
        factor = 1e6 if told["unit"] == "pps" else 1.0
        assert [value * factor for value in line["values"]] == pytest.approx(told["values"], rel=1e-5)
    assert ["Mpps", "us"] == plot["units"]
    assert [(each["trace"], each["point"]) for each in plot["changes"]] == [
        (each["trace"], each["point"]) for each in model["changes"]
    ]
    assert {"trace": format_key(filled.slower), "column": STEP, "since": None} == plot["looked"]


def test_no_name_ends_the_element(client: TestClient, store: Store) -> None:
    name = "</script><script>alert(1)</script><!--"
    key = TraceKey.of(test=name, testbed="2n-clx")
    store.add(
        Run("2n-clx", "nightly", 1, FIRST, FIRST),
        [Result(key, "pps", Better.HIGHER, Status.PASS, (1.0,), 1.0)],
    )

    assert format_key(key) == drawn(client)["lines"][0]["id"]


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([("show", "norm")], "standard deviations from the mean"),
        ([("show", "count"), ("by", "metric")], "traces"),
        ([("show", "ave")], ""),
        ([("show", "norm"), ("formula", 'log(filter("metric=mrr"))')], ""),
    ],
)
def test_axis_of_mere_numbers_says_what_they_are(
    client: TestClient, filled: Filled, pairs: list[tuple[str, str]], words: str
) -> None:
    assert words == drawn(client, ("q", "metric=mrr"), *pairs)["numbers"]


def test_bands_are_drawn_of_few_lines_only(client: TestClient, store: Store) -> None:
    keys = [TraceKey.of(test=f"t{number}", testbed="2n-clx") for number in range(13)]
    for build in range(1, 9):
        results = [Result(key, "pps", Better.HIGHER, Status.PASS, (1.0,), 1.0) for key in keys]
        store.add(Run("2n-clx", "nightly", build, FIRST, FIRST), results)

    assert "low" in drawn(client, ("scale", 1), ("q", "test!=t0"))["lines"][0]
    assert "low" not in drawn(client, ("scale", 1), ("q", "test=~t"))["lines"][0]

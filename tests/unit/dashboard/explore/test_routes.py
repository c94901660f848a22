"""The responses of the page to browsers, programs and attackers."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from html import unescape
from typing import Any
from unittest import mock
from urllib.parse import parse_qsl, quote, unquote, urlencode

import numpy as np
import pytest
from httpx import Response
from markupsafe import escape
from starlette.testclient import TestClient

from perftrend.analysis.formula import format_key
from perftrend.dashboard import AppContext, make_app
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store
from perftrend.store.tiles import Tiles
from tests.unit.dashboard.conftest import (
    FIRST,
    RUNS,
    STEP,
    TESTBEDS,
    Filled,
    add_run_with_latency,
    commit,
    token_of,
)

JSON = {"Accept": "application/json"}
HTML = {"Accept": "text/html"}
HOSTILE = "<img src=x onerror=alert(1)>\"'; DROP TABLE runs; --"


def asked(client: TestClient, *pairs: tuple[str, object], status: int = 200) -> dict[str, Any]:
    answer = client.get(f"/explore?{urlencode(pairs)}", headers=JSON)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


def page_of(client: TestClient, *pairs: tuple[str, object], status: int = 200) -> str:
    answer = client.get(f"/explore?{urlencode(pairs)}", headers=HTML)
    assert answer.status_code == status
    return answer.text


def sent(client: TestClient, path: str, body: dict[str, Any]) -> Response:
    headers = {**JSON, "X-CSRF-Token": token_of(client)}
    return client.post(path, json=body, headers=headers)


def test_store_without_a_run_says_what_to_do(client: TestClient) -> None:
    assert "The store has no runs yet" in page_of(client)
    assert asked(client)["tile"] is None


def test_values_are_those_of_the_store(client: TestClient, filled: Filled) -> None:
    (line,) = asked(client, ("id", format_key(filled.slower)))["lines"]
    (series,) = filled.store.series(TESTBEDS[0], where=filled.slower.as_dict())

    assert line["values"] == series.samples.tolist()
    assert line["newest"] == series.samples[-1]


def test_few_traces_are_drawn_without_a_choice(client: TestClient, filled: Filled) -> None:
    answer = asked(client)

    assert len(answer["lines"]) == answer["matched"] == 9
    assert {line["parameters"]["testbed"] for line in answer["lines"]} == {TESTBEDS[0]}


def test_choices_tell_what_each_would_leave(client: TestClient, filled: Filled) -> None:
    answer = asked(client, ("q", "metric=mrr"))
    counts = {each["name"]: {value["value"]: value["count"] for value in each["values"]}
              for each in answer["parameters"]}  # fmt: skip

    assert counts["frame"] == {"64B": 2, "1518B": 1}
    assert counts["metric"] == {"latency": 3, "mrr": 3, "ndr": 3}


def test_regular_expressions_and_negation(client: TestClient, filled: Filled) -> None:
    answer = asked(client, ("q", "test=~^64b&cores!=1c&metric!=~lat"))

    assert {line["parameters"]["test"] for line in answer["lines"]} == {"64b-2c-ethip4-ip4base"}
    assert {line["parameters"]["metric"] for line in answer["lines"]} == {"mrr", "ndr"}


def test_boxes_choose_without_scripts(client: TestClient, filled: Filled) -> None:
    answer = asked(client, ("p.metric", "mrr"), ("p.frame", "64B"), ("p.frame", "1518B"))

    assert answer["query"] == "metric=mrr&frame=64B&frame=1518B"
    assert len(answer["lines"]) == 3


def test_normalised_lines_are_calculated_traces(client: TestClient, filled: Filled) -> None:
    answer = asked(client, ("q", "metric=mrr"), ("show", "norm"))

    assert all(line["id"].startswith("!norm(,") for line in answer["lines"])
    assert np.array([line["values"] for line in answer["lines"]]).std(axis=1) == pytest.approx(1)
    assert {line["unit"] for line in answer["lines"]} == {""}


def test_calculated_trace_is_found_by_its_id(client: TestClient, filled: Filled) -> None:
    lines = asked(client, ("q", "metric=mrr"), ("show", "norm"))["lines"]
    again = asked(client, ("id", lines[1]["id"]))["lines"]

    assert [line["values"] for line in again] == [lines[1]["values"]]


def test_aggregates_are_made_for_each_value(client: TestClient, filled: Filled) -> None:
    answer = asked(client, ("q", "metric=mrr"), ("show", "ave"), ("by", "frame"))
    raw = asked(client, ("q", "metric=mrr&frame=64B"))["lines"]

    assert [line["id"] for line in answer["lines"]] == [
        '@relative_ave(filter("metric=mrr&frame=64B"))', '@relative_ave(filter("metric=mrr&frame=1518B"))',
    ]  # fmt: skip
    ratios = [np.array(line["values"]) / line["mean"] for line in raw]
    assert answer["lines"][0]["values"] == pytest.approx(np.mean(ratios, axis=0).tolist())
    assert answer["lines"][0]["unit"] == ""


@pytest.mark.parametrize("scale", [0, 1])
def test_aggregates_are_those_that_their_formulas_give_alone(
    client: TestClient, filled: Filled, scale: int
) -> None:
    """They share what is read, in the same order: to the last bit."""
    lines = asked(client, ("show", "ave"), ("by", "metric"), ("q", "frame=64B"), ("scale", scale))["lines"]

    assert 3 == len(lines)
    for line in lines:
        assert [line["values"]] == [
            alone["values"] for alone in asked(client, ("id", line["id"]), ("scale", scale))["lines"]
        ]


def test_what_several_aggregates_share_is_read_once(client: TestClient, filled: Filled) -> None:
    with mock.patch.object(Tiles, "values", autospec=True, side_effect=Tiles.values) as read:
        asked(client, ("show", "ave"), ("by", "metric"), ("q", "frame=64B"))

    assert [6] == [len(ids) for _, _, ids, _ in (each.args for each in read.call_args_list) if len(ids)]


@pytest.mark.parametrize(
    "condition", ["frame!=1518B", "frame=~^64", "frame=64B", "frame=64B&frame=nothing", "frame!=~15"]
)
def test_aggregates_are_of_chosen_values_only(client: TestClient, filled: Filled, condition: str) -> None:
    lines = asked(client, ("q", f"metric=mrr&{condition}"), ("show", "count"), ("by", "frame"))["lines"]

    assert [line["id"] for line in lines] == ['@count(filter("metric=mrr&frame=64B"))']
    assert set(lines[0]["values"]) == {2}


@pytest.mark.parametrize(("show", "function"), [("min", np.min), ("max", np.max)])
def test_other_aggregates(client: TestClient, filled: Filled, show: str, function: Any) -> None:
    (line,) = asked(client, ("q", "metric=mrr"), ("show", show))["lines"]
    raw = asked(client, ("q", "metric=mrr"))["lines"]

    ratios = [np.array(each["values"]) / each["mean"] for each in raw]
    assert line["values"] == pytest.approx(function(ratios, axis=0).tolist())


def test_rates_are_averaged_by_a_formula(client: TestClient, filled: Filled) -> None:
    (line,) = asked(client, ("formula", 'ave(filter("metric=mrr"))'))["lines"]
    raw = asked(client, ("q", "metric=mrr"))["lines"]

    assert line["values"] == pytest.approx(np.mean([each["values"] for each in raw], axis=0).tolist())
    assert line["unit"] == "pps"


ADDED_AT = 12


def add_two_slower_tests(store: Store) -> None:
    """Store 20 runs of four tests, with two slower tests since run 12, and all 5 % slower since run 16."""
    levels = {"a": 12e6, "b": 11e6, "c": 10e6, "d": 9e6, "slow-1": 4e6, "slow-2": 3e6}
    for number in range(20):
        run = Run("2n-clx", "nightly", number + 1, FIRST, FIRST, {"device": commit(number)})
        results = [
            Result(
                TraceKey.of(test=test, metric="mrr", testbed="2n-clx"), "pps", Better.HIGHER, Status.PASS,
                (level * factor,), level * factor,
            )
            for test, level in levels.items()
            for factor in [0.95 if number >= 16 else 1.0]
            if number >= ADDED_AT or not test.startswith("slow")
        ]  # fmt: skip
        store.add(run, results)


def test_average_does_not_fall_when_slower_tests_are_added(client: TestClient, store: Store) -> None:
    add_two_slower_tests(store)
    rates = asked(client, ("formula", 'ave(filter("metric=mrr"))'))["lines"][0]["values"]
    answer = asked(client, ("q", "metric=mrr"), ("show", "ave"))
    values = np.array(answer["lines"][0]["values"])

    assert rates[ADDED_AT] < 0.8 * rates[0]
    assert values[:16] == pytest.approx(values[0])
    assert values[16:] / values[0] == pytest.approx(0.95)
    (change,) = answer["set_changes"]
    assert (ADDED_AT, ADDED_AT, 2, 0) == tuple(
        change[each] for each in ("point", "column", "added", "removed")
    )
    assert [",metric=mrr,test=slow-1,testbed=2n-clx,", ",metric=mrr,test=slow-2,testbed=2n-clx,"] == change[
        "traces"
    ]
    assert answer["lines"][0]["id"] == change["line"]


def test_change_of_the_set_is_listed(client: TestClient, store: Store) -> None:
    add_two_slower_tests(store)
    text = page_of(client, ("q", "metric=mrr"), ("show", "ave"))

    assert "traces added or removed at 1 commit" in text
    assert "<td>+2 traces</td><td>slow-1 mrr, slow-2 mrr</td>" in text
    assert "+2 traces" not in page_of(client, ("q", "metric=mrr"))


def test_average_of_opposite_directions_is_pointed_out(client: TestClient, filled: Filled) -> None:
    [notice] = asked(client, ("show", "ave"))["notices"]

    assert "they cancel each other" in notice
    assert [] == asked(client, ("show", "ave"), ("q", "better=higher"))["notices"]
    assert [] == asked(client, ("show", "ave"), ("by", "metric"))["notices"]


def test_old_address_of_a_point_of_an_average_finds_it(client: TestClient, filled: Filled) -> None:
    of = ("of", '@ave(filter("metric=mrr"))')
    point = asked(client, ("q", "metric=mrr"), ("show", "ave"), ("at", 5), of)["point"]

    assert '@relative_ave(filter("metric=mrr"))' == point["trace"]
    # A formula that is drawn is meant itself.
    both = asked(client, ("q", "metric=mrr"), ("show", "ave"), ("at", 5), of, ("id", of[1]))
    assert of[1] == both["point"]["trace"]


def test_traces_are_counted(client: TestClient, filled: Filled) -> None:
    (line,) = asked(client, ("q", "metric=mrr"), ("show", "count"))["lines"]

    assert set(line["values"]) == {3}
    assert line["unit"] == ""


def test_coarse_points_have_an_envelope(client: TestClient, filled: Filled) -> None:
    answer = asked(client, ("id", format_key(filled.slower)), ("scale", 1))
    fine = asked(client, ("id", format_key(filled.slower)))["lines"][0]["values"]
    line = answer["lines"][0]

    assert len(answer["points"]) == RUNS // 4
    assert line["least"][0] == min(fine[:4])
    assert line["greatest"][0] == max(fine[:4])
    assert line["values"][0] == pytest.approx(np.mean(fine[:4]))


def test_coarse_points_can_be_every_nth_commit(client: TestClient, filled: Filled) -> None:
    (fine,) = asked(client, ("id", format_key(filled.slower)))["lines"]
    answer = asked(client, ("id", format_key(filled.slower)), ("scale", 1), ("downsample", "nth"))
    (line,) = answer["lines"]

    assert fine["values"][3::4] == line["values"]
    assert [commit(number) for number in range(3, RUNS, 4)] == [each["commit"] for each in answer["points"]]
    assert (None, None, "nth") == (line["least"], line["greatest"], answer["downsample"])


def test_newest_point_of_every_nth_commit_is_the_newest_value(client: TestClient, filled: Filled) -> None:
    """Of 64 commits that the point is to cover there are 60 yet."""
    (fine,) = asked(client, ("id", format_key(filled.slower)))["lines"]
    (line,) = asked(client, ("id", format_key(filled.slower)), ("scale", 3), ("downsample", "nth"))["lines"]

    assert [fine["values"][-1]] == line["values"]


def test_formulas_are_about_every_nth_commit(client: TestClient, filled: Filled) -> None:
    pairs = [("formula", 'ave(filter("metric=mrr"))'), ("downsample", "nth")]
    (fine,) = asked(client, *pairs)["lines"]
    (coarse,) = asked(client, *pairs, ("scale", 1))["lines"]

    assert fine["values"][3::4] == coarse["values"]


def test_page_says_which_commits_are_shown(client: TestClient, filled: Filled) -> None:
    pairs = [("id", format_key(filled.slower)), ("scale", 2), ("at", 15), ("of", format_key(filled.slower))]

    assert "16 commits per point" in page_of(client, *pairs)
    assert "every 16th commit" in page_of(client, *pairs, ("downsample", "nth"))


def test_change_is_marked_where_it_is(client: TestClient, filled: Filled) -> None:
    answer = asked(client, ("id", format_key(filled.slower)))
    (change,) = answer["changes"]

    assert (change["column"], change["direction"]) == (STEP, "regression")
    assert change["relative"] == pytest.approx(-0.15, abs=0.01)
    assert asked(client, ("id", format_key(filled.slower)), ("changes", "off"))["changes"] == []


def test_changes_and_notes_are_listed_the_newest_first(client: TestClient, filled: Filled) -> None:
    filled.store.annotations.add(commit(STEP + 5), "A card was replaced.", user="eva")
    page = page_of(client, ("id", format_key(filled.slower)))
    row = f'name="look" value="{STEP} {format_key(filled.slower)}"'

    assert "1 change and 1 note" in page
    assert -1 < page.index("A card was replaced.") < page.index(row)


def test_line_that_fell_silent_says_since_when(client: TestClient, store: Store) -> None:
    going, gone = (TraceKey.of(test=test, testbed="2n-clx") for test in ("going", "gone"))
    for number in range(1, 6):
        keys = [going, gone] if number <= 2 else [going]
        run = Run("2n-clx", "nightly", number, FIRST, FIRST, {"device": commit(number)})
        store.add(run, [Result(key, "pps", Better.HIGHER, Status.PASS, (1.0,), 1.0) for key in keys])

    assert {format_key(going): 0, format_key(gone): 3} == {
        line["id"]: line["silent"] for line in asked(client)["lines"]
    }
    assert 1 == page_of(client).count("3 points ago")


def test_nothing_is_told_relative_to_an_average_of_zero(client: TestClient, filled: Filled) -> None:
    chosen = (("q", "metric=mrr"), ("show", "norm"))
    lines = asked(client, *chosen)["lines"]
    point = asked(client, *chosen, ("at", STEP), ("of", lines[0]["id"]))["point"]

    assert {(0.0, None)} == {(line["mean"], line["change"]) for line in lines}
    assert point["change"] is None
    assert None not in {line["change"] for line in asked(client, ("q", "metric=mrr"))["lines"]}


def test_page_grows_with_its_traces_and_not_with_their_square(client: TestClient, store: Store) -> None:
    keys = [TraceKey.of(test=f"{'long-' * 18}{number}", testbed="2n-clx") for number in range(50)]
    results = [Result(key, "pps", Better.HIGHER, Status.PASS, (1.0,), 1.0) for key in keys]
    store.add(Run("2n-clx", "nightly", 1, FIRST, FIRST), results)
    few, many = (page_of(client, *(("id", format_key(key)) for key in keys[:count])) for count in (10, 50))

    assert len(many) < 6 * len(few)


def test_choice_that_is_none_is_not_offered(client: TestClient, filled: Filled) -> None:
    names = [each["name"] for each in asked(client, ("q", "frame=1518B"))["parameters"]]

    assert "frame" in names
    assert not {"testbed", "test", "suite"} & set(names)


def test_spread_is_that_of_the_replicates(client: TestClient, filled: Filled) -> None:
    (line,) = asked(client, ("id", format_key(filled.slower)), ("spread", "range"))["lines"]
    (series,) = filled.store.series(TESTBEDS[0], where=filled.slower.as_dict())

    assert line["low"] == [min(result.samples) for result in series.results]
    assert line["high"] == [max(result.samples) for result in series.results]


def test_annotation_stands_at_its_commit(client: TestClient, filled: Filled) -> None:
    filled.store.annotations.add(commit(7), HOSTILE, user="eva")
    (note,) = asked(client)["notes"]

    assert (note["column"], note["text"], note["user"]) == (7, HOSTILE, "eva")


def test_point_tells_its_run_commit_and_replicates(client: TestClient, filled: Filled) -> None:
    point = asked(client, ("id", format_key(filled.slower)), ("at", STEP), ("of", format_key(filled.slower)))[
        "point"
    ]

    assert (point["commit"], point["runs"][0]["name"]) == (commit(STEP), f"nightly/{STEP + 1}")
    assert len(point["runs"][0]["samples"]) == 3
    assert point["runs"][0]["links"]["log"].endswith(f"/{STEP + 1}/log.html")
    assert point["change"] == pytest.approx(-0.15, abs=0.02)
    assert point["bisect"]["comment"].startswith(f"bisecttest-{TESTBEDS[0]} {commit(STEP - 1)}")


def test_page_of_a_point_leads_editors_to_a_bisection(
    client: TestClient, editor: TestClient, filled: Filled
) -> None:
    name = format_key(filled.slower)
    path = "/explore?" + urlencode({"id": name, "at": STEP, "of": name})

    assert "Start a bisection" in editor.get(path).text
    viewed = client.get(path)
    assert 200 == viewed.status_code
    assert "Start a bisection" not in viewed.text


def test_point_has_the_percentile_curves_of_its_latency(client: TestClient, store: Store) -> None:
    """Each trace of the search has them; in the store, only the first has the details of all."""
    for key in add_run_with_latency(store):
        chosen = ("at", 0), ("of", format_key(key))

        [run] = asked(client, *chosen)["point"]["runs"]
        [image] = re.findall(r'<img src="data:image/svg\+xml,([^"]+)"', page_of(client, *chosen))

        assert ["latency_50"] == list(run["latency"])
        assert [20.0, 20.0] == [way["average_us"] for way in run["latency"]["latency_50"]["directions"]]
        assert 2 == unquote(image).count('<path class="curve of-0"')
        assert "The latency: at 50 % of PDR 20 us on average" in page_of(client, *chosen)


def test_point_without_latency_has_no_curves(client: TestClient, filled: Filled) -> None:
    chosen = ("at", STEP), ("of", format_key(filled.slower))

    assert {} == asked(client, *chosen)["point"]["runs"][0]["latency"]
    assert "<figure>" not in page_of(client, *chosen)


def test_latency_of_a_newer_perftrend_is_not_drawn(client: TestClient, store: Store) -> None:
    key = TraceKey.of(testbed=TESTBEDS[0], suite="ip4", test="a", metric="pdr")
    run = Run(TESTBEDS[0], "nightly", 1, FIRST, FIRST)
    details = {"schema": 99, "latency": {"latency_50": {}}}
    store.add(run, [Result(key, "pps", Better.HIGHER, Status.PASS, (1.0,), 1.0, details=details)])

    [shown] = asked(client, ("at", 0), ("of", format_key(key)))["point"]["runs"]

    assert (1.0, {}) == (shown["value"], shown["latency"])


@pytest.mark.parametrize(("at", "since"), [(40, 30), (30, 40)])
def test_two_points_tell_what_lies_between(client: TestClient, filled: Filled, at: int, since: int) -> None:
    identity = format_key(filled.slower)
    point = asked(client, ("id", identity), ("of", identity), ("at", at), ("since", since))["point"]

    assert [each["commit"] for each in point["commits"]] == [commit(number) for number in range(40, 30, -1)]
    assert point["git_log"] == f"git log --oneline {commit(30)}..{commit(40)}"
    assert (point["bisect"]["old"], point["bisect"]["new"]) == (commit(30), commit(40))


@pytest.mark.parametrize("pairs", [[("at", 10**8)], [("at", 5), ("of", "x")], [("at", 5), ("since", 10**8)]])
def test_point_that_is_not_there_is_none(
    client: TestClient, filled: Filled, pairs: list[tuple[str, object]]
) -> None:
    point = asked(client, ("of", format_key(filled.slower)), *pairs)["point"]

    assert point is None or not point["chosen"]


def test_old_tile_and_newest_points(client: TestClient, store: Store) -> None:
    key = TraceKey.of(test="a", testbed="2n-clx")
    for number in range(140):
        run = Run("2n-clx", "nightly", number + 1, FIRST, FIRST, {"device": commit(number)})
        store.add(run, [Result(key, "pps", Better.HIGHER, Status.PASS, (float(number),), float(number))])

    newest, first, last = asked(client), asked(client, ("tile", 0)), asked(client, ("tile", 1))
    assert newest["lines"][0]["values"] == [float(number) for number in range(12, 140)]
    assert first["lines"][0]["values"] == [float(number) for number in range(128)]
    assert last["lines"][0]["values"] == [float(number) for number in range(128, 140)]
    assert (newest["tile"]["older"], newest["tile"]["newer"]) == ("/explore?tile=0", None)
    assert first["tile"]["newer"] == "/explore"


def test_link_to_a_point_finds_its_tile_when_others_are_newer(client: TestClient, store: Store) -> None:
    key = TraceKey.of(test="a", testbed="2n-clx")
    for number in range(140):
        run = Run("2n-clx", "nightly", number + 1, FIRST, FIRST, {"device": commit(number)})
        store.add(run, [Result(key, "pps", Better.HIGHER, Status.PASS, (float(number),), float(number))])

    assert asked(client, ("at", 5), ("of", format_key(key)))["point"]["value"] == 5.0
    # Most of what was seen lies there.
    assert asked(client, ("x", "-2.5..20"))["points"][0]["column"] == 0
    assert asked(client, ("x", "9..20"))["points"][0]["column"] == 12


def test_links_keep_what_is_seen_unless_they_lead_to_another_time(client: TestClient, filled: Filled) -> None:
    zoomed = (("x", "12.5..40"), ("y", "9..9.5 Mpps"))
    point = (("at", 30), ("of", format_key(filled.slower)))
    answer = asked(client, ("scale", 0), ("q", "metric=mrr"), *zoomed, *point)
    text = page_of(client, ("q", "metric=mrr"), *zoomed)

    kept = urlencode(zoomed)
    assert {"columns": [12.5, 40.0], "values": {"Mpps": [9.0, 9.5]}} == answer["zoom"]
    for url in (answer["url"], answer["beside"], answer["lines"][0]["url"], answer["point"]["closed"]):
        assert kept in url
    assert kept in answer["conditions"][0]["without"]
    for name, value in zoomed:
        # Of the form that chooses, and of the one that opens points.
        assert text.count(f'<input type="hidden" name="{name}" value="{value}">') == 2
    elsewhere = [("scale", "1"), ("q", "metric=mrr"), *((name, str(value)) for name, value in point)]
    assert parse_qsl(answer["tile"]["zoomed_out"].removeprefix("/explore?")) == elsewhere


def test_more_lines_than_can_be_drawn_are_told(client: TestClient, store: Store) -> None:
    keys = [TraceKey.of(test=f"t{number}", testbed="2n-clx") for number in range(1050)]
    results = [Result(key, "pps", Better.HIGHER, Status.PASS, (1.0,), 1.0) for key in keys]
    store.add(Run("2n-clx", "nightly", 1, FIRST, FIRST), results)

    for pair in (("q", "test=~t"), ("formula", 'filter("test=~t")'), ("formula", 'norm(filter(""))')):
        answer = asked(client, pair)
        assert (len(answer["lines"]), answer["left_out"]) == (1000, 50)
        assert "1000 of 1050" in answer["notices"][0]
    shortcut = store.shortcuts.save([format_key(key) for key in keys[:1000]], user="eva")
    answer = asked(client, ("shortcut", shortcut), ("id", format_key(keys[1001])))
    assert (len(answer["lines"]), answer["left_out"]) == (1000, 1)
    assert asked(client, ("q", "test=~t"))["stored"] == ['@filter("test=~t")']
    assert asked(client)["lines"] == []


def test_lines_without_an_axis_are_told(client: TestClient, filled: Filled) -> None:
    answer = asked(client, ("q", "metric=~mrr|ndr|latency"), ("formula", 'norm(filter("metric=ndr"))'))

    assert answer["units"] == ["pps", "us", ""]
    assert answer["notices"] == [
        "Not drawn because there is no axis left: lines in numbers without a unit; select by unit"
    ]


def test_formula_that_gives_nothing_is_kept(client: TestClient, filled: Filled) -> None:
    answer = asked(client, ("formula", 'filter("test=none")'))

    assert answer["empty"] == answer["stored"] == ['@filter("test=none")']


def test_wrong_formula_is_told_with_its_place_beside_the_rest(client: TestClient, filled: Filled) -> None:
    pairs = (("q", "metric=mrr"), ("formula", 'norm(filter("metric=mrr)'))
    answer = asked(client, *pairs, status=400)
    (mistake,) = answer["mistakes"]

    assert len(answer["lines"]) == 3
    assert mistake["caret"] == " " * 13 + "^"
    page = page_of(client, *pairs, status=400)
    # Counted in what was typed, which has no @ before it.
    assert "(character 13)" in page
    assert f'<pre tabindex="0">{escape(pairs[1][1])}\n{" " * 12}^</pre>' in page


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("formula", "ave(" * 50 + 'filter("")' + ")" * 50),
        ("formula", "sum(" * 3_000),
        ("formula", 'norm(filter(""), 1e999)'),
        ("formula", 'filter("' + "a=b&" * 2_000 + 'c=d")'),
        ("formula", 'shortcut("999999999999999999999999")'),
        ("formula", 'filter("#1; DROP TABLE shortcuts")'),
        ("q", "test=~" + "(" * 900),
        ("q", "test=~(?=x)"),
        ("q", "test=~a{1000}{1000}"),
        ("q", "&".join(["test=~x"] * 30)),
        ("shortcut", "12345"),
        ("scale", "999999999"),
        ("id", HOSTILE),
        ("id", "!" * 100),
    ],
)
def test_hostile_text_is_a_mistake(client: TestClient, filled: Filled, name: str, text: str) -> None:
    answer = asked(client, (name, text), status=400)

    # What makes the whole address too long is not shown beside the rest.
    assert answer.get("mistakes") or answer["error"]
    assert filled.store.runs(TESTBEDS[0])


def test_expression_that_would_blow_up_is_matched(client: TestClient, store: Store) -> None:
    key = TraceKey.of(test="a" * 900, testbed="2n-clx")
    result = Result(key, "pps", Better.HIGHER, Status.PASS, (1.0,), 1.0)
    store.add(Run("2n-clx", "nightly", 1, FIRST, FIRST), [result])

    assert asked(client, ("q", "test=~^(a+)+$"))["matched"] == 1
    assert asked(client, ("q", "test=~^(a|aa)+b$"))["matched"] == 0


@pytest.mark.parametrize("path", ["/explore", "/explore?show=ave&by=test", "/explore?q=metric=mrr"])
def test_names_are_text_and_nothing_more(client: TestClient, store: Store, path: str) -> None:
    key = TraceKey.of(test=HOSTILE, metric="mrr", testbed="2n-clx", **{"<b>name</b>": "{{ 7 * 7 }}"})
    result = Result(key, "<i>pps</i>", Better.HIGHER, Status.PASS, (1.0,), 1.0, message=HOSTILE)
    run = Run("2n-clx", "nightly", 1, FIRST, FIRST, {"device": HOSTILE}, 'javascript:alert("1")')
    # What all traces have is not offered.
    other = replace(
        result, key=TraceKey.of(test="other", metric="ndr", testbed="2n-clx", **{"<b>name</b>": "x"})
    )
    store.add(run, [result, other])
    separator = "&" if "?" in path else "?"
    text = client.get(f"{path}{separator}at=0&of={quote(format_key(key))}", headers=HTML).text

    assert "<img src=x" not in text
    assert "<b>name" not in text
    assert "<i>pps" not in text
    assert 'href="javascript' not in text
    assert "{{ 7 * 7 }}" in unescape(text)


def test_query_string_comes_back_as_text(client: TestClient, filled: Filled) -> None:
    for name in ("q", "queries", "formula", "id", "shortcut", "find", "by", "of", f"p.{HOSTILE}"):
        text = client.get(f"/explore?{urlencode([(name, HOSTILE)])}", headers=HTML).text
        assert "<img src=x" not in text


def test_imported_query_keeps_its_meaning(client: TestClient, filled: Filled) -> None:
    """No trace has an ``arch``: in Skia Perf that fits ``!``, here it does not."""
    here = asked(client, ("q", "arch=!x86"))
    imported = asked(client, ("queries", "arch=!x86"))

    assert (0, 9) == (here["matched"], imported["matched"])
    assert "arch?!=x86" == imported["query"]
    assert ["Traces without arch match too (?!=, as in Skia Perf); != requires the parameter"] == imported[
        "notices"
    ]


def test_imported_query_stays_in_the_address(client: TestClient, filled: Filled) -> None:
    imported = asked(client, ("queries", "frame=!64B&arch=!x86"))
    again = client.get(imported["url"], headers=JSON).json()

    assert imported["lines"] == again["lines"] != []


def test_several_imported_queries_are_drawn_together(client: TestClient, filled: Filled) -> None:
    address = "https://perf.skia.org/e/?queries=metric%3Dmrr&queries=metric%3Dndr"

    drawn = asked(client, ("queries", address))["lines"]

    assert {"mrr", "ndr"} == {line["parameters"]["metric"] for line in drawn}


def test_wrong_import_is_shown_in_its_field(client: TestClient, filled: Filled) -> None:
    (mistake,) = asked(client, ("queries", "arch"), status=400)["mistakes"]
    text = page_of(client, ("queries", "arch"), status=400)

    assert ("queries", "arch") == (mistake["field"], mistake["text"])
    assert 'aria-invalid="true">arch</textarea>' in text


@pytest.mark.parametrize("pairs", [[("scale", 6)], [("tile", -1)], [("testbed", "nowhere")], [("show", "x")]])
def test_what_cannot_be_is_refused_in_one_line(
    client: TestClient, filled: Filled, pairs: list[tuple[str, object]]
) -> None:
    answer = asked(client, *pairs, status=400)

    assert list(answer) == ["error"]


def test_csv_has_a_row_for_each_point(client: TestClient, filled: Filled) -> None:
    pairs = [("q", "metric=mrr"), ("show", "ave"), ("by", "frame"), ("format", "csv")]
    answer = client.get(f"/explore?{urlencode(pairs)}")
    head, *rows = csv.reader(io.StringIO(answer.text))
    lines = asked(client, *pairs[:-1])["lines"]

    assert answer.headers["content-type"].startswith("text/csv")
    assert head[3:] == [f"'{line['id']}" for line in lines]
    assert len(rows) == RUNS
    assert [float(row[3]) for row in rows] == lines[0]["values"]
    assert rows[0][1] == commit(0)


@pytest.mark.parametrize(("headers", "kind"), [(HTML, "text/html"), (JSON, "application/json")])
def test_query_with_a_mistake_gives_no_csv(
    client: TestClient, filled: Filled, headers: dict[str, str], kind: str
) -> None:
    answer = client.get("/explore?q=frame&format=csv", headers=headers)

    assert (400, kind) == (answer.status_code, answer.headers["content-type"].partition(";")[0])


def test_policy_lets_only_our_files_run(client: TestClient, filled: Filled) -> None:
    policy = client.get("/explore", headers=HTML).headers["content-security-policy"]

    assert "script-src 'self' 'unsafe-eval'" in policy
    assert "unsafe-inline" not in policy
    assert "unsafe-eval" not in client.get("/runs").headers["content-security-policy"]


def test_shortcut_is_kept_shown_and_used_in_formulas(editor: TestClient, filled: Filled) -> None:
    formula = '@norm(filter("metric=mrr"))'
    ids = [format_key(filled.slower), formula, "!norm(,a=b,)"]
    kept = sent(editor, "/shortcuts", {"ids": ids}).json()

    assert filled.store.shortcuts.load(kept["id"]) == (format_key(filled.slower), formula)
    assert len(asked(editor, ("shortcut", kept["id"]))["lines"]) == 4
    assert len(asked(editor, ("formula", f'filter("#{kept["id"]}")'))["lines"]) == 4
    (line,) = asked(editor, ("formula", f'count(shortcut("{kept["id"]}"))'))["lines"]
    assert set(line["values"]) == {4}


@pytest.mark.parametrize("ids", [[], ["!norm(,a=b,)"], ["test"], ["@norm("], ["x" * 20_000]])
def test_shortcut_of_nothing_or_nonsense_is_refused(
    editor: TestClient, filled: Filled, ids: list[str]
) -> None:
    assert sent(editor, "/shortcuts", {"ids": ids}).status_code == 400


def test_form_keeps_a_shortcut_and_leads_to_it(editor: TestClient, filled: Filled) -> None:
    form = {"ids": f'{format_key(filled.slower)}\n@ave(filter(""))', "csrf": token_of(editor)}
    answer = editor.post("/shortcuts", data=form, headers=HTML)

    assert answer.status_code == 303
    assert len(filled.store.shortcuts.load(answer.headers["location"].partition("shortcut=")[2]) or ()) == 2


def test_short_address_leads_to_its_page(editor: TestClient, filled: Filled) -> None:
    kept = sent(editor, "/short", {"url": "/explore?q=metric%3Dmrr&evil=1"}).json()
    again = sent(editor, "/short", {"url": "q=metric%3Dmrr"}).json()
    answer = editor.get(kept["url"])

    assert kept == again
    assert (answer.status_code, answer.headers["location"]) == (302, "/explore?q=metric%3Dmrr")


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example.org/x",
        "//evil.example.org",
        "/triage",
        "q=a",
        "scale=x",
        "javascript:alert(1)//?q",
        "http://[",
        "//[",
    ],
)
def test_short_address_is_given_to_our_pages_only(editor: TestClient, filled: Filled, url: str) -> None:
    answer = sent(editor, "/short", {"url": url})

    if answer.status_code == 200:
        assert editor.get(answer.json()["url"]).headers["location"] == "/explore?"
    else:
        assert answer.status_code == 400


@pytest.mark.parametrize("key", ["x", "a" * 12, "..%2F..%2Fetc", "%00" * 12, "'; DROP TABLE x"])
def test_unknown_short_address_is_not_found(client: TestClient, filled: Filled, key: str) -> None:
    assert client.get(f"/s/{key}").status_code == 404


def test_who_is_nobody_keeps_nothing(client: TestClient, filled: Filled) -> None:
    assert client.post("/short", json={"url": "q=a%3Db"}, headers=JSON).status_code in {401, 403}


def test_who_sits_at_the_machine_may_keep_something(site: AppContext, filled: Filled) -> None:
    with TestClient(make_app(site), base_url="http://localhost", client=("127.0.0.1", 1)) as client:
        sent = client.post("/short", json={"url": "q=a%3Db"}, headers=JSON)
        forged = client.post("/short", data={"url": "q=a%3Dc"}, headers={"Sec-Fetch-Site": "cross-site"})

    assert (sent.status_code, forged.status_code) == (200, 403)


def test_form_of_another_site_keeps_nothing(editor: TestClient, filled: Filled) -> None:
    assert editor.post("/short", data={"url": "q=a%3Db"}).status_code == 403

"""The page of ratios: what it answers to people and to programs."""

from __future__ import annotations

import csv
import io
import random
import re
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from perftrend.archive.ingestion import of_experiment
from perftrend.dashboard.compare import comparison
from perftrend.dashboard.compare.models import Question, query_link_builder, rows_of
from tests.unit.dashboard.conftest import FIRST, RUNS, STEP, TESTBEDS, TESTS, Filled, add_run, commit

JSON = {"Accept": "application/json"}
TWO_TESTBEDS = {"vertical": "testbed", "left": TESTBEDS[0], "right": TESTBEDS[1]}
BEFORE, AFTER = commit(STEP - 1), commit(STEP)


def told(client: TestClient, **asked: Any) -> Any:
    answer = client.get("/compare", params=asked, headers=JSON)
    assert answer.status_code == 200, answer.text
    return answer.json()


def cells(found: Any) -> dict[tuple[str, str], Any]:
    """Return the cells by row and column."""
    table = found["table"]
    return {
        (row["name"], column["name"]): cell
        for row in table["rows"]
        for column, cell in zip(table["columns"], row["cells"], strict=True)
        if cell
    }


def test_empty_store_has_nothing_to_compare(client: TestClient) -> None:
    assert 200 == client.get("/compare").status_code
    assert (0, None) == (told(client)["traces"], told(client)["table"])


def test_rows_are_tests_and_columns_the_rest(client: TestClient, filled: Filled) -> None:
    found = told(client, **TWO_TESTBEDS)

    table = found["table"]
    assert sorted(TESTS) == sorted(row["name"] for row in table["rows"])
    assert ["latency", "mrr", "ndr"] == [column["name"] for column in table["columns"]]
    assert 9 == len(cells(found))


def test_experiment_can_be_compared_with_the_nights(client: TestClient, filled: Filled) -> None:
    nightly = filled.store.runs(TESTBEDS[0])[-1]
    tried = replace(nightly, job="experiments", experiment="burst=8")
    filled.store.add(tried, of_experiment(filled.store.results(nightly), "burst=8"))

    asked = {"vertical": "experiment", "left": "burst=8", "right": "(without)"}
    found = told(client, **asked, q=f"testbed={TESTBEDS[0]}")

    (parameter,) = (each for each in found["parameters"] if each["name"] == "experiment")
    assert ["burst=8", "(without)"] == [each["value"] for each in parameter["values"]]
    assert {1.0} == {cell["ratio"] for cell in cells(found).values()}
    assert 9 == len(cells(found))


def test_slower_test_is_worse_in_all_its_metrics_and_comes_first(client: TestClient, filled: Filled) -> None:
    found = told(client, **TWO_TESTBEDS)

    assert TESTS[0] == found["table"]["rows"][0]["name"]
    slower = {column: cell for (row, column), cell in cells(found).items() if row == TESTS[0]}
    assert {"worse"} == {cell["verdict"] for cell in slower.values()}
    assert slower["mrr"]["signed"] == pytest.approx(-1 / 0.85, rel=0.02)
    assert slower["mrr"]["ratio"] == pytest.approx(0.85, rel=0.02)
    assert slower["latency"]["signed"] == pytest.approx(1 / 0.85, rel=0.02)
    assert slower["mrr"]["low"] < 0.85 * 1.02
    assert slower["mrr"]["high"] < 1.0


def test_what_does_not_differ_is_within_noise_and_has_no_shade(client: TestClient, filled: Filled) -> None:
    rest = [cell for (row, _), cell in cells(told(client, **TWO_TESTBEDS)).items() if row != TESTS[0]]

    assert ["within noise"] * 6 == [cell["verdict"] for cell in rest]
    assert {0} == {cell["shade"] for cell in rest}
    assert all(cell["low"] < 1 < cell["high"] for cell in rest)


def test_swapped_sides_mirror_the_table(client: TestClient, filled: Filled) -> None:
    forth = cells(told(client, **TWO_TESTBEDS))
    back = cells(told(client, **{**TWO_TESTBEDS, "left": TESTBEDS[1], "right": TESTBEDS[0]}))

    opposite = {"better": "worse", "worse": "better", "within noise": "within noise"}
    for place, cell in forth.items():
        assert cell["signed"] == pytest.approx(-back[place]["signed"])
        assert opposite[cell["verdict"]] == back[place]["verdict"]
        assert cell["shade"] == -back[place]["shade"]
        assert cell["left"] == back[place]["right"]


def test_value_is_the_latest_one_and_says_of_which_commit(client: TestClient, filled: Filled) -> None:
    cell = cells(told(client, **TWO_TESTBEDS))[TESTS[0], "mrr"]

    for side in (cell["left"], cell["right"]):
        assert (commit(RUNS - 1), 0) == (side["commit"], side["distance"])


def test_frames_are_compared_although_tests_are_named_by_them(client: TestClient, filled: Filled) -> None:
    found = told(client, q=f"testbed={TESTBEDS[0]}&metric=mrr", vertical="cores", left="1c", right="2c")

    assert ["64b-*-ethip4-ip4base"] == [row["name"] for row in found["table"]["rows"]]
    assert [1, 0] == [found["table"]["left_alone_count"], found["table"]["right_alone_count"]]


def test_values_at_a_commit_are_those_of_that_commit(client: TestClient, filled: Filled) -> None:
    before = cells(told(client, **TWO_TESTBEDS, at=BEFORE))[TESTS[0], "mrr"]
    after = cells(told(client, **TWO_TESTBEDS, at=AFTER[:9]))[TESTS[0], "mrr"]

    assert ("within noise", "worse") == (before["verdict"], after["verdict"])
    assert [BEFORE, AFTER] == [before["left"]["commit"], after["left"]["commit"]]


def test_title_shortens_the_hash_of_a_commit(client: TestClient, filled: Filled) -> None:
    text = client.get("/compare", params={**TWO_TESTBEDS, "at": BEFORE}).text

    assert f"nearest to {BEFORE[:12]}" in text
    assert f"nearest to {BEFORE}" not in text


@pytest.mark.parametrize(
    ("rule", "number", "distance"), [("before", 20, -1), ("after", 21, 1), ("nearest", 20, -1)]
)
def test_values_at_a_time_are_before_or_after_it(
    client: TestClient, filled: Filled, rule: str, number: int, distance: int
) -> None:
    at = FIRST.replace(day=21, hour=12).isoformat()
    cell = cells(told(client, **TWO_TESTBEDS, at=at, rule=rule))[TESTS[0], "mrr"]

    assert (commit(number), distance) == (cell["left"]["commit"], cell["left"]["distance"])


def test_two_commits_of_the_same_traces(client: TestClient, filled: Filled) -> None:
    found = told(client, by="commits", left=commit(RUNS - 1), right=commit(0), q="metric=mrr")

    by_place = cells(found)
    assert {TESTBEDS[0], TESTBEDS[1]} == {column for _, column in by_place}
    assert "worse" == by_place[TESTS[0], TESTBEDS[0]]["verdict"]
    assert [(TESTS[0], TESTBEDS[0])] == [
        place for place, cell in by_place.items() if cell["verdict"] != "within noise"
    ]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"at": "fffffff"}, "no testbed of these traces has measured commit fffffff"),
        ({"at": "yesterday"}, "7 to 40 hex digits"),
        ({"q": "a=b"}, "0 traces are on the left and 0 on the right"),
        ({"q": "="}, "query, character 1"),
        ({"q": "test=~("}, "is not a valid RE2 regular expression"),
    ],
)
def test_what_cannot_be_compared_is_told_beside_the_form(
    client: TestClient, filled: Filled, asked: dict[str, str], words: str
) -> None:
    program = client.get("/compare", params={**TWO_TESTBEDS, **asked}, headers=JSON)
    person = client.get("/compare", params={**TWO_TESTBEDS, **asked})

    assert (400, 400) == (program.status_code, person.status_code)
    assert words in program.json()["problem"]
    assert words in unescape(person.text)
    assert "<form" in person.text


@pytest.mark.parametrize(
    "asked",
    [{"sort": "x"}, {"ratio": "x"}, {"sort": "c123456"}, {"by": "x"}, {"first": -1}, {"at": "x" * 65}],
)
def test_wrong_choices_are_refused(client: TestClient, asked: dict[str, str]) -> None:
    assert 422 == client.get("/compare", params=asked, headers=JSON).status_code


HOSTILE = [
    "'; DROP TABLE runs; --",
    "<script>alert(1)</script>",
    "\x00",
    "../../etc/passwd",
    "=cmd|' /C calc'!A0",
    "é" * 300,
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("field", ["q", "vertical", "left", "right", "patch", "row"])
def test_what_somebody_types_does_no_harm(client: TestClient, filled: Filled, field: str, text: str) -> None:
    asked = {**TWO_TESTBEDS, field: text, **({"by": "patch"} if field == "patch" else {})}

    for path in ("/compare", "/compare/table.csv"):
        answer = client.get(path, params=asked)
        assert answer.status_code in {200, 400, 422}
        assert "<script>alert" not in answer.text


def test_more_traces_than_can_be_compared_are_refused(
    client: TestClient, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "MOST_TRACES", 17)

    answer = client.get("/compare", params=TWO_TESTBEDS, headers=JSON)

    assert "18 traces are too many to compare" in answer.json()["problem"]


def test_rows_can_be_sorted_by_name_aggregate_and_column(client: TestClient, filled: Filled) -> None:
    def rows(**asked: Any) -> list[str]:
        return [row["name"] for row in told(client, **TWO_TESTBEDS, **asked)["table"]["rows"]]

    assert sorted(TESTS) == rows(sort="name")
    assert sorted(TESTS, reverse=True) == rows(sort="name", reverse=True)
    assert TESTS[0] == rows(sort="worst")[0] == rows(sort="mean")[0] == rows(sort="c1")[0]
    assert TESTS[0] == rows(sort="c1", reverse=True)[-1] == rows(sort="weight", reverse=True)[-1]


def test_one_row_is_told_with_its_commits_and_the_way_to_its_plots(
    client: TestClient, filled: Filled
) -> None:
    page = client.get("/compare", params={**TWO_TESTBEDS, "row": TESTS[0]}).text

    assert commit(RUNS - 1)[:12] in page
    assert "Explore both" in page
    assert TESTS[1] not in page.split('id="found"')[1]


def test_page_tells_the_sign_and_the_verdict_beside_the_colour(client: TestClient, filled: Filled) -> None:
    page = client.get("/compare", params=TWO_TESTBEDS).text

    worst = re.search(r'<td class="heat w4"[^>]*>(.*?)</td>', page)
    assert worst
    assert "▼" in worst[1]
    assert "worse" in worst[1]
    assert "≈" in client.get("/compare", params={**TWO_TESTBEDS, "noise": 1}).text


def test_differences_are_in_per_cent_with_a_sign(client: TestClient, filled: Filled) -> None:
    """Left has 0.85 times the rate of right, and 1 / 0.85 times the latency."""
    page = client.get("/compare", params=TWO_TESTBEDS).text
    row = client.get("/compare", params={**TWO_TESTBEDS, "row": TESTS[0]}).text

    percent = r"<span[^>]*>▼</span> ?([+\N{MINUS SIGN}]\d\d\.\d %)"
    for shown in (page, row):
        [latency, *rates] = re.findall(percent, shown)
        assert "+1" == latency[:2]
        assert {"\N{MINUS SIGN}1"} == {each[:2] for each in rates}
    assert re.search(r"<td>\N{MINUS SIGN}1\d\.\d % to \N{MINUS SIGN}1\d\.\d %</td>", row)


def test_equal_values_are_unchanged(client: TestClient, filled: Filled) -> None:
    same = {"by": "commits", "left": AFTER, "right": AFTER, "noise": 1}

    assert "</span>unchanged" in client.get("/compare", params=same).text


def test_rows_within_the_noise_are_hidden_and_can_be_shown(client: TestClient, filled: Filled) -> None:
    page = client.get("/compare", params=TWO_TESTBEDS).text
    [line] = re.findall(r"2 rows within the noise: <a href=\"([^\"]*)\">show them</a>", page)
    whole = client.get(unescape(line)).text

    assert [TESTS[0]] == rows_of_page(page)
    assert sorted(TESTS) == sorted(rows_of_page(whole))
    assert "noise=1" in line
    assert ">hide them</a>" in whole
    table = told(client, **TWO_TESTBEDS)["table"]
    assert (2, 3, 3) == (table["rows_within_noise"], table["all_rows"], len(table["rows"]))


def test_all_rows_within_the_noise_leave_no_empty_table(client: TestClient, filled: Filled) -> None:
    same = {"by": "commits", "left": AFTER, "right": AFTER}
    page = client.get("/compare", params=same).text

    assert "within the noise: <a" in page
    assert '<table class="ratios">' not in page


def rows_of_page(page: str) -> list[str]:
    """Return the tests of the rows that a page shows."""
    return re.findall(r'<th scope="row"><a [^>]*>(.*?)</a>', page)


def test_ratio_is_shown_with_a_sign_or_below_and_above_one(client: TestClient, filled: Filled) -> None:
    """Left has 0.85 times the rate of right, and 1 / 0.85 times the latency."""

    def shown(**asked: str) -> list[str]:
        page = client.get("/compare", params={**TWO_TESTBEDS, **asked}).text
        return re.findall(r'<td class="heat w[^"]*"[^>]*><span[^>]*>▼</span>(\S+?)<', page)

    [latency, *rates] = shown(ratio="signed")
    assert ("1.1", {"\N{MINUS SIGN}1.1"}) == (latency[:3], {each[:4] for each in rates})
    [latency, *rates] = shown(ratio="plain")
    assert ("1.1", {"0.8"}) == (latency[:3], {each[:3] for each in rates})


def test_form_of_ratios_stays_while_other_things_are_chosen(client: TestClient, filled: Filled) -> None:
    page = client.get("/compare", params={**TWO_TESTBEDS, "ratio": "plain"}).text

    assert '<input type="hidden" name="ratio" value="plain">' in page
    assert "ratio=plain&amp;sort=worst" in page
    assert "plain" == told(client, **TWO_TESTBEDS, ratio="plain")["ratio"]


def test_cell_of_two_commits_is_marked(client: TestClient, filled: Filled) -> None:
    """The latest values of two testbeds may be of different commits: one of them may have fallen silent."""
    shown = {**TWO_TESTBEDS, "noise": 1}
    same = client.get("/compare", params=shown).text
    add_run(filled.store, TESTBEDS[1], RUNS, random.Random(2))  # noqa: S311 - noise, no secret
    different = client.get("/compare", params=shown).text

    # One stands in the key.
    assert [1, 1 + 9] == [page.count("<sup>*</sup>") for page in (same, different)]


def test_plot_of_both_testbeds_has_both(client: TestClient, filled: Filled) -> None:
    page = client.get("/compare", params={**TWO_TESTBEDS, "row": TESTS[0]}).text
    links = re.findall(r'href="(/explore\?id=[^"]*)">Explore both', page)
    plots = [client.get(unescape(link), headers=JSON).json() for link in links]

    assert 3 == len(plots)
    assert all(None not in line["values"] for plot in plots for line in plot["lines"])
    assert all(TESTBEDS[0] == plot["testbed"] and len(plot["lines"]) == 2 for plot in plots)


@pytest.mark.parametrize("by", ["vertical", "commits", "patch"])
def test_page_that_was_asked_nothing_says_what_it_is_for(client: TestClient, filled: Filled, by: str) -> None:
    empty = client.get("/compare", params={"by": by}).text

    assert 1 == empty.count('class="soft intro"')
    assert f'<option value="{commit(RUNS - 1)[:12]}">2026-03-01</option>' in empty


def test_csv_has_every_cell(client: TestClient, filled: Filled) -> None:
    answer = client.get("/compare/table.csv", params=TWO_TESTBEDS)

    lines = list(csv.DictReader(io.StringIO(answer.text)))
    assert "text/csv; charset=utf-8" == answer.headers["content-type"]
    expected = cells(told(client, **TWO_TESTBEDS))
    assert {(line["test"], line["column"]): float(line["signed"]) for line in lines} == {
        place: cell["signed"] for place, cell in expected.items()
    }
    assert 400 == client.get("/compare/table.csv").status_code


def test_parameters_narrow_the_query_and_widen_it_again() -> None:
    asked = Question(q="a=1", vertical="c", first=200, row="x")
    wider = Question(q="a=1&b=x%26y", vertical="c")

    assert wider.encoded == query_link_builder(asked)("b", "x&y")
    assert Question(q="a=1", vertical="c").encoded == query_link_builder(wider)("b", "x&y")
    assert Question(vertical="c").encoded == query_link_builder(Question(q="a=1", vertical="c"))("a", "1")
    assert Question(q="a=1").encoded == query_link_builder(Question(q="="))("a", "1")


def test_row_is_asked_for_by_its_name() -> None:
    asked = Question(q="a=1", vertical="c", first=200)

    assert asked.but(row="x & y") == rows_of(asked)("x & y")
    assert asked.encoded == rows_of(asked)("")


def test_address_says_what_is_not_as_it_is_anyway() -> None:
    asked = Question(vertical="a b", left="x", right="&", reverse=True)

    assert urlencode({"vertical": "a b", "left": "x", "right": "&", "reverse": 1}) == asked.encoded
    assert Question(**dict(pair.split("=") for pair in asked.but(right="y").split("&"))).right == "y"
    assert "" == Question().encoded

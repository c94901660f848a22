"""``/search``: tests, commits, items and people."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext
from perftrend.dashboard.search import MOST, SHOWN
from perftrend.model import Better, MeasuredCommit, Result, Run, Status, SuspectRange, TraceKey
from perftrend.store import Store
from perftrend.store.alerts import Item, Rules, TriageEdit
from tests.unit.dashboard.conftest import FIRST, METRICS, STEP, TESTBEDS, TESTS, Filled, commit

JSON = {"Accept": "application/json"}
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def found(client: TestClient, q: str, group: str = "") -> dict[str, Any]:
    answer = client.get(f"/search?q={quote(q)}&group={group}", headers=JSON)
    assert 200 == answer.status_code, answer.text
    model: dict[str, Any] = answer.json()
    return model


@pytest.fixture
def item(store: Store) -> Item:
    """Give a regression at the step."""
    span = SuspectRange(MeasuredCommit(FIRST, commit(STEP - 1)), MeasuredCommit(NOW, commit(STEP)))
    with store.alerts.night(TESTBEDS[0], newest_run=1, since=None) as night:
        identity = night.add_item("regression", span, owner="Ann Lee, bob", now=NOW)
    edit = TriageEdit(identity, 1, "bug", "Ticket 100%_4711")
    return store.alerts.items.triage([edit], user="eva").now[0]


@pytest.mark.parametrize(
    ("q", "tests"),
    [
        ("64b", TESTS[:2]), ("64B-2C", TESTS[1:2]), ("l2bd mrr", TESTS[2:]), ("ip4 1518b", ()),
        ("ip4 3N-SKX ndr", TESTS[:2]), ("%", ()), ("zzz", ()),
    ],
)  # fmt: skip
def test_tests_have_each_word_in_a_parameter(
    filled: Filled, client: TestClient, q: str, tests: tuple[str, ...]
) -> None:
    assert list(tests) == [each["test"] for each in found(client, q)["tests"]]


def test_test_leads_to_the_plot_of_its_traces_on_each_testbed(filled: Filled, client: TestClient) -> None:
    (match,) = found(client, TESTS[1])["tests"]

    assert 2 * len(METRICS) == match["traces"]
    assert list(TESTBEDS) == [each["testbed"] for each in match["testbeds"]]
    for each in match["testbeds"]:
        shown = client.get(each["explore"], headers=JSON).json()
        assert {each["testbed"]} == {line["parameters"]["testbed"] for line in shown["lines"]}
        assert {TESTS[1]} == {line["parameters"]["test"] for line in shown["lines"]}
        assert len(METRICS) == len(shown["lines"])


def test_commit_is_found_by_its_first_digits(filled: Filled, client: TestClient) -> None:
    model = found(client, commit(STEP)[:9].upper())

    (match,) = model["commits"]
    assert (commit(STEP), list(TESTBEDS)) == (
        match["commit"],
        [each["testbed"] for each in match["testbeds"]],
    )
    address = urlsplit(match["testbeds"][1]["explore"])
    assert ("/explore", {"testbed": [TESTBEDS[1]], "at": [str(STEP)]}) == (
        address.path,
        parse_qs(address.query),
    )
    assert 200 == client.get(match["testbeds"][1]["explore"]).status_code
    for wrong in ("abc", commit(STEP)[1:9], f"{commit(STEP)[:9]} x"):
        assert [] == found(client, wrong)["commits"]


@pytest.mark.parametrize(
    ("q", "is_found"),
    [
        ("#1", True), ("1", True), ("#2", False), ("#9999999999", False), ("ticket", True), ("100%_", True),
        ("100_", False), ("lee 2N-CLX ticket", True), ("lee 3n-skx", False), (commit(STEP)[:8], True),
        (commit(STEP - 1)[:8], False),
    ],
)  # fmt: skip
def test_items_are_found(filled: Filled, item: Item, client: TestClient, q: str, *, is_found: bool) -> None:
    assert [item.identity] * is_found == [each["id"] for each in found(client, q)["items"]]


def test_number_sign_finds_only_the_item(filled: Filled, item: Item, client: TestClient) -> None:
    assert {"tests": 0, "commits": 0, "items": 1, "people": 0} == found(client, "#1")["totals"]


def test_people_are_owners_and_authors(filled: Filled, item: Item, store: Store, client: TestClient) -> None:
    store.annotations.add(commit(3), "new compiler", user="Anna")
    store.alerts.add(Rules("all", "", owner="vpp-team"), user="eva")

    people = found(client, "ANN")["people"]

    assert [("Ann Lee", 1, 0), ("Anna", 0, 1)] == [
        (each["name"], each["items"], each["annotations"]) for each in people
    ]
    assert [item.identity] == [
        each["id"] for each in client.get(people[0]["triage"], headers=JSON).json()["items"]
    ]
    acts = client.get(people[1]["activity"], headers=JSON).json()["acts"]
    assert ["annotated"] == [each["action"] for each in acts]
    assert ["vpp-team"] == [each["name"] for each in found(client, "team")["people"]]
    assert ["bob"] == [each["name"] for each in found(client, "bob")["people"]]


def test_many_matches_lead_to_all(store: Store, client: TestClient) -> None:
    run = Run("2n-clx", "nightly", 1, FIRST, FIRST, {"device": commit(1)})
    names = [f"test-{number:03}" for number in range(MOST + 5)]
    store.add(
        run,
        [
            Result(TraceKey.of(testbed="2n-clx", test=name), "pps", Better.HIGHER, Status.PASS, (1.0,), 1.0)
            for name in names
        ],
    )

    few, many = found(client, "test-"), found(client, "test-", "tests")

    assert names[:SHOWN] == [each["test"] for each in few["tests"]]
    assert names[:MOST] == [each["test"] for each in many["tests"]]
    assert MOST + 5 == few["totals"]["tests"] == many["totals"]["tests"]
    assert (
        f'<a href="/search?q=test-&amp;group=tests">All {MOST + 5}</a>' in client.get("/search?q=test-").text
    )
    assert f"The first {MOST} of {MOST + 5}" in client.get("/search?q=test-&group=tests").text


def test_page_without_words_says_what_can_be_found(client: TestClient) -> None:
    assert "#12" in client.get("/search").text
    assert "Nothing matches <q>zz</q>" in client.get("/search?q=zz").text
    assert 422 == client.get(f"/search?q={'a' * 201}").status_code
    assert 422 == client.get("/search?q=a&group=other").status_code


def test_text_is_escaped(filled: Filled, site: AppContext, client: TestClient) -> None:
    text = '"><script>alert(1)</script>'

    page = client.get(f"/search?q={quote(text)}").text

    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


@pytest.mark.parametrize("path", ["/", "/explore", "/triage", "/runs", "/nowhere"])
def test_each_page_has_the_field(filled: Filled, client: TestClient, path: str) -> None:
    page = client.get(path).text

    assert 1 == page.count("data-search")
    assert 'action="/search"' in page

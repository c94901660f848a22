"""``/triage``: what it shows, and the edits of users."""

from __future__ import annotations

import re
import statistics
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext, make_app
from perftrend.dashboard.triage.notifications import name_of
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.settings import Settings
from perftrend.store.alerts import Alert, Rules, TriageEdit
from tests.unit.dashboard.conftest import signed_in, token_of
from tests.unit.dashboard.triage.conftest import FIRST, MEASURED, Nights, commit, key

JSON = {"Accept": "application/json"}


@pytest.fixture
def found(nights: Nights, alert: Alert) -> Nights:
    """Evaluate the nights: one regression of two traces."""
    nights.evaluate()
    return nights


def listed(client: TestClient, path: str = "/triage") -> list[dict[str, Any]]:
    answer = client.get(path, headers=JSON)
    assert 200 == answer.status_code, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def say(client: TestClient, body: dict[str, Any], path: str = "/triage") -> Any:
    return client.post(path, json=body, headers={**JSON, "X-CSRF-Token": token_of(client)})


def test_page_without_alerts_says_what_to_do(client: TestClient) -> None:
    assert "No alerts yet" in client.get("/triage").text


def test_morning_without_news_is_short(store: Any, client: TestClient, alert: Alert) -> None:
    assert "No new items" in client.get("/triage").text


def test_item_is_listed_with_what_decides(found: Nights, client: TestClient) -> None:
    (item,) = listed(client)

    assert ("regression", 2, "new", "ann") == (item["kind"], item["traces"], item["status"], item["owner"])
    assert commit(20) == item["range"]["first_changed"]
    assert item["low"] < item["size"] < item["high"] < 0
    page = client.get("/triage").text
    assert 'class="spark"' in page
    assert f'href="/triage/{item["id"]}"' in page


def test_title_of_an_item_says_what_changed(found: Nights, client: TestClient) -> None:
    (item,) = listed(client)
    page = client.get(f"/triage/{item['id']}").text

    title = re.search(r'property="og:title" content="([^"]*)"', page)
    description = re.search(r'property="og:description" content="([^"]*)"', page)
    assert title
    size = "\N{MINUS SIGN}[0-9]+[.][0-9] %"
    assert re.fullmatch(f"Regression {size} on 2n-clx [(]item {item['id']}[)]", title[1])
    assert description
    assert description[1].startswith("2 traces, ")
    assert description[1].endswith(f"after {commit(19)[:12]}, up to {commit(20)[:12]}; new")


def test_commits_of_an_item_are_links(found: Nights) -> None:
    settings = Settings.load(environment={}, overrides={"gerrit.url": "https://review.example.org"})
    app = make_app(AppContext.of(settings, found.store))
    with TestClient(app, base_url="http://localhost") as client:
        (item,) = listed(client)
        page = client.get(f"/triage/{item['id']}").text

    assert f'<a href="https://review.example.org/q/{commit(20)}"><code title="{commit(20)}">' in page
    assert '<code title="' not in re.sub(r"<a [^>]*>(?:(?!</a>).)*</a>", "", page)


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("status=all", 1), ("status=closed", 0), ("owner=ann", 1), ("owner=bob", 0), ("testbed=2n-clx", 1),
        ("testbed=other", 0), ("query=test%3Da", 1), ("query=test%3Dc", 0), ("page=2", 0),
    ],
)  # fmt: skip
def test_filters(found: Nights, client: TestClient, query: str, number: int) -> None:
    assert number == len(listed(client, f"/triage?{query}"))


def test_wrong_query_is_told_with_its_position(found: Nights, client: TestClient) -> None:
    answer = client.get("/triage?query=%3D1", headers=JSON)

    assert 400 == answer.status_code
    assert "character 1" in answer.json()["error"]


def test_viewer_may_not_say_anything(found: Nights, client: TestClient) -> None:
    (item,) = listed(client)

    answer = client.post(
        "/triage", json={"items": {item["id"]: item["version"]}, "status": "bug"}, headers=JSON
    )

    assert answer.status_code in {401, 403}
    assert "checkbox" not in client.get("/triage").text


def test_form_without_a_token_is_refused(found: Nights, editor: TestClient) -> None:
    (item,) = listed(editor)

    answer = editor.post("/triage", data={f"item.{item['id']}": item["version"], "status": "bug"})

    assert 403 == answer.status_code


def test_form_changes_and_offers_to_take_it_back(found: Nights, editor: TestClient, token: str) -> None:
    (item,) = listed(editor)
    form = {
        "csrf": token, f"item.{item['id']}": item["version"], "status": "bug", "message": "#7",
        "back": "/triage?testbed=2n-clx",
    }  # fmt: skip

    answer = editor.post("/triage", data=form)

    assert 303 == answer.status_code
    back = urlsplit(answer.headers["location"])
    assert ("/triage", ["2n-clx"]) == (back.path, parse_qs(back.query)["testbed"])
    assert f'name="item.{item["id"]}" value="2"' in editor.get(answer.headers["location"]).text
    undo = editor.post("/triage/undo", data={"csrf": token, f"item.{item['id']}": 2})
    assert 303 == undo.status_code
    assert [("new", "")] == [(each["status"], each["message"]) for each in listed(editor)]


@pytest.mark.parametrize("page", ["/triage?testbed=2n-clx", "/triage/{}"])
def test_form_keeps_a_date_that_cannot_be(found: Nights, editor: TestClient, token: str, page: str) -> None:
    (item,) = listed(editor)
    path = page.format(item["id"])
    form = {"csrf": token, f"item.{item['id']}": 1, "until": "soon", "message": "a fan", "back": "/triage"}

    answer = editor.post("/triage/snooze", data=form, headers={"Referer": f"http://localhost{path}"})

    assert 400 == answer.status_code
    assert re.search('<input name="until"[^>]* value="soon"[^>]* aria-invalid="true"', answer.text)
    assert 'value="a fan"' in answer.text
    assert 'id="field-until-error">enter' in answer.text


def test_back_never_leaves_the_dashboard(found: Nights, editor: TestClient, token: str) -> None:
    (item,) = listed(editor)
    form = {"csrf": token, f"item.{item['id']}": 1, "status": "bug", "back": "https://evil.example/?a=1"}

    assert editor.post("/triage", data=form).headers["location"].startswith("/triage?done=")


def test_who_was_later_is_told_who_was_faster_and_loses_nothing(
    found: Nights, site: AppContext, editor: TestClient
) -> None:
    (item,) = listed(editor)
    with signed_in(site, "ada") as other:
        assert (
            200 == say(other, {"items": {item["id"]: 1}, "status": "ignored", "message": "noise"}).status_code
        )

    answer = say(editor, {"items": {item["id"]: 1}, "status": "bug", "message": "#7"})

    assert 409 == answer.status_code
    told = answer.json()
    assert "ada set item" in told["error"]
    assert [("ignored", "noise")] == [(each["status"], each["message"]) for each in told["items"]]
    page = editor.post(
        "/triage", data={"csrf": token_of(editor), f"item.{item['id']}": 1, "status": "bug", "message": "#7"}
    )
    assert 409 == page.status_code
    assert 'value="#7"' in page.text


def test_bulk_changes_all_or_none(found: Nights, store: Any, editor: TestClient) -> None:
    store.alerts.add(Rules("better", "", direction="progression", recent_runs=20), user="ann")
    found.factors = lambda test, _: 1.3 if test == "c" else 0.9
    found.measure(15)
    found.evaluate()
    first, second = listed(editor)
    store.alerts.items.triage([TriageEdit(second["id"], 1, "ignored")], user="bob")

    answer = say(editor, {"items": {first["id"]: 1, second["id"]: 1}, "status": "closed"})

    assert 409 == answer.status_code
    assert {"new", "ignored"} == {each["status"] for each in listed(editor, "/triage?status=all")}


def test_unknown_item_is_not_found(found: Nights, editor: TestClient) -> None:
    assert 404 == say(editor, {"items": {999: 1}, "status": "bug"}).status_code
    assert 404 == editor.get("/triage/999").status_code


@pytest.mark.parametrize(
    "body",
    [
        {"items": {}, "status": "bug"},
        {"items": {1: 1}, "status": "wrong"},
        {"items": {0: 1}, "status": "bug"},
        {},
    ],
)
def test_what_cannot_be_is_refused(found: Nights, editor: TestClient, body: dict[str, Any]) -> None:
    assert 422 == say(editor, body).status_code


def test_item_page_has_all_to_go_on(found: Nights, editor: TestClient) -> None:
    (item,) = listed(editor)
    say(editor, {"items": {item["id"]: 1}, "status": "bug", "message": "#7 <b>"})

    detail = editor.get(f"/triage/{item['id']}", headers=JSON).json()

    assert ["a mrr", "b mrr"] == sorted(each["name"] for each in detail["traces"])
    assert [commit(20)] == [each["commit"] for each in detail["commits"]]
    assert f"bisecttest-2n-clx {commit(19)}" in detail["bisect"]["comment"]
    assert f"--old {commit(19)} --new {commit(20)}" in detail["bisect"]["command"]
    assert f"git log --oneline {commit(19)}..{commit(20)}" == detail["git_log"]
    assert [
        ("eva", "triaged", "new → bug: #7 <b>"),
        ("evaluation", "found", "regression on 2n-clx"),
    ] == [(each["user"], each["action"], each["detail"]) for each in detail["activity"]]
    assert [("all", "mail", None)] == [
        (each["alert"], each["action"], each["sent"]) for each in detail["messages"]
    ]
    assert ["all"] == [each["name"] for each in detail["alerts"]]
    page = editor.get(f"/triage/{item['id']}").text
    assert "#7 &lt;b&gt;" in page
    assert "#7 <b>" not in page


def test_item_of_another_testbed_about_the_same_commits_is_triaged_together(
    found: Nights, editor: TestClient, token: str
) -> None:
    (item,) = found.items()
    with found.store.alerts.night("3n-icx", newest_run=1, since=None) as night:
        other = night.add_item("regression", item.span, owner="", now=found.now)

    beside = editor.get(f"/triage/{item.identity}", headers=JSON).json()["beside"]

    assert [(other, "3n-icx", 1)] == [(each["id"], each["testbed"], each["version"]) for each in beside]
    page = editor.get(f"/triage/{item.identity}").text
    assert f'type="checkbox" name="item.{other}" value="1"' in page
    form = {"csrf": token, f"item.{item.identity}": 1, f"item.{other}": 1, "status": "bug", "message": "#7"}
    assert 303 == editor.post("/triage", data=form).status_code
    assert ["bug", "bug"] == [each["status"] for each in listed(editor, "/triage?status=all")]


def test_what_an_alert_would_call_two_traces_tells_them_apart() -> None:
    """What the test's name says already is not repeated."""
    names = [
        name_of(
            TraceKey.of(testbed="2n-clx", suite="x", test="64b-1c-a", metric="mrr", frame=frame, driver="avf")
        )
        for frame in ("64B", "128B")
    ]

    assert ["64b-1c-a mrr (driver=avf)", "64b-1c-a mrr (driver=avf, frame=128B)"] == names


def test_explore_gets_exactly_the_traces_of_the_item(found: Nights, client: TestClient) -> None:
    (item,) = listed(client)

    answer = client.get(f"/triage/{item['id']}/explore")

    assert 303 == answer.status_code
    fields = parse_qs(urlsplit(answer.headers["location"]).query)
    assert ["2n-clx"] == fields["testbed"]
    shown = client.get(answer.headers["location"], headers=JSON)
    assert 200 == shown.status_code
    assert 2 == len(fields["id"])
    assert all(f"test={key(test)['test']}" in " ".join(fields["id"]) for test in "ab")
    lines = shown.json()["lines"]
    assert [True, True] == [line["id"].startswith("!scale_by_mean(") for line in lines]
    assert [1.0, 1.0] == pytest.approx([statistics.mean(line["values"][:20]) for line in lines], abs=1e-5)
    assert [-0.5, 29.5] == shown.json()["zoom"]["columns"]


def test_explore_selects_a_point_of_the_plot(found: Nights, client: TestClient) -> None:
    (item,) = listed(client)
    assert f'href="/triage/{item["id"]}/explore?at=20"' in client.get(f"/triage/{item['id']}").text

    shown = client.get(client.get(f"/triage/{item['id']}/explore?at=20").headers["location"], headers=JSON)

    assert commit(20) == shown.json()["point"]["commit"]


def test_explore_opens_the_range_of_the_item(found: Nights, client: TestClient) -> None:
    (item,) = listed(client)

    shown = client.get(client.get(f"/triage/{item['id']}/explore").headers["location"], headers=JSON)

    point = shown.json()["point"]
    assert (20, 19) == (point["column"], point["since"]["column"])
    assert [commit(20)] == [each["commit"] for each in point["commits"]]


def test_item_page_draws_the_traces_around_the_change(found: Nights, client: TestClient) -> None:
    (item,) = listed(client)
    plot = client.get(f"/triage/{item['id']}", headers=JSON).json()["plot"]

    assert (2, 30, 19, 20) == (plot["traces"], len(plot["points"]), plot["last_good"], plot["first_changed"])
    assert commit(20) == plot["points"][20]["commit"]
    assert -0.1 == pytest.approx(plot["change"], abs=0.01)
    assert 0 == pytest.approx(plot["points"][19]["largest"], abs=0.02)
    assert item["size"] == pytest.approx(plot["points"][20]["largest"], abs=0.02)
    page = client.get(f"/triage/{item['id']}").text
    assert 'aria-label="Values relative to the mean before the change, on 2n-clx: ' in page
    assert "style=" not in page


def test_many_traces_are_drawn_as_quartiles(nights: Nights, client: TestClient) -> None:
    nights.tests = [f"t{number:03}" for number in range(13)]
    nights.factors = lambda _, night: 0.8 if night >= 40 else 1.0
    nights.measure(28)
    nights.store.alerts.add(Rules("many", ""), user="ann")
    nights.evaluate()
    item = max(listed(client), key=lambda each: each["traces"])
    plot = client.get(f"/triage/{item['id']}", headers=JSON).json()["plot"]

    assert (13, []) == (plot["traces"], plot["lines"])
    last = plot["points"][-1]
    assert last["low"] < last["median"] < last["high"]
    page = client.get(f"/triage/{item['id']}").text
    assert 'class="band"' in page
    assert 'class="line"' not in page


def test_values_that_end_have_no_largest_change(nights: Nights, client: TestClient) -> None:
    nights.factors = lambda test, night: None if test in "ab" and night >= 34 else 1.0
    nights.measure(10)
    nights.store.alerts.add(Rules("gaps", "", silent_runs=3), user="ann")
    nights.evaluate()
    item = next(each for each in listed(client) if each["kind"] == "silence")

    plot = client.get(f"/triage/{item['id']}", headers=JSON).json()["plot"]

    assert (2, "", None) == (plot["traces"], plot["largest"], plot["change"])
    assert [True, False] == [
        plot["points"][plot[name]]["median"] is not None for name in ("last_good", "first_changed")
    ]
    assert "range in which the values end" in client.get(f"/triage/{item['id']}").text


def test_other_testbeds_show_the_same_traces(found: Nights, client: TestClient) -> None:
    (item,) = listed(client)
    later = timedelta(hours=5)
    for number in range(MEASURED):
        started = FIRST + timedelta(days=number) + later
        # It measures the same commits, a day later.
        run = Run(
            "3n-skx", "nightly-3n-skx", number + 1, started, started, {"device": commit(max(number - 1, 0))}
        )
        value = 5e6 if number < 21 else 5.5e6
        other = TraceKey.of(**key("a").as_dict() | {"testbed": "3n-skx"})
        found.store.add(run, [Result(other, "pps", Better.HIGHER, Status.PASS, (value,), value)])

    (plot,) = client.get(f"/triage/{item['id']}", headers=JSON).json()["other_plots"]

    assert ("3n-skx", None, 1) == (plot["testbed"], plot["item"], plot["traces"])
    assert 0.1 == pytest.approx(plot["change"])
    assert [commit(19), commit(20)] == [
        plot["points"][plot[name]]["commit"] for name in ("last_good", "first_changed")
    ]
    assert "3n-skx" in client.get(f"/triage/{item['id']}").text


def test_item_says_what_its_traces_have_in_common(nights: Nights, client: TestClient) -> None:
    nights.tests = [f"{frame}-{kind}-mrr" for frame in ("64b", "imix") for kind in ("acl", "base", "nat")]
    nights.factors = lambda test, night: 0.8 if night >= 50 and "acl" in test else 1.0
    nights.measure(28)
    nights.store.alerts.add(Rules("many", ""), user="ann")
    nights.evaluate()
    item = max(listed(client), key=lambda each: each["traces"])

    common = client.get(f"/triage/{item['id']}", headers=JSON).json()["common"]

    assert {"features": ["acl in test"], "traces": 2, "others": 0, "of_others": 7} == common
    page = " ".join(client.get(f"/triage/{item['id']}").text.split())
    assert "All 2 have <code>acl in test</code>. None of the 7 other traces of 2n-clx has." in page


def test_many_traces_go_to_explore_by_a_shortcut(nights: Nights, client: TestClient) -> None:
    nights.tests = [f"t{number:03}" for number in range(60)]
    nights.factors = lambda _, night: 0.8 if night >= 50 else 1.0
    nights.measure(28)
    nights.store.alerts.add(Rules("many", ""), user="ann")
    nights.evaluate()
    item = max(listed(client), key=lambda each: each["traces"])

    answer = client.get(f"/triage/{item['id']}/explore")

    assert 60 == item["traces"]
    shown = client.get(answer.headers["location"], headers=JSON).json()
    assert 60 == len(shown["lines"])
    assert all(line["id"].startswith("!scale_by_ave(") for line in shown["lines"])
    assert [19.5, 57.5] == shown["zoom"]["columns"]


def test_permanent_address_of_a_trace_leads_to_its_plot(found: Nights, client: TestClient) -> None:
    answer = client.get(f"/traces/{key('a').hash}", follow_redirects=False)

    assert 303 == answer.status_code
    assert [",metric=mrr,test=a,testbed=2n-clx,"] == parse_qs(urlsplit(answer.headers["Location"]).query)[
        "id"
    ]
    assert 200 == client.get(answer.headers["Location"]).status_code


@pytest.mark.parametrize("commit", ["", commit(20), commit(20)[:12], "abcdef0"])
def test_permanent_address_of_a_change_leads_to_its_item(
    found: Nights, client: TestClient, commit: str
) -> None:
    (item,) = listed(client)

    answer = client.get(f"/traces/{key('a').hash}/item?commit={commit}", follow_redirects=False)

    assert (303, f"/triage/{item['id']}") == (answer.status_code, answer.headers["Location"])


def test_trace_without_an_item_leads_to_the_items_of_its_testbed(found: Nights, client: TestClient) -> None:
    answer = client.get(f"/traces/{key('c').hash}/item", follow_redirects=False)

    assert (303, "/triage?status=all&testbed=2n-clx") == (answer.status_code, answer.headers["Location"])


@pytest.mark.parametrize("path", [f"/traces/{'0' * 32}", f"/traces/{'0' * 32}/item"])
def test_trace_that_does_not_exist_is_not_found(client: TestClient, path: str) -> None:
    assert 404 == client.get(path).status_code


@pytest.mark.parametrize("path", ["/traces/x", "/traces/..%2f..", "/traces/" + "0" * 32 + "/item?commit=//x"])
def test_address_of_a_trace_is_a_hash(client: TestClient, path: str) -> None:
    answer = client.get(path, follow_redirects=False)

    assert answer.status_code in {404, 422}

"""Triage and alerts in a real browser: a morning's work, by mouse, by keys and without scripts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

from perftrend.dashboard.catalog import Catalog
from perftrend.dashboard.triage import evaluate
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store
from perftrend.store.alerts import ItemSelection, Rules, TriageEdit
from tests.integration.accessibility import violations
from tests.integration.servers import postgresql
from tests.integration.servers.dashboard import (
    ADMIN,
    EDITOR,
    USER_HEADER,
    Dashboard,
    context_of,
    opened,
    save_picture,
    widths,
)

NIGHTS = 60
TESTBEDS = ("2n-clx", "3n-icx")
FRAMES, CORES, FUNCTIONS = ("64b", "1518b", "imix"), ("1c", "2c", "4c"), ("ethip4-ip4base", "eth-l2bdbase")
CHANGES = {
    ("2n-clx", "ethip4-ip4base"): (48, 0.91),
    ("2n-clx", "eth-l2bdbase"): (36, 0.965),
    ("3n-icx", "ethip4-ip4base"): (52, 1.06),
    ("3n-icx", "eth-l2bdbase"): (55, 0.94),
}
"""From which night on the tests are slower or faster."""
PHONE = {"width": 360, "height": 740}


def fill(place: Path | str) -> None:
    """Put sixty nights with four changes and a test that stops into a store, and evaluate them."""
    noise = random.Random(5)  # noqa: S311 - noise, no secret
    first = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(days=NIGHTS, hours=2)
    with Store.open(place) as store:
        for testbed in TESTBEDS:
            for night in range(NIGHTS):
                started = first + timedelta(days=night + 1)
                run = Run(
                    testbed, f"perftrend-trending-nightly-{testbed}", night + 1, started,
                    started + timedelta(hours=1), {"device": f"{night * 7919 + 1:040x}"[::-1]},
                )  # fmt: skip
                store.add(run, results(testbed, night, noise))
        rules = Rules("Everything that forwards", "", change=0.02, silent_runs=3, owner="vpp-team")
        store.alerts.add(rules, user=EDITOR)
        for testbed in TESTBEDS:
            evaluate(store, Catalog(store), testbed)


def results(testbed: str, night: int, noise: random.Random) -> list[Result]:
    found = []
    for frame in FRAMES:
        for cores in CORES:
            for function in FUNCTIONS:
                test = f"{frame}-{cores}-{function}-mrr"
                if (testbed, frame, cores) == ("3n-icx", "imix", "4c") and night >= 56:
                    continue
                start, factor = CHANGES[testbed, function]
                usual = 8e6 * (1 + CORES.index(cores)) * (factor if night >= start else 1.0)
                value = usual * noise.gauss(1.0, 0.004)
                key = TraceKey.of(testbed=testbed, test=test, frame=frame, cores=cores, metric="mrr")
                found.append(Result(key, "pps", Better.HIGHER, Status.PASS, (value,), value))
    return found


@pytest.fixture(scope="module")
def triaging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """Run a dashboard with something to triage."""
    folder = tmp_path_factory.mktemp("triage")
    fill(folder / "store.sqlite")
    with Dashboard(folder) as dashboard:
        yield dashboard


@pytest.fixture(autouse=True)
def untouched(triaging: Dashboard) -> None:
    """Let every test begin with the items as they were found."""
    make_new(triaging)


def make_new(dashboard: Dashboard) -> None:
    with Store.open(dashboard.store) as store:
        items = store.alerts.items.select(ItemSelection(), limit=100)[0]
        store.alerts.items.triage(
            [
                TriageEdit(item.identity, item.version, "new", "", "vpp-team")
                for item in items
                if item.merged_into is None
            ],
            user="x",
        )


def statuses(page: Page) -> Locator:
    return page.locator("tr.item [data-status]")


def test_morning_shows_what_matters_first(browser: Browser, triaging: Dashboard) -> None:
    with opened(browser, triaging, "/triage", user=EDITOR, viewport={"width": 1440, "height": 900}) as page:
        save_picture(page, "triage")
        kinds = page.locator("tr.kind th").all_inner_texts()

        assert ["Regressions", "Progressions", "Missing"] == [text.split()[0] for text in kinds]
        expect(page.locator("tr.item").first).to_contain_text("3n-icx")
        assert page.locator("svg.spark").count() == page.locator("tr.item").count()


@pytest.mark.parametrize("path", ["/triage", "/triage/1", "/alerts", "/alerts/1"])
def test_nothing_stands_in_the_way_of_anybody(browser: Browser, triaging: Dashboard, path: str) -> None:
    with opened(browser, triaging, path, user=EDITOR) as page:
        save_picture(page, path.strip("/").replace("/", "-"))
        assert [] == violations(page)


@pytest.mark.parametrize("path", ["/triage", "/triage/1", "/alerts", "/alerts/1"])
def test_page_fits_a_narrow_window(browser: Browser, triaging: Dashboard, path: str) -> None:
    with opened(browser, triaging, path, user=EDITOR, viewport=PHONE) as page:
        save_picture(page, f"{path.strip('/').replace('/', '-')}-narrow")
        wide, window = widths(page)

    assert wide <= window


def test_two_hundred_items_are_triaged_by_keys(browser: Browser, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.sqlite") as store:
        add_items(store, 200)
    with Dashboard(tmp_path) as dashboard, opened(browser, dashboard, "/triage", user=EDITOR) as page:
        for left in (200, 150, 100, 50):
            expect(page.locator("[data-count=new]")).to_have_text(str(left))
            page.keyboard.press("j")
            for _ in range(50):
                number = page.locator("tr.just-edited").count()
                page.keyboard.press("i")
                expect(page.locator("tr.just-edited")).to_have_count(number + 1)
            page.keyboard.press("n")
        expect(page.locator("[data-count=new]")).to_have_text("0")
        expect(page.locator("[data-count=ignored]")).to_have_text("200")


def add_items(store: Store, number: int) -> None:
    """Store a testbed for each item, whose only test becomes slower."""
    first = datetime.now(UTC).replace(microsecond=0) - timedelta(days=30)

    def night(testbed: str, build: int) -> tuple[Run, list[Result]]:
        started = first + timedelta(days=build)
        run = Run(testbed, "nightly", build + 1, started, started, {"device": f"{build + 1:040x}"})
        value = (7e6 if build >= 20 else 8e6) * (1 + 0.001 * (build % 3))
        key = TraceKey.of(testbed=testbed, test="64b-1c-ethip4-ip4base-mrr", metric="mrr")
        return run, [Result(key, "pps", Better.HIGHER, Status.PASS, (value,), value)]

    testbeds = [f"2n-{name:03}" for name in range(number)]
    store.add_all(night(testbed, build) for testbed in testbeds for build in range(30))
    store.alerts.add(Rules("Everything", "", change=0.05), user=EDITOR)
    catalog = Catalog(store)
    for testbed in testbeds:
        evaluate(store, catalog, testbed)


def test_triage_by_keys(browser: Browser, triaging: Dashboard) -> None:
    with opened(browser, triaging, "/triage", user=EDITOR) as page:
        number = page.locator("tr.item").count()
        page.keyboard.press("j")
        page.keyboard.press("i")
        expect(statuses(page).first).to_have_text("ignored")
        page.keyboard.press("b")
        page.keyboard.type("#4711")
        page.keyboard.press("Enter")
        expect(statuses(page).nth(1)).to_have_text("bug")
        save_picture(page, "triage-by-keys")

        expect(statuses(page)).to_have_text(["ignored", "bug", *["new"] * (number - 2)])
        expect(page.locator("tr.item [data-reason]").nth(1)).to_have_text("#4711")
        expect(page.locator("[data-count=new]")).to_have_text(str(number - 2))
        page.keyboard.press("u")
        expect(statuses(page).nth(1)).to_have_text("new")
        page.keyboard.press("u")
        expect(statuses(page).first).to_have_text("new")
        page.keyboard.press("u")
        expect(page.locator("[data-problem]")).to_have_text("There is nothing to undo.")


def test_several_items_are_closed_together(browser: Browser, triaging: Dashboard) -> None:
    with opened(browser, triaging, "/triage", user=EDITOR) as page:
        number = page.locator("tr.item").count()
        page.keyboard.press("j")
        page.keyboard.press("x")
        page.keyboard.press("j")
        page.keyboard.press("x")
        page.keyboard.press("c")
        expect(page.locator("[data-undo-text]")).to_have_text("2 items closed.")

        expect(statuses(page)).to_have_text(["closed", "closed", *["new"] * (number - 2)])
        page.get_by_role("button", name="Undo").click()
        expect(statuses(page)).to_have_text(["new"] * number)


def test_items_are_snoozed_and_assigned_by_keys(browser: Browser, triaging: Dashboard) -> None:
    with opened(browser, triaging, "/triage", user=EDITOR) as page:
        page.keyboard.press("j")
        page.keyboard.press("s")
        page.keyboard.press("Enter")
        expect(statuses(page).first).to_have_text("snoozed")
        expect(page.locator("tr.item [data-snooze]").first).to_contain_text(f"/{NIGHTS + 1}")
        expect(page.locator("[data-count=snoozed]")).to_have_text("1")
        page.keyboard.press("s")
        page.keyboard.type("7 days")
        page.keyboard.press("Enter")
        expect(page.locator("tr.item [data-snooze]").nth(1)).to_contain_text("until 20")
        page.keyboard.press("a")
        page.keyboard.press("Enter")
        expect(page.locator("tr.item [data-owner]").nth(2)).to_have_text(EDITOR)
        save_picture(page, "triage-snoozed")
        page.keyboard.press("u")
        expect(page.locator("tr.item [data-owner]").nth(2)).to_have_text("vpp-team")
        page.keyboard.press("u")
        expect(statuses(page).nth(1)).to_have_text("new")
        page.keyboard.press("u")
        expect(statuses(page).first).to_have_text("new")
        expect(page.locator("tr.item [data-snooze]").first).to_be_empty()


def test_wrong_until_is_shown_on_the_page(browser: Browser, triaging: Dashboard) -> None:
    # The browser's own console complains of a 400.
    with context_of(browser, triaging, user=EDITOR) as context:
        page = context.new_page()
        page.goto("/triage")
        page.keyboard.press("j")
        page.keyboard.press("s")
        page.keyboard.type("never")
        with page.expect_response(lambda answer: answer.status == 400):
            page.keyboard.press("Enter")
        expect(page.locator("[data-problem]")).to_contain_text("next run")
        expect(page.get_by_label("Until")).to_have_value("never")


def test_items_are_snoozed_without_scripts(browser: Browser, triaging: Dashboard) -> None:
    with opened(browser, triaging, "/triage", user=EDITOR, java_script_enabled=False) as page:
        number = page.locator("tr.item").count()
        page.locator("tr.item input[type=checkbox]").first.check()
        page.get_by_role("button", name="Snooze").click()
        expect(page.locator("tr.item")).to_have_count(number - 1)
        page.get_by_role("link", name="Snoozed 1").click()
        expect(page.locator("tr.item [data-snooze]")).to_contain_text(f"/{NIGHTS + 1}")
        page.get_by_role("link", name="My items").click()
        expect(page.get_by_role("link", name="Open")).to_have_attribute("aria-current", "page")


def test_help_tells_the_keys(browser: Browser, triaging: Dashboard) -> None:
    with opened(browser, triaging, "/triage", user=EDITOR) as page:
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
        save_picture(page, "triage-help")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_hidden()


def test_who_is_later_sees_who_was_faster(browser: Browser, triaging: Dashboard) -> None:
    # The browser's own console complains of a 409.
    with context_of(browser, triaging, user=EDITOR) as context:
        page = context.new_page()
        page.goto("/triage")
        with opened(browser, triaging, "/triage", user="ada") as other:
            other.keyboard.press("j")
            other.keyboard.press("c")
            expect(statuses(other).first).to_have_text("closed")
        page.keyboard.press("j")
        with page.expect_response(lambda answer: answer.status == 409):
            page.keyboard.press("i")
        expect(page.locator("[data-problem]")).to_contain_text("ada set item")
        expect(statuses(page).first).to_have_text("closed")


def test_triage_without_scripts(browser: Browser, triaging: Dashboard) -> None:
    with opened(browser, triaging, "/triage", user=EDITOR, java_script_enabled=False) as page:
        number = page.locator("tr.item").count()
        page.locator("tr.item input[type=checkbox]").first.check()
        page.get_by_label("Message").fill("#12")
        page.get_by_role("button", name="Bug").click()
        expect(page.get_by_text("1 item changed.")).to_be_visible()
        save_picture(page, "triage-without-scripts")
        page.get_by_role("link", name="Bug 1").click()
        expect(statuses(page)).to_have_text(["bug"])
        page.go_back()
        page.get_by_role("button", name="Undo").click()
        expect(statuses(page)).to_have_text(["new"] * number)
        expect(page.get_by_text("1 item changed.")).to_be_visible()


def test_item_leads_on(browser: Browser, triaging: Dashboard) -> None:
    with opened(browser, triaging, "/triage", user=EDITOR) as page:
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Find the commit")).to_be_visible()
        expect(page.get_by_text("bisecttest-3n-icx")).to_be_visible()
        page.get_by_role("link", name="Explore these traces").click()
        page.wait_for_url(lambda url: "/explore?testbed=3n-icx" in url)


@pytest.mark.parametrize("viewport", [{"width": 1440, "height": 900}, {"width": 390, "height": 844}])
def test_item_shows_the_change_without_scripts(
    browser: Browser, triaging: Dashboard, viewport: ViewportSize
) -> None:
    with opened(browser, triaging, "/triage/1", viewport=viewport, java_script_enabled=False) as page:
        plot = page.get_by_role("img", name="Values relative to the mean before the change, on 2n-clx")
        expect(plot).to_be_visible()
        area, shade, label = (
            box_of(plot.locator(each)) for each in ("svg.area", ".range", ".labels text >> nth=1")
        )
        largest = box_of(plot.locator("path.largest"))
        other = page.get_by_role("img", name="The same traces on 3n-icx")
        expect(other).to_be_visible()
        page.get_by_text("Values of the plot").click()
        first = page.get_by_role("row").filter(has_text="first changed")
        expect(first).to_contain_text("\N{MINUS SIGN}")
        first.get_by_role("link").click()

        assert area["x"] < shade["x"] < shade["x"] + shade["width"] < area["x"] + area["width"]
        assert area["x"] <= largest["x"] < largest["x"] + largest["width"] <= area["x"] + area["width"]
        assert shade["x"] + shade["width"] / 2 == pytest.approx(label["x"] + label["width"] / 2, abs=2)
        expect(page.get_by_role("heading", level=1)).to_be_attached()
        assert "/explore?testbed=2n-clx" in page.url


def box_of(locator: Locator) -> dict[str, float]:
    box = locator.bounding_box()
    assert box is not None
    return {"x": box["x"], "width": box["width"]}


def test_explore_opens_the_part_of_the_plot(browser: Browser, triaging: Dashboard) -> None:
    with opened(browser, triaging, "/triage/1", user=EDITOR) as page:
        page.get_by_role("link", name="Explore these traces").click()
        page.wait_for_function("document.querySelector('.js-plotly-plot')?._fullLayout?.xaxis?.range")
        low, high = page.evaluate("document.querySelector('.js-plotly-plot')._fullLayout.xaxis.range")
        shaded = page.evaluate(
            "document.querySelector('.js-plotly-plot').layout.shapes"
            ".filter(({ type }) => type === 'rect').map(({ x0, x1 }) => [x0, x1])"
        )
        title = page.evaluate("document.querySelector('.js-plotly-plot').layout.yaxis.title.text")
        save_picture(page, "triage-1-explore")

    # The change is at column 36 of 60, with 30 columns on each side of the range.
    assert (5.5, 59.5) == (low, high)
    assert [[35, 36]] == shaded
    assert "multiple of the given mean" == title


def test_viewer_reads_and_changes_nothing(browser: Browser, triaging: Dashboard) -> None:
    with opened(browser, triaging, "/triage") as page:
        assert 0 == page.locator("main input[type=checkbox], main button[value]").count()
        page.keyboard.press("j")
        page.keyboard.press("i")
        assert {"new"} == set(statuses(page).all_inner_texts())


def test_alert_is_made_tried_and_deleted(browser: Browser, triaging: Dashboard) -> None:
    with opened(browser, triaging, "/alerts", user=EDITOR) as page:
        page.get_by_text("Create an alert").click()
        page.get_by_label("Name").fill("IPv4 only")
        page.get_by_label("Query").fill("test=~ip4base")
        page.get_by_label("State").select_option("off")
        save_picture(page, "alerts-make")
        page.get_by_role("button", name="Create alert").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("IPv4 only")
        page.locator("form[action$=dry-run] select").select_option("2n-clx")
        page.get_by_role("button", name="Start dry run").click()
        expect(page.get_by_text("Nothing was sent.")).to_be_visible()
        save_picture(page, "alerts-dry-run")
        expect(page.locator("tbody tr").first).to_be_visible()
        page.get_by_role("link", name="IPv4 only").click()
        page.get_by_role("button", name="Delete alert").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Alerts")
        expect(page.get_by_role("link", name="IPv4 only")).to_have_count(0)


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, postgresql_server: postgresql.Server
) -> Iterator[Dashboard]:
    """Run a dashboard on PostgreSQL, as a team does."""
    url = postgresql_server.database()
    fill(url)
    with Dashboard(tmp_path_factory.mktemp("shared"), store=url) as dashboard:
        yield dashboard


@pytest.fixture(params=["triaging", "shared"], ids=["sqlite", "postgresql"])
def crowded(request: pytest.FixtureRequest) -> Dashboard:
    """Give a dashboard whose items many people triage at once."""
    dashboard: Dashboard = request.getfixturevalue(request.param)
    make_new(dashboard)
    return dashboard


class Person:
    """Somebody who triages by programs."""

    def __init__(self, dashboard: Dashboard, name: str) -> None:
        self.name = name
        self._url = f"{dashboard.url}/triage"
        self._headers = {USER_HEADER: name, "Accept": "application/json"}
        page = requests.get(self._url, headers={USER_HEADER: name}, timeout=60).text
        self._token = page.split('name="csrf" value="', 1)[1].split('"', 1)[0]

    def sees(self, item: int | str = "?status=all") -> Any:
        separator = "" if isinstance(item, str) else "/"
        return requests.get(f"{self._url}{separator}{item}", headers=self._headers, timeout=60).json()

    def says(self, items: dict[int, int], status: str, message: str) -> requests.Response:
        body = {"items": items, "status": status, "message": message}
        headers = {**self._headers, "X-CSRF-Token": self._token}
        return requests.post(self._url, json=body, headers=headers, timeout=60)


def test_of_all_who_triage_an_item_at_once_one_is_first_and_all_others_are_told(crowded: Dashboard) -> None:
    people = [Person(crowded, name) for name in (EDITOR, ADMIN)]
    item = people[0].sees()["items"][0]
    number = item["id"]

    def say(turn: int) -> tuple[str, requests.Response]:
        person = people[turn % 2]
        return f"{person.name} {turn}", person.says({number: item["version"]}, "bug", f"{person.name} {turn}")

    with ThreadPoolExecutor(12) as pool:
        answers = dict(pool.map(say, range(12)))

    [winner] = [message for message, answer in answers.items() if answer.status_code == 200]
    refused = [answer for answer in answers.values() if answer.status_code == 409]
    assert 11 == len(refused)
    now = people[0].sees(number)
    assert ("bug", winner, item["version"] + 1) == tuple(
        now["item"][name] for name in ("status", "message", "version")
    )
    who, when = winner.split()[0], now["item"]["changed"][:19].replace("T", " ")
    assert {f"nothing was changed: {who} set item {number} to bug at {when} UTC"} == {
        answer.json()["error"] for answer in refused
    }
    assert {winner} == {answer.json()["items"][0]["message"] for answer in refused}
    wanted = {f"new → bug: {message}" for message in answers}
    assert [f"new → bug: {winner}"] == [
        each["detail"] for each in now["activity"] if each["detail"] in wanted
    ]


def test_one_stale_item_among_many_keeps_all_as_they_were(crowded: Dashboard) -> None:
    ann, ada = (Person(crowded, name) for name in (EDITOR, ADMIN))
    seen = {item["id"]: item["version"] for item in ann.sees()["items"]}
    stale = max(seen)
    assert 200 == ada.says({stale: seen[stale]}, "ignored", "noise").status_code

    late = ann.says(seen, "closed", "done")

    assert 409 == late.status_code
    assert [(stale, "ignored", "noise", ADMIN)] == [
        tuple(each[name] for name in ("id", "status", "message", "changed_by"))
        for each in late.json()["items"]
    ]
    assert {"new": len(seen) - 1, "ignored": 1} == {
        status: count for status, count in ann.sees()["counts"].items() if count
    }
    fresh = {item["id"]: item["version"] for item in ann.sees()["items"]}
    assert 200 == ann.says(fresh, "closed", "done").status_code
    assert {"closed"} == {item["status"] for item in ann.sees()["items"]}


def test_items_are_merged_and_separated_by_keys(browser: Browser, triaging: Dashboard) -> None:
    with opened(browser, triaging, "/triage?testbed=2n-clx", user=EDITOR) as page:
        regressions = page.locator("tbody.regression tr.item")
        for _ in range(2):
            page.keyboard.press("j")
            page.keyboard.press("x")
        page.keyboard.press("m")
        expect(page.locator("[data-undo-text]")).to_have_text("2 items merged.")
        expect(regressions.locator("[data-status]")).to_have_text(["closed", "new"])
        expect(regressions.locator("[data-traces]").nth(1)).to_have_text("18")
        save_picture(page, "triage-merged")
        page.keyboard.press("u")
        expect(regressions.locator("[data-status]")).to_have_text(["new", "new"])
        expect(regressions.locator("[data-traces]")).to_have_text(["9", "9"])


def test_traces_are_split_off_without_scripts(browser: Browser, triaging: Dashboard) -> None:
    with opened(browser, triaging, "/triage/1", user=EDITOR, java_script_enabled=False) as page:
        page.get_by_label("Select 64b-1c-eth-l2bdbase-mrr").check()
        save_picture(page, "triage-split")
        page.get_by_role("button", name="Split the selected traces off").click()
        expect(page.get_by_text("Split off from item 1.")).to_be_visible()
        expect(page.locator("[aria-labelledby=traces] tbody tr")).to_have_count(1)
        page.get_by_role("button", name="Merge again").click()
        expect(page.locator("[aria-labelledby=traces] tbody tr")).to_have_count(9)
        page.get_by_text("Merged into this item").get_by_role("link").click()
        expect(page.get_by_role("button", name="Undo the merge")).to_be_visible()
        save_picture(page, "triage-merged-item")

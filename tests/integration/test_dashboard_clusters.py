"""Clusters in a real browser: found on demand, triaged by keys, by forms, by several at once and by two."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from perftrend.dashboard import AppContext
from perftrend.dashboard.clusters.clustering import ClusteringWorker
from perftrend.dashboard.clusters.models import ClusterOptions
from perftrend.settings import Settings
from perftrend.store import Store
from perftrend.store.clusterings import ClusteringState
from tests.integration.accessibility import violations
from tests.integration.servers import postgresql
from tests.integration.servers.dashboard import (
    ADMIN,
    EDITOR,
    SIGNING_IN,
    Dashboard,
    context_of,
    fill,
    opened,
    save_picture,
    widths,
)

TESTBED = "2n-clx"
PHONE = {"width": 360, "height": 740}
SETTINGS = {**SIGNING_IN, "cluster_period_s": None}
PATIENCE_S = 300


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    folder = tmp_path_factory.mktemp("clusters")
    fill(folder / "store.sqlite")
    with Dashboard(folder, settings=SETTINGS) as running:
        yield running


@pytest.fixture
def empty(dashboard: Dashboard) -> Dashboard:
    """Run a dashboard that knows no cluster."""
    with Store.open(dashboard.store) as store:
        store.clusters.reset(None, except_status="nothing", user="the test")
    return dashboard


@pytest.fixture
def found(empty: Dashboard) -> Dashboard:
    """Run a dashboard that knows three clusters: each of nine traces makes one, and three have the step."""
    with Store.open(empty.store) as store:
        store.clusterings.request(TESTBED, ClusterOptions().model_dump(), "the test")
        # The dashboard may be faster; then it is done in a moment.
        while (
            not ClusteringWorker(AppContext.of(Settings(), store)).work_once() and not store.clusters.select()
        ):
            time.sleep(0.05)
    return empty


def items(page: Page) -> Locator:
    return page.locator("li.cluster")


def statuses(page: Page) -> Locator:
    return page.locator("[data-status]")


def ask_and_see(page: Page) -> None:
    page.goto("/clusters")
    page.get_by_label("Newest commits").fill("60")
    page.get_by_role("combobox", name="Testbed").nth(1).select_option(TESTBED)
    save_picture(page, "clusters-empty")
    page.get_by_role("button", name="Cluster", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Clustering of {TESTBED}")
    expect(page.locator("#state")).to_contain_text("Done")
    save_picture(page, "clustering")
    page.get_by_role("link", name=f"Clusters of {TESTBED}").click()
    save_picture(page, "clusters-found")
    expect(items(page)).to_have_count(3)
    expect(items(page).first.locator("h2")).to_contain_text("regression")
    # Before that, no key does anything.
    page.wait_for_load_state("load")


def test_clustering_is_asked_for_and_its_progress_seen(browser: Browser, empty: Dashboard) -> None:
    with opened(browser, empty, user=EDITOR) as page:
        ask_and_see(page)


def test_clustering_works_without_scripts(browser: Browser, empty: Dashboard) -> None:
    """The page of the progress loads itself again until it is done."""
    with opened(browser, empty, user=EDITOR, java_script_enabled=False) as page:
        ask_and_see(page)


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_clustering_that_runs_is_cancelled(browser: Browser, empty: Dashboard, *, scripts: bool) -> None:
    with (
        Store.open(empty.store) as store,
        opened(browser, empty, user=EDITOR, java_script_enabled=scripts) as page,
    ):
        # Run by somebody who never ends; the dashboard may be faster, and is done in a moment then.
        while True:
            store.clusterings.request(TESTBED, ClusterOptions().model_dump(), "the test")
            if task := store.clusterings.claim(datetime.now(UTC)):
                break
            time.sleep(0.05)
        store.clusterings.beat(task, "iteration 3, total error 17", datetime.now(UTC))
        page.goto("/clusters")
        expect(page.get_by_text("a clustering is in progress (iteration 3, total error 17).")).to_be_visible()
        page.get_by_role("link", name="Progress").click()
        save_picture(page, "clustering-runs")

        page.get_by_role("button", name=f"Cancel the clustering of {TESTBED}").click()

        expect(page.locator("#state")).to_have_text(f"Cancelled: {EDITOR} has cancelled it.")
        assert not store.clusterings.beat(task, "iteration 4", datetime.now(UTC))
        save_picture(page, "clustering-cancelled")


def test_all_of_it_works_on_postgresql(
    browser: Browser, tmp_path: Path, postgresql_server: postgresql.Server
) -> None:
    url = postgresql_server.database()
    fill(url)
    with (
        Dashboard(tmp_path, settings=SETTINGS, store=url) as dashboard,
        opened(browser, dashboard, user=EDITOR) as page,
    ):
        ask_and_see(page)
        page.keyboard.press("j")
        page.keyboard.press("i")
        expect(statuses(page).first).to_have_text("Ignore")
        page.goto(f"/clusters/reset?testbed={TESTBED}")
        page.get_by_label("Delete 3").check()
        page.get_by_role("button", name="Reset").click()
        expect(page.get_by_role("status").first).to_have_text("3 deleted.")


def test_two_processes_on_one_store_cluster_each_testbed_once(tmp_path: Path) -> None:
    fill(tmp_path / "store.sqlite")
    both = [
        Dashboard(folder, store=str(tmp_path / "store.sqlite")) for folder in (tmp_path / "a", tmp_path / "b")
    ]
    with Store.open(tmp_path / "store.sqlite") as store, ExitStack() as stack:
        for each in both:
            each.folder.mkdir()
            stack.enter_context(each)
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and 2 > sum(
            task.state is ClusteringState.DONE for task in store.clusterings.all()
        ):
            time.sleep(0.2)
        # The other one has looked by then, too.
        time.sleep(5)
        ended = [(task.testbed, task.state) for task in store.clusterings.all()]

    assert [(TESTBED, ClusteringState.DONE), ("3n-skx", ClusteringState.DONE)] == ended
    said = "\n".join(line for each in both for line in each.said)
    assert [1, 1] == [said.count(f"clustering of {testbed}:") for testbed in (TESTBED, "3n-skx")], said


def test_clusters_are_triaged_by_keys(browser: Browser, found: Dashboard) -> None:
    with opened(browser, found, "/clusters", user=EDITOR) as page:
        for key in ("j", "i", "j", "b"):
            page.keyboard.press(key)
        page.keyboard.type("4711: jikbn")
        page.keyboard.press("Enter")
        expect(statuses(page).nth(1)).to_have_text("Bug")
        page.keyboard.press("j")
        page.keyboard.press("i")
        expect(statuses(page).nth(2)).to_have_text("Ignore")
        page.keyboard.press("n")
        expect(statuses(page).nth(2)).to_have_text("New")
        expect(page.locator("[data-count]")).to_have_text(["1", "1", "1"])
        save_picture(page, "clusters-triaged")

        page.reload()

        expect(statuses(page)).to_have_text(["Ignore", "Bug", "New"])
        expect(page.locator("[data-message]").nth(1)).to_have_text("4711: jikbn")
        expect(items(page).nth(1)).to_contain_text(EDITOR)


def test_several_are_triaged_together_by_keys(browser: Browser, found: Dashboard) -> None:
    with opened(browser, found, "/clusters", user=EDITOR) as page:
        for key in ("j", "x", "j", "x"):
            page.keyboard.press(key)
        expect(page.locator("[data-chosen]")).to_have_text("2")
        save_picture(page, "clusters-chosen")
        page.keyboard.press("i")
        expect(statuses(page).nth(1)).to_have_text("Ignore")

        page.reload()

        expect(statuses(page)).to_have_text(["Ignore", "Ignore", "New"])


def test_clusters_are_triaged_without_scripts(browser: Browser, found: Dashboard) -> None:
    with opened(browser, found, "/clusters", user=EDITOR, java_script_enabled=False) as page:
        page.get_by_label(re.compile("Select cluster")).nth(0).check()
        page.get_by_label(re.compile("Select cluster")).nth(2).check()
        page.get_by_role("button", name="Save selected").click()
        expect(statuses(page)).to_have_text(["Ignore", "New", "Ignore"])

        form = page.locator("[data-triage]").nth(1)
        form.get_by_label("Status").select_option("Bug")
        form.get_by_label("Message").fill("4711")
        form.get_by_role("button").click()

        expect(statuses(page)).to_have_text("Bug")
        expect(page.locator("main")).to_contain_text("New → Bug: 4711")
        save_picture(page, "cluster-without-scripts")


def test_second_of_two_people_is_told(browser: Browser, found: Dashboard) -> None:
    with (
        context_of(browser, found, user=EDITOR) as hers,
        context_of(browser, found, user=ADMIN) as his,
    ):
        ann, ada = hers.new_page(), his.new_page()
        ann.goto("/clusters")
        ada.goto("/clusters")
        first = ann.locator("[data-triage]").first
        first.get_by_label("Message").fill("4711")
        first.get_by_label("Status").select_option("Bug")
        first.get_by_role("button").click()
        expect(statuses(ann).first).to_have_text("Bug")

        second = ada.locator("[data-triage]").first
        second.get_by_label("Status").select_option("Ignore")
        second.get_by_label("Message").fill("noise")
        second.get_by_role("button").click()

        expect(ada.get_by_role("alert")).to_contain_text(f"{EDITOR} set cluster")
        expect(statuses(ada).first).to_have_text("Bug")
        expect(second.get_by_label("Message")).to_have_value("noise")
        save_picture(ada, "clusters-conflict")
        second.get_by_role("button").click()
        expect(statuses(ada).first).to_have_text("Ignore")


def test_second_of_two_people_is_told_without_scripts(browser: Browser, found: Dashboard) -> None:
    with (
        context_of(browser, found, user=EDITOR, java_script_enabled=False) as hers,
        context_of(browser, found, user=ADMIN, java_script_enabled=False) as his,
    ):
        pages = [hers.new_page(), his.new_page()]
        for page in pages:
            page.goto("/clusters")
        for page, message in zip(pages, ("4711", "noise"), strict=True):
            form = page.locator("[data-triage]").first
            form.get_by_label("Message").fill(message)
            form.get_by_role("button").click()
            # The one is done before the other begins.
            expect(page.locator("main")).to_contain_text("4711")

        expect(pages[1].get_by_role("heading", level=1)).to_have_text("Someone else changed this")
        expect(pages[1].get_by_label("Message")).to_have_value("noise")
        save_picture(pages[1], "clusters-conflict-without-scripts")
        pages[1].get_by_role("button", name="Save").click()
        expect(pages[1].locator("[data-message]").first).to_have_text("noise")


def test_viewer_gets_no_forms(browser: Browser, found: Dashboard) -> None:
    with opened(browser, found, "/clusters") as page:
        expect(items(page)).to_have_count(3)
        page.keyboard.press("j")
        page.keyboard.press("i")
        expect(page.locator("main form[method=post]")).to_have_count(0)
        expect(statuses(page)).to_have_text(["New"] * 3)


def test_nothing_stands_in_the_way_of_anybody(browser: Browser, found: Dashboard) -> None:
    with opened(browser, found, "/clusters", user=EDITOR) as page:
        page.locator("li.cluster summary").first.click()
        save_picture(page, "clusters")
        assert [] == violations(page)
        items(page).first.locator("h2 a").click()
        expect(page.locator("#activity")).to_be_visible()
        save_picture(page, "cluster")
        assert [] == violations(page)
        page.goto(f"/clusters/reset?testbed={TESTBED}")
        assert [] == violations(page)


def test_clusters_fit_a_narrow_window(browser: Browser, found: Dashboard) -> None:
    with opened(browser, found, "/clusters", user=EDITOR, viewport=PHONE) as page:
        for summary in page.locator("main summary").all():
            summary.click()
        save_picture(page, "clusters-narrow")
        wide, window = widths(page)
        assert wide <= window
        items(page).first.locator("h2 a").click()
        expect(page.locator("#members")).to_be_visible()
        save_picture(page, "cluster-narrow")
        wide, window = widths(page)
        assert wide <= window


def test_traces_of_a_cluster_are_explored(browser: Browser, found: Dashboard) -> None:
    with opened(browser, found, "/clusters") as page:
        page.get_by_role("link", name="Explore traces").first.click()
        page.wait_for_url(lambda url: urlsplit(url).path == "/explore", wait_until="networkidle")
        save_picture(page, "clusters-explored")

        expect(page.locator("main")).to_contain_text("64b-1c-ethip4-ip4base")

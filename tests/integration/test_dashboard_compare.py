"""Comparing and annotating in a real browser."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from perftrend.archive import patch_report
from perftrend.report.perftest import PerftestSubject, document
from perftrend.store import Store
from tests.integration.accessibility import violations
from tests.integration.servers.dashboard import (
    EDITOR,
    PATIENCE_MS,
    Dashboard,
    context_of,
    fill,
    opened,
    save_picture,
    widths,
)
from tests.unit.dashboard.conftest import RUNS, STEP, TESTBEDS, TESTS, commit
from tests.unit.report.perftest.reports import compared

JOB = "perftrend-perftest-2n-clx"
TABLE = f"/compare?vertical=testbed&left={TESTBEDS[0]}&right={TESTBEDS[1]}"
WORSE = "▼\N{MINUS SIGN}1"
PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """Run a dashboard whose store has per-patch tests, and no archive."""
    folder = tmp_path_factory.mktemp("compare")
    fill(folder / "store.sqlite")
    store_patch_test(folder, 7)
    with Dashboard(folder) as running:
        yield running


def store_patch_test(folder: Path, build: int, *, rounds: int = 8, ended: bool = True) -> None:
    """Put a per-patch test into the store of a dashboard, as ``./run ingest`` does."""
    report = compared(
        {f"{TESTS[0]} mrr": (10e6, 9e6), f"{TESTS[1]} mrr": (20e6, 20e6)}, number=rounds,
        subject=PerftestSubject(TESTBEDS[0], "a" * 40, "b" * 40, change=1234, patch_set=3),
    )  # fmt: skip
    content = json.dumps(document(report) | {"ended": ended}).encode()
    test, traces = patch_report.parse(content, job=JOB, build=build, name="report")
    with Store.open(folder / "store.sqlite") as store:
        assert store.patch_tests.add(test, traces)


def rows(page: Page) -> Locator:
    return page.locator(".ratios tbody th")


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_two_testbeds_are_compared_step_by_step(
    browser: Browser, dashboard: Dashboard, scripts: bool
) -> None:
    with opened(browser, dashboard, "/compare", java_script_enabled=scripts) as page:
        page.get_by_label("Traces").fill("metric=mrr&metric=ndr")
        page.get_by_label("Parameter").select_option("testbed")
        page.get_by_role("button", name="Show values").click()
        page.get_by_label("Left").select_option(TESTBEDS[0])
        page.get_by_label("Right").select_option(TESTBEDS[1])
        page.get_by_role("button", name="Compare").click()

        expect(page.get_by_role("row").nth(1)).to_contain_text(TESTS[0])
        expect(page.get_by_role("row").nth(1)).to_contain_text(WORSE)
        expect(page.locator("main")).to_contain_text("worse in 2")
        save_picture(page, "compare")


def test_table_stands_in_nobodys_way(browser: Browser, dashboard: Dashboard) -> None:
    with opened(browser, dashboard, TABLE) as page:
        assert [] == violations(page)
        page.goto(f"{TABLE}&row={TESTS[0]}")
        save_picture(page, "compare-row")
        assert [] == violations(page)


def test_wide_table_scrolls_in_itself_and_by_keyboard(browser: Browser, dashboard: Dashboard) -> None:
    with opened(browser, dashboard, TABLE, viewport=PHONE) as page:
        save_picture(page, "compare-narrow")
        wide, window = widths(page)
        assert wide <= window
        region = page.get_by_role("region", name=re.compile("compared with"))
        region.focus()
        page.keyboard.press("ArrowRight")
        # Our policy forbids what the browser's own way of waiting does.
        end = time.monotonic() + PATIENCE_MS / 1000
        while not region.evaluate("each => each.scrollLeft"):
            assert time.monotonic() < end
            page.wait_for_timeout(20)


def test_columns_sort_by_keyboard(browser: Browser, dashboard: Dashboard) -> None:
    with opened(browser, dashboard, TABLE) as page:
        expect(rows(page)).to_have_text([TESTS[0]])
        page.get_by_role("link", name="show them").click()
        expect(rows(page).first).to_have_text(TESTS[0])
        page.get_by_role("columnheader", name="Test").get_by_role("link").focus()
        page.keyboard.press("Enter")
        expect(page.locator("[aria-sort]")).to_contain_text("Test")
        expect(rows(page)).to_have_text(sorted(TESTS))
        page.get_by_role("columnheader", name="mrr").get_by_role("link").click()
        expect(page.locator("[aria-sort=descending]")).to_contain_text("mrr")
        expect(rows(page).first).to_have_text(TESTS[0])
        page.get_by_role("columnheader", name="mrr").get_by_role("link").click()
        expect(page.locator("[aria-sort=ascending]")).to_contain_text("mrr")
        expect(rows(page).last).to_have_text(TESTS[0])


def test_row_leads_to_its_plots(browser: Browser, dashboard: Dashboard) -> None:
    with opened(browser, dashboard, TABLE) as page:
        page.get_by_role("link", name=TESTS[0]).click()
        expect(page.locator(".ratios")).to_contain_text(commit(RUNS - 1)[:12])
        page.get_by_role("link", name="Explore both").first.click()
        page.wait_for_url(lambda url: urlsplit(url).path == "/explore")
        expect(page.locator("h1").first).to_be_visible()


def test_two_commits_are_compared(browser: Browser, dashboard: Dashboard) -> None:
    with opened(browser, dashboard, "/compare") as page:
        page.get_by_role("link", name="Two commits").click()
        page.get_by_label("Left").fill(commit(STEP)[:12])
        page.get_by_label("Right").fill(commit(STEP - 1)[:12])
        page.get_by_role("button", name="Compare").click()

        expect(page.get_by_role("row").nth(1)).to_contain_text(TESTS[0])
        save_picture(page, "compare-commits")


def test_patch_set_is_compared(browser: Browser, dashboard: Dashboard) -> None:
    with opened(browser, dashboard, "/compare") as page:
        page.get_by_role("link", name="A patch set").click()
        page.get_by_label("Patch set").select_option(f"{JOB}/7")
        page.get_by_role("button", name="Compare").click()

        expect(page.get_by_role("row").nth(1)).to_contain_text(WORSE)
        save_picture(page, "compare-patch")


def test_editor_looks_at_the_message_before_it_is_posted(browser: Browser, dashboard: Dashboard) -> None:
    with opened(browser, dashboard, TABLE, user=EDITOR) as page:
        page.get_by_role("link", name="Post in Gerrit…").click()
        expect(page.locator("pre")).to_contain_text(f"{EDITOR} compares testbed {TESTBEDS[0]}")
        expect(page.get_by_role("alert")).to_contain_text("gerrit.url is not set")
        save_picture(page, "compare-message")
        assert [] == violations(page)


def test_further_rounds_of_a_patch_set_appear_by_themselves(browser: Browser, dashboard: Dashboard) -> None:
    store_patch_test(dashboard.folder, 8, rounds=6, ended=False)
    with opened(browser, dashboard, f"/compare?by=patch&patch={JOB}/8") as page:
        expect(page.locator("#in-progress")).to_have_text("in progress")
        assert [] == violations(page)
        save_picture(page, "compare-patch-in-progress")

        store_patch_test(dashboard.folder, 8)
        expect(page.locator("#in-progress")).to_have_count(0, timeout=PATIENCE_MS)
        expect(page.locator(".ratios")).to_contain_text(WORSE)


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_commit_is_annotated_corrected_and_forgotten(
    browser: Browser, dashboard: Dashboard, scripts: bool
) -> None:
    hash_ = commit(10)
    with opened(browser, dashboard, "/annotations", user=EDITOR, java_script_enabled=scripts) as page:
        page.get_by_text("Annotate a commit").click()
        page.locator("#commit").fill(hash_)
        page.get_by_label("Testbed").select_option(TESTBEDS[0])
        page.get_by_label("Text").fill("See https://bugs.example.org/12 <b>")
        page.get_by_role("button", name="Annotate").click()
        expect(page.get_by_role("link", name="https://bugs.example.org/12")).to_be_visible()
        expect(page.locator(".text")).to_contain_text("<b>")
        save_picture(page, "annotations")
        assert not scripts or [] == violations(page)

        page.get_by_role("link", name="Edit").click()
        page.get_by_label("Text").fill("corrected")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".text")).to_have_text("corrected")
        expect(page.locator(".annotations")).to_contain_text(f"edited by {EDITOR}")

        page.get_by_role("link", name="Edit").click()
        page.get_by_role("button", name="Delete").click()
        expect(page.locator(".annotations")).to_contain_text("No annotations of this commit yet")


def test_second_editor_of_an_annotation_loses_nothing(browser: Browser, dashboard: Dashboard) -> None:
    # The browser itself complains about the answer that is wanted here.
    with context_of(browser, dashboard, user=EDITOR) as context:
        page = context.new_page()
        page.goto("/annotations")
        page.get_by_text("Annotate a commit").click()
        page.locator("#commit").fill(commit(11))
        page.get_by_label("Text").fill("first")
        page.get_by_role("button", name="Annotate").click()
        page.get_by_role("link", name="Edit").click()
        page.get_by_label("Text").fill("mine")
        with opened(browser, dashboard, page.url.removeprefix(dashboard.url), user="ada") as other:
            other.get_by_label("Text").fill("Ada's")
            other.get_by_role("button", name="Save").click()
            expect(other.locator(".text")).to_have_text("Ada's")
        with page.expect_response(lambda answer: answer.status == 409):
            page.get_by_role("button", name="Save").click()

        expect(page.get_by_role("alert")).to_contain_text("ada edited it at")
        expect(page.locator("main")).to_contain_text("Ada's")
        save_picture(page, "annotations-conflict")
        page.get_by_role("button", name="Save your version").click()
        expect(page.locator(".text")).to_have_text("mine")


def test_reader_sees_annotations_without_forms(browser: Browser, dashboard: Dashboard) -> None:
    with opened(browser, dashboard, "/annotations") as page:
        expect(page.locator("form[method=post]")).to_have_count(0)

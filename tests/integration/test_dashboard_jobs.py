"""From a mail to a bisection in a real browser: the item, a click, the estimate, and the confirmation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

import perftrend
from perftrend.store import Store
from perftrend.store.alerts import ItemSelection
from perftrend.store.requests import SERVED, RequestState
from tests.integration.accessibility import violations
from tests.integration.servers.dashboard import PATIENCE_MS, Dashboard, opened, save_picture, widths
from tests.integration.test_dashboard_triage import PHONE, TESTBEDS, fill

FILE = (Path(perftrend.__file__).parent / "testbeds" / "simulated.yaml").read_text()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """Run a dashboard that nobody signs in to: those who use it on its machine are editors."""
    folder = tmp_path_factory.mktemp("jobs")
    fill(folder / "store.sqlite")
    (folder / "testbeds").mkdir()
    for name in TESTBEDS:
        (folder / "testbeds" / f"{name}.yaml").write_text(FILE)
    project = {
        "profile": "command",
        "repository": "https://git.example.org/p",
        "parameters": {"measure": "./b"},
    }
    more = {"project": project, "testbeds": str(folder / "testbeds")}
    with Dashboard(folder, settings={}, more=more) as dashboard:
        with Store.open(dashboard.store) as store:
            store.requests.set_mark(SERVED, datetime.now(UTC))
        yield dashboard


@pytest.fixture
def item(local: Dashboard) -> int:
    with Store.open(local.store) as store:
        return store.alerts.items.select(ItemSelection(kinds=("regression",)), limit=1)[0][0].identity


def test_mail_leads_to_a_bisection_by_a_click_and_a_confirmation(
    browser: Browser, local: Dashboard, item: int
) -> None:
    # The address is the link in the mail.
    with opened(browser, local, f"/triage/{item}") as page:
        page.get_by_role("link", name="Start a bisection").click()
        expect(page.locator("h1")).to_have_text("Find the commit")
        expect(page.locator("main")).to_contain_text("the product's own command, duration unknown")
        assert [] == violations(page)
        save_picture(page, "job-new")
        page.get_by_role("button", name="Start").click()

        expect(page).to_have_url(re.compile(r"/jobs/[0-9a-f]{64}$"))
        expect(page.get_by_role("status")).to_contain_text("waits for the listener")
        assert [] == violations(page)
        save_picture(page, "job")
        page.get_by_role("link", name=f"Item {item}").click()
        expect(page.locator("main")).to_contain_text("waits for the listener")

    with Store.open(local.store) as store:
        (requested,) = store.requests.of_item(item)
        assert ("local user", RequestState.SEEN) == (requested.author, requested.state)


def test_result_of_a_bisection_stands_on_its_item(browser: Browser, local: Dashboard, item: int) -> None:
    with opened(browser, local, f"/jobs/new?item={item}&job=perftest") as page:
        page.get_by_role("button", name="Start").click()
        expect(page).to_have_url(re.compile(r"/jobs/[0-9a-f]{64}$"))
        key = page.url.rpartition("/")[2]
        with Store.open(local.store) as store:
            culprit = {
                "commit": "ab" * 20,
                "subject": "Copy twice",
                "author": "Ann",
                "deed": "made it slower",
            }
            store.requests.record_result(key, {"sentence": "Found it.", "culprits": [culprit], "link": ""})
            store.requests.change(store.requests.with_keys([key])[key], state=RequestState.ENDED)
        # The page notices by itself.
        expect(page.locator("main")).to_contain_text("Copy twice", timeout=PATIENCE_MS)
        page.goto(f"/triage/{item}")
        expect(page.locator("main")).to_contain_text("Found it.")


def test_job_is_cancelled_by_its_button(browser: Browser, local: Dashboard, item: int) -> None:
    with opened(browser, local, f"/jobs/new?item={item}&job=trending") as page:
        start = page.get_by_role("button", name="Start")
        if start.count():
            start.click()
            page.get_by_role("button", name="Cancel the job").click()
            expect(page.get_by_role("status")).to_contain_text("is ending")


def test_bisection_begins_at_a_point(browser: Browser, local: Dashboard) -> None:
    address = f"/explore?testbed={TESTBEDS[0]}&q=test%3D64b-1c-ethip4-ip4base-mrr"
    with opened(browser, local, address) as page:
        page.get_by_text("1 change", exact=True).click()
        page.locator("details.happened button").first.click()
        page.get_by_role("link", name="Start a bisection").click()
        expect(page.locator("h1")).to_have_text("Find the commit")
        expect(page.get_by_role("button", name="Start")).to_be_visible()


@pytest.mark.parametrize("job", ["bisect", "perftest", "trending"])
def test_confirmation_fits_a_narrow_window(browser: Browser, local: Dashboard, item: int, job: str) -> None:
    with opened(browser, local, f"/jobs/new?item={item}&job={job}", viewport=PHONE) as page:
        save_picture(page, f"job-new-{job}-narrow")
        wide, window = widths(page)
        assert [] == violations(page)
    assert wide <= window

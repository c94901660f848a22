"""Forms with an error, in a real browser: what was typed stays, and the first wrong field has the focus."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.integration.accessibility import violations
from tests.integration.servers.dashboard import ADMIN, Dashboard, context_of, save_picture, widths

SIZES = {"wide": {"width": 1440, "height": 900}, "narrow": {"width": 390, "height": 844}}


def send_unchecked(page: Page, button: str) -> None:
    """Send a form without the checks of the browser, which does not know all of the dashboard's."""
    page.evaluate("document.querySelectorAll('form').forEach((form) => { form.noValidate = true; })")
    page.get_by_role("button", name=button, exact=True).click()


@pytest.mark.parametrize("has_scripts", [True, False], ids=["scripts", "no scripts"])
def test_form_keeps_what_was_typed_and_can_be_corrected(
    browser: Browser, dashboard: Dashboard, has_scripts: bool
) -> None:
    name = f"corrected {has_scripts}"
    with context_of(browser, dashboard, user=ADMIN, java_script_enabled=has_scripts) as context:
        page = context.new_page()
        page.goto("/alerts")
        if not page.locator("details.make").evaluate("each => each.open"):
            page.get_by_text("Create an alert", exact=True).click()
        page.get_by_label("Name").fill(name)
        page.get_by_label("Query").fill("metric=mrr&")
        page.get_by_label("Action").select_option("mail")
        page.get_by_role("button", name="Create alert").click()

        expect(page).to_have_title(re.compile("^Error: "))
        summary = page.get_by_role("alert")
        expect(summary.get_by_role("heading")).to_have_text("Nothing was saved: 2 values to correct")
        query, target = page.get_by_label("Query"), page.get_by_label("Send to")
        expect(query).to_be_focused()
        for field, message in ((query, "character"), (target, "enter addresses")):
            expect(field).to_have_attribute("aria-invalid", "true")
            described = field.get_attribute("aria-describedby")
            expect(page.locator(f"#{described}")).to_contain_text(message)
        expect(page.get_by_label("Name")).to_have_value(name)
        expect(page.get_by_label("Action")).to_have_value("mail")

        query.fill("metric=mrr")
        summary.get_by_role("link", name="Send to").click()
        target.fill("team@example.org")
        page.get_by_role("button", name="Create alert").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text(name)


@pytest.mark.parametrize("size", SIZES)
def test_error_is_accessible_and_fits(browser: Browser, dashboard: Dashboard, size: str) -> None:
    with context_of(browser, dashboard, user=ADMIN, viewport=SIZES[size]) as context:
        page = context.new_page()
        for path, button in (("/users", "Grant role"), ("/alerts", "Create alert"), ("/clusters", "Cluster")):
            page.goto(path)
            page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
            if path == "/clusters":
                page.get_by_label("Query").fill("metric=none")
            send_unchecked(page, button)
            expect(page.get_by_role("alert")).to_be_visible()
            save_picture(page, f"form-error-{path.strip('/')}-{size}")
            wide, window = widths(page)
            assert wide <= window, path
            assert [] == violations(page), path

"""The accessibility problems of a page, as axe reports them."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page


def violations(page: Page) -> list[tuple[str, list[str]]]:
    """Return the serious and critical ones, by their rules, with up to three places each.

    All rules are checked while the page is light. Dark changes only colours: contrast alone is checked again.
    """
    # Colours are judged as they are drawn, and a page that was only just opened may lack its styles.
    page.wait_for_load_state("load")
    found = check(page)
    page.emulate_media(color_scheme="dark")
    found += check(page, "color-contrast")
    page.emulate_media(color_scheme="light")
    return found


def check(page: Page, *rules: str) -> list[tuple[str, list[str]]]:
    """Return the violations of some rules, by default of all."""
    options = {"runOnly": list(rules)} if rules else None
    return [
        (each["id"], [node["html"] for node in each["nodes"][:3]])
        for each in Axe().run(page, options=options).response["violations"]
        if each["impact"] in {"serious", "critical"}
    ]

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.integration.servers import dashboard as dashboards
from tests.integration.servers import gerrit, hudson, java, postgresql

expect.set_options(timeout=dashboards.PATIENCE_MS)


@pytest.fixture(scope="module")
def jenkins_server(
    tmp_path_factory: pytest.TempPathFactory, require: Callable[[object, str], None]
) -> Iterator[hudson.Server]:
    """Run a server like Jenkins for a module, so that it does not disturb who measures packets."""
    fetch(hudson.fetched, require)
    with hudson.running(tmp_path_factory.mktemp("jenkins")) as server:
        yield server


@pytest.fixture(scope="module")
def gerrit_server(
    tmp_path_factory: pytest.TempPathFactory, require: Callable[[object, str], None]
) -> Iterator[gerrit.Server]:
    """Run a Gerrit for a module."""
    fetch(gerrit.fetched, require)
    with gerrit.running(tmp_path_factory.mktemp("gerrit")) as server:
        yield server


@pytest.fixture(scope="module")
def postgresql_server(require: Callable[[object, str], None]) -> Iterator[postgresql.Server]:
    """Run PostgreSQL for a module; each test has a database of its own."""
    try:
        postgresql.program("initdb")
    except java.LackingError as lacking:
        require(condition=False, reason=str(lacking))
    with postgresql.running() as server:
        yield server


def fetch(fetched: Callable[[], object], require: Callable[[object, str], None]) -> None:
    """Skip the test where the server cannot be had.

    Before it starts, so that a fault of the server itself is not taken for something lacking.
    """
    try:
        java.program("java")
        fetched()
    except java.LackingError as lacking:
        require(condition=False, reason=str(lacking))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Run a browser for all tests."""
    if dashboards.CHROMIUM is None:
        reason = "no Chromium on PATH; install it: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        # Chromium's own sandbox refuses to run as root.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=dashboards.CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dashboards.Dashboard]:
    """Run a dashboard for a module, with 18 traces of 60 runs on two testbeds."""
    folder = tmp_path_factory.mktemp("dashboard")
    dashboards.fill(folder / "store.sqlite")
    with dashboards.Dashboard(folder) as running:
        yield running


@pytest.fixture
def page(browser: Browser, dashboard: dashboards.Dashboard) -> Iterator[Page]:
    """Give a page of the dashboard to somebody who may read."""
    with dashboards.opened(browser, dashboard) as opened:
        yield opened


@pytest.fixture
def editor_page(browser: Browser, dashboard: dashboards.Dashboard) -> Iterator[Page]:
    """Give a page of the dashboard to an editor."""
    with dashboards.opened(browser, dashboard, user=dashboards.EDITOR) as opened:
        yield opened

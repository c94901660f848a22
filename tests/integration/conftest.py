"""Servers that tests share, and which tests one process runs.

A server is started once by each process that needs it. So that few do, the modules of one server are a group,
which one process runs; any other module is a group of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from xdist.scheduler.loadscope import LoadScopeScheduling

from perftrend.store import Store
from tests.integration.quiet import find_busy_core
from tests.integration.servers import dashboard as dashboards
from tests.integration.servers import gerrit, hudson, java, postgresql
from tests.unit.dashboard.conftest import fill_queue

expect.set_options(timeout=dashboards.PATIENCE_MS)

GROUPS = {
    "comments": ("test_listener", "test_comment_to_verdict", "test_comment_to_bisection"),
    "reviews": (
        "test_gerrit_client", "test_dashboard_alerting", "test_bisection", "test_dashboard_posting",
        "test_perftest",
    ),
    "postgresql": ("test_store_on_postgresql", "test_dashboard_server", "test_dashboard_monitoring"),
    "jenkins": ("test_jobs_on_jenkins", "test_dashboard_compare_on_jenkins", "test_jenkins_client"),
}  # fmt: skip
"""Modules of the same server; the longest come first, so that no process is left with one at the end."""


GROUP_OF = {module: name for name, modules in GROUPS.items() for module in modules}


class GroupScheduling(LoadScopeScheduling):
    """Gives each group to one process, as xdist's own ``loadgroup`` does, which pytest 9.2 has broken."""

    def _split_scope(self, nodeid: str) -> str:
        module = PurePath(nodeid.partition("::")[0]).stem
        return GROUP_OF.get(module, module)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = list(GROUP_OF)
    items.sort(key=lambda item: order.index(item.path.stem) if item.path.stem in order else len(order))


@pytest.fixture(autouse=True)
def quiet_cores(request: pytest.FixtureRequest) -> None:
    """Measure nothing for a test that cannot get quiet cores: it would take long to end as not run."""
    if "require_quiet" in request.fixturenames:
        request.getfixturevalue("require_quiet")(find_busy_core())


def lifetime(fixture_name: str, config: pytest.Config) -> Literal["session", "module"]:
    """Return the scope of a server.

    Without other processes the tests may measure packets, and a server that is not used would disturb them.
    """
    return "session" if hasattr(config, "workerinput") else "module"


@pytest.fixture(scope=lifetime)
def jenkins_server(
    tmp_path_factory: pytest.TempPathFactory, require: Callable[[object, str], None]
) -> Iterator[hudson.Server]:
    """Run a server like Jenkins; each module has jobs of its own."""
    fetch(hudson.fetched, require)
    with hudson.running(tmp_path_factory.mktemp("jenkins")) as server:
        yield server


@pytest.fixture(scope=lifetime)
def gerrit_server(
    tmp_path_factory: pytest.TempPathFactory, require: Callable[[object, str], None]
) -> Iterator[gerrit.Server]:
    """Run a Gerrit; each module has users and projects of its own."""
    fetch(gerrit.fetched, require)
    with gerrit.running(tmp_path_factory.mktemp("gerrit")) as server:
        yield server


@pytest.fixture(scope=lifetime)
def postgresql_server(require: Callable[[object, str], None]) -> Iterator[postgresql.Server]:
    """Run PostgreSQL; each test has a database of its own."""
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
        reason = "no Chromium on PATH; install it: apt-get install chromium-headless-shell"
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
    """Run a dashboard for a module, with 18 traces of 60 runs on two testbeds, and a queue."""
    folder = tmp_path_factory.mktemp("dashboard")
    dashboards.fill(folder / "store.sqlite")
    with Store.open(folder / "store.sqlite") as store:
        fill_queue(store)
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

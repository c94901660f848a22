"""The dashboard as a process of its own, and pages of it in a browser."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import yaml
from playwright.sync_api import Browser, BrowserContext, Page

from perftrend.store import Store
from tests.integration.servers.environment import inherited
from tests.unit.dashboard.conftest import fill as fill_store
from tests.unit.dashboard.conftest import filled_file

CHECKOUT = Path(__file__).resolve().parents[3]
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
USER_HEADER = "X-Forwarded-User"
EDITOR, ADMIN = "ann", "ada"
SIGNING_IN: Mapping[str, Any] = {
    "public": True, "proxies": ["127.0.0.1"], "user_header": USER_HEADER,
    "editors": [EDITOR], "admins": [ADMIN], "requests_per_second": 1000, "burst": 10000,
}  # fmt: skip
"""Settings with which a test says in a header who it is."""

PATIENCE_MS = 180_000
"""Where other tests use the cores, a page may take longer than the five to thirty seconds that are usual."""
_START_S = 300


class Dashboard:
    """A dashboard with a folder of its own.

    :param settings: of its section; by default people sign in by a header.
    :param store: where its results are; by default a small store in its folder.
    """

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, Any] = SIGNING_IN,
        more: Mapping[str, Any] | None = None,
        store: str | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        self.folder = folder
        self.store = store or str(folder / "store.sqlite")
        self.said: list[str] = []
        self.url = ""
        # Tests write into the store beside it, and see that at once.
        self._settings = {"dashboard": {"cache_max_age_s": 0.001, **settings}, **(more or {})}
        self._options = options
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread()
        self._is_up = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, address: str = "127.0.0.1:0") -> None:
        """Start it, and wait until it serves."""
        self._begin(address)
        assert self._is_up.wait(_START_S), self.said
        assert self.url, self.said

    def refused(self, address: str) -> tuple[int, list[str]]:
        """Start it where it cannot serve; return its exit code and what it says."""
        self._begin(address)
        return self.wait(), self.said

    def signal(self, number: signal.Signals) -> None:
        """Tell it something; it may have ended already."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for its end; return its exit code."""
        assert self._process is not None
        assert self._process.stderr is not None
        code = self._process.wait(_START_S)
        self._reader.join()
        self._process.stderr.close()
        return code

    def stop(self) -> int:
        """End it as a service manager does; return its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def new_token(self, name: str, *, role: str) -> str:
        """Make an API token, as who runs the dashboard does."""
        command = [*self._command, "--new-token", name, "--role", role]
        return subprocess.run(
            command, cwd=self.folder, env=self._environment, check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()

    @property
    def _command(self) -> list[str]:
        # Tests that are killed have no time to end it.
        dying = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
        job = [*dying, sys.executable, "-P", "-m", "perftrend.cli.dashboard"]
        return [*job, "--settings", "settings.yaml", "--store", self.store]

    @property
    def _environment(self) -> dict[str, str]:
        return {**inherited(), "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'resources'}"}

    def _begin(self, address: str) -> None:
        (self.folder / "settings.yaml").write_text(yaml.safe_dump(self._settings))
        self._is_up.clear()
        self._process = subprocess.Popen(
            [*self._command, "--address", address, *self._options],
            cwd=self.folder, env=self._environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.said.append(line.rstrip("\n"))
            if found := re.search(r"dashboard at (http\S+)/$", self.said[-1]):
                self.url = found[1]
                self._is_up.set()
        self._is_up.set()


def fill(place: str | Path) -> None:
    """Put the small example of the unit tests into a store, a new file or a database."""
    if isinstance(place, Path):
        place.write_bytes(filled_file())
    else:
        with Store.open(place) as store:
            fill_store(store)


@contextmanager
def context_of(
    browser: Browser, dashboard: Dashboard, *, user: str = "", **options: Any
) -> Iterator[BrowserContext]:
    """Give a browser's window in which somebody is signed in; addresses may leave the host out."""
    headers = {USER_HEADER: user} if user else {}
    context = browser.new_context(base_url=dashboard.url, extra_http_headers=headers, **options)
    context.set_default_timeout(PATIENCE_MS)
    yield context
    context.close()


@contextmanager
def opened(
    browser: Browser, dashboard: Dashboard, path: str = "", *, user: str = "", **options: Any
) -> Iterator[Page]:
    """Give a page in a window of its own; what it throws or complains about is an error at the end.

    :param path: what is opened, if anything.
    :param options: of the window, such as ``color_scheme="dark"`` or ``java_script_enabled=False``.
    """
    with context_of(browser, dashboard, user=user, **options) as context:
        page = context.new_page()
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console", lambda message: complaints.append(message.text) if message.type == "error" else None
        )
        if path:
            page.goto(path)
        yield page
        assert [] == complaints


def save_picture(page: Page, name: str) -> None:
    """Save pictures of a page, light and dark, for people, if ``TEST_SCREENSHOTS`` names a folder."""
    folder = os.environ.get("TEST_SCREENSHOTS")
    if folder:
        page.emulate_media(color_scheme="dark")
        page.screenshot(path=Path(folder) / f"{name}-dark.png", full_page=True)
        page.emulate_media(color_scheme="light")
        page.screenshot(path=Path(folder) / f"{name}-light.png", full_page=True)


def widths(page: Page) -> tuple[int, int]:
    """Return how wide a page is with all its styles, and how wide its window."""
    page.wait_for_load_state("load")
    wide, window = page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    return wide, window

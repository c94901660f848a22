"""Time until a plot of many lines in a browser reacts to the pointer, by Chromium without a graphics card."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import numpy as np
import requests
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from benchmarks.tiles import TESTBED
from tests.integration.servers.dashboard import CHROMIUM

_HUNDRED = quote("frame=64B&cores=1c&driver=avf&metric=mrr&test=~-ip4-[0-9]{1,2}$")
PLOTS = {
    "100 lines of 128 points": f"/explore?testbed={TESTBED}&q={_HUNDRED}",
    "1,000 lines of 128 points": f"/explore?testbed={TESTBED}&q={quote('frame=64B')}",
    "1,000 lines of 1,024 points": f"/explore?testbed={TESTBED}&q={quote('frame=64B')}&points=1024",
}
"""Paths by name."""
_WEBGL = ["--no-sandbox", "--use-angle=swiftshader-webgl", "--ignore-gpu-blocklist"]
_WINDOW = ViewportSize(width=1440, height=900)
_PATIENCE_S = 60
_TIMES = """
    window.firstTimes = {};
    const note = (name) => { window.firstTimes[name] ??= performance.now() / 1000; };
    new MutationObserver(() => {
        const plot = document.querySelector("#plot"), tip = document.querySelector("#tip");
        if (plot?.dataset.drawn) note("drawn_s");
        if (tip && !tip.hidden) note("hover_s");
    }).observe(document, { subtree: true, childList: true, attributes: true });
"""
"""Notes when the plot and the first description at the pointer appear, since the navigation."""


def measure(url: str, repetitions: int) -> Iterator[dict[str, Any]]:
    """Yield the times of each plot, in seconds: the first time, then with what the browser has cached."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_WEBGL)
        for name, path in PLOTS.items():
            yield {"name": name, **_server(url + path), **_in_browser(browser, url + path, repetitions)}
        browser.close()


def _server(url: str) -> dict[str, Any]:
    begin = time.perf_counter()
    answer = requests.get(
        url, headers={"Accept": "text/html", "Accept-Encoding": "gzip"}, timeout=120, stream=True
    )
    packed = answer.raw.read()
    return {"server_s": time.perf_counter() - begin, "kilobytes": len(packed) / 1000}


def _in_browser(browser: Browser, url: str, repetitions: int) -> dict[str, Any]:
    context = browser.new_context(viewport=_WINDOW)
    context.add_init_script(_TIMES)
    page = context.new_page()
    first, *others = (_load(page, url) for _ in range(1 + repetitions))
    context.close()
    return {"first": first} | {name: float(np.median([each[name] for each in others])) for name in first}


def _load(page: Page, url: str) -> dict[str, float]:
    page.goto("about:blank")
    page.goto(url, wait_until="commit")
    end = time.monotonic() + _PATIENCE_S
    times: dict[str, float] = {}
    while not {"drawn_s", "hover_s"} <= set(times):
        if time.monotonic() > end:
            raise RuntimeError(f"{url} does not react to the pointer: {json.dumps(times)}")
        for shift in range(8):
            page.mouse.move(800 + 20 * shift, 260 + 20 * shift)
        times = page.evaluate("window.firstTimes")
    return {name: times[name] for name in ("drawn_s", "hover_s")}

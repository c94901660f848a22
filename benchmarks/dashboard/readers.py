"""Many readers at the same time, while nights are stored; wrk makes their requests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import requests

from benchmarks.dashboard.filling import Nights
from benchmarks.dashboard.pages import PAGES
from benchmarks.dashboard.process import Serving

READ = ("Explore", "Explore, some 100 traces", "Clusters", "Triage", "Compare, empty", "Annotations", "Runs")
"""Pages that readers load, in turn."""
NAMED = {"user_header": "X-User", "proxies": ["127.0.0.1"], "editors": ["reader1"]}
"""Settings that let each of them be another user."""
_THREADS = 2

SCRIPT = """
local paths = { %(paths)s }
local turn = 0
local named = %(named)s
-- wrk lets all begin at the same moment. They open their connections by it, and read from then on.
local opening = %(readers_of_thread)d
math.randomseed(1)
function init() turn = math.random(#paths) end
function delay() return math.random(%(think_ms)d * 2) end
function request()
    if opening > 0 then
        opening = opening - 1
        return wrk.format("GET", "/healthz")
    end
    turn = turn %% #paths + 1
    if named then wrk.headers["X-User"] = "reader" .. math.random(%(readers)d) end
    return wrk.format("GET", paths[turn])
end
function done(summary, latency)
    local errors = summary.errors
    io.write(string.format('{"requests": %%d, "seconds": %%f, ' ..
        '"median_s": %%f, "p95_s": %%f, "p99_s": %%f, ' ..
        '"refused": %%d, "broken": %%d, "late": %%d, "not_ok": %%d}\\n',
        summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e6, latency:percentile(95) / 1e6,
        latency:percentile(99) / 1e6, errors.connect, errors.read + errors.write, errors.timeout,
        errors.status))
end
"""


def measure(served: Serving, nights: Nights, folder: Path, options: Namespace) -> dict[str, Any]:
    """Let readers load pages while nights are stored, one after the other.

    :param options: ``count`` readers read each page for ``think`` seconds on average, for ``seconds`` in all;
        each night has ``night`` results.
    """
    first_s = dict(_first(served.url, {"X-User": "reader1"} if options.named else {}))
    wrk = shutil.which("wrk")
    if wrk is None:
        raise SystemExit("readers need wrk: apt-get install wrk")
    paths = ", ".join(json.dumps(PAGES[name]) for name in READ)
    script = folder / "readers.lua"
    chosen = {
        "paths": paths,
        "think_ms": max(int(options.think * 1000), 1),
        "readers": options.count,
        "readers_of_thread": options.count // _THREADS,
        "named": json.dumps(options.named),
    }
    script.write_text(SCRIPT % chosen)
    command = [
        wrk, f"-t{_THREADS}", f"-c{options.count}", f"-d{options.seconds}s", "--timeout", "30s",
        "-H", "Accept-Encoding: gzip", "-s", str(script), served.url,
    ]  # fmt: skip
    ended = threading.Event()
    took: list[float] = []
    writer = threading.Thread(target=_write, args=(nights, options.night, ended, took))
    cpu_s = served.cpu_s()
    writer.start()
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    finally:
        ended.set()
        writer.join()
    results: dict[str, Any] = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    return {
        "first_s": first_s,
        "readers": options.count,
        "think_s": options.think,
        **results,
        "nights": len(took),
        "night_s": sum(took) / max(len(took), 1),
        "cpu_s": served.cpu_s() - cpu_s,
        "megabytes": served.megabytes(),
        "load": os.getloadavg()[0],
    }


def _first(url: str, headers: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    """Yield the time of each page of a dashboard that was just started."""
    for name in READ:
        begin = time.perf_counter()
        requests.get(url + PAGES[name], headers=headers, timeout=120).raise_for_status()
        yield name, time.perf_counter() - begin


def _write(nights: Nights, traces: int, ended: threading.Event, took: list[float]) -> None:
    while not ended.is_set():
        begin = time.perf_counter()
        nights.measure(traces)
        took.append(time.perf_counter() - begin)

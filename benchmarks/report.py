"""Time to write a report, and to open it in Chromium.

    python -m benchmarks.report
    python -m benchmarks.report --screenshot FILE.png --of REPORT

The first prints a table. The second makes a screenshot of a report with its worst test open; without
``--of``, of an example, whose values are simulated and marked so.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.example_verdicts import WINDOW, example_results, example_verdicts
from perftrend import report
from perftrend.model import Result, Verdict

_PICTURED_TESTS = 26
_PICTURED_RUNS = 120


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table, or make the screenshot."""
    options = _parser().parse_args(argv)
    with tempfile.TemporaryDirectory() as folder, _chromium() as browser:
        if options.screenshot:
            index = options.of.resolve() / "index.html" if options.of else _write_example(Path(folder))
            _make_screenshot(browser, index, options.screenshot, options.scheme)
            return 0
        seconds = _measure(browser, Path(folder), options)
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
    if options.json:
        print(json.dumps({"tests": options.tests, "runs": options.runs, "bytes": size, "seconds": seconds}))
    else:
        _print(seconds, options, size)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__.split("\n")[0])
    parser.add_argument("--tests", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=180)
    parser.add_argument("--repeat", type=int, default=5, help="times that each cell is measured")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--screenshot", type=Path, metavar="FILE", help="only take a picture")
    parser.add_argument("--of", type=Path, metavar="REPORT", help="folder of the report to picture")
    parser.add_argument("--scheme", choices=("light", "dark"), default="light", help="of the picture")
    return parser


def _measure(browser: Browser, folder: Path, options: argparse.Namespace) -> dict[str, list[float]]:
    verdicts = example_verdicts(options.tests, options.runs)
    results = example_results(verdicts)
    index = folder / "report" / "index.html"
    cells: dict[str, Callable[[], float]] = {
        "write": lambda: _time_call(lambda: _write(folder, verdicts, results)),
        "open": lambda: _open(browser, index, scripts=True),
        "open without scripts": lambda: _open(browser, index, scripts=False),
        "draw the first graph": lambda: _draw(browser, index, graphs=1),
        "draw one more graph": lambda: _draw(browser, index, graphs=2),
    }
    return {name: [cell() for _ in range(options.repeat)] for name, cell in cells.items()}


def _write(folder: Path, verdicts: Sequence[Verdict], results: Sequence[Result]) -> Path:
    run, method = verdicts[0].series.runs[-1], "minimum description length"
    return report.write(folder / "report", verdicts, run=run, method=method, window=WINDOW, results=results)


def _write_example(folder: Path) -> Path:
    verdicts = example_verdicts(_PICTURED_TESTS, _PICTURED_RUNS)
    return _write(folder, verdicts, example_results(verdicts))


def _open(browser: Browser, index: Path, *, scripts: bool) -> float:
    """Return the time from the request for the page until its first view is painted."""
    with _page(browser, scripts=scripts) as page:

        def painted() -> None:
            page.goto(index.as_uri())
            page.screenshot()

        return _time_call(painted)


def _draw(browser: Browser, index: Path, *, graphs: int) -> float:
    """Return the time from a click on a test until the last graph is drawn; the first loads plotly."""
    with _page(browser) as page:
        page.goto(index.as_uri())
        for number in range(graphs):

            def drawn(number: int = number) -> None:
                page.locator("summary").nth(number).click()
                page.locator(".plot .legend").nth(number).wait_for()

            seconds = _time_call(drawn)
    return seconds


def _make_screenshot(browser: Browser, index: Path, file: Path, scheme: str) -> None:
    with _page(browser, scheme=scheme) as page:
        page.goto(index.as_uri())
        page.locator("summary").first.click()
        page.locator(".plot .legend").wait_for()
        page.set_viewport_size({"width": 1280, "height": 1260})
        page.mouse.move(0, 0)
        page.screenshot(path=file)


@contextmanager
def _chromium() -> Iterator[Browser]:
    names = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        sys.exit("no Chromium on PATH; install it: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def _page(browser: Browser, *, scripts: bool = True, scheme: str = "light") -> Iterator[Page]:
    context = browser.new_context(
        viewport={"width": 1280, "height": 900},
        java_script_enabled=scripts,
        color_scheme="dark" if scheme == "dark" else "light",
    )
    yield context.new_page()
    context.close()


def _time_call(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _print(seconds: dict[str, list[float]], options: argparse.Namespace, size: int) -> None:
    print(f"{options.tests} tests of {options.runs} runs, {size / 1e6:.1f} MB, {options.repeat} times each\n")
    print(f"{'':24}{'median':>10}{'slowest':>10}")
    for name, cells in seconds.items():
        print(f"{name:24}{statistics.median(cells):8.2f} s{max(cells):8.2f} s")


if __name__ == "__main__":
    sys.exit(main())

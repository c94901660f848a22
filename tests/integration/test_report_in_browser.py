"""The report in a real browser: from a file, and under the policy of Jenkins's artifact pages."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from benchmarks.example_verdicts import WINDOW, example_search, example_verdicts
from perftrend import message, report
from perftrend.model import Result, Verdict
from perftrend.report import bisect, mails, perftest
from perftrend.settings import Settings
from tests.integration.accessibility import violations
from tests.unit.report.bisect.reports import slower
from tests.unit.report.perftest.reports import compared

JENKINS_POLICIES = {
    "newer": "sandbox allow-same-origin; default-src 'none'; img-src 'self'; style-src 'self';",
    "older": "sandbox; default-src 'none'; img-src 'self'; style-src 'self';",
}
"""The default of ``hudson.model.DirectoryBrowserSupport.CSP``."""
SETTINGS = Settings.load(
    environment={},
    overrides={"dashboard.url": "https://perf.example.org", "gerrit.url": "https://review.example.org"},
)
HOSTILE = "<img src=x onerror=hacked()></script><b>bold</b> %{x} &lt;i&gt;"


@pytest.fixture(scope="session")
def verdicts() -> list[Verdict]:
    return example_verdicts(tests=26, runs=90)


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory, verdicts: list[Verdict]) -> Path:
    return write(tmp_path_factory.mktemp("example"), verdicts)


def write(directory: Path, verdicts: list[Verdict]) -> Path:
    run = verdicts[0].series.runs[-1]
    return report.write(
        directory / "report",
        verdicts,
        run=run,
        method="MDL",
        window=WINDOW,
        results=[searched(verdicts[0])],
        settings=SETTINGS,
    )


def searched(verdict: Verdict) -> Result:
    """Return a result of the newest run that a simulated search gave."""
    run = verdict.series.runs[-1]
    search = replace(example_search(run), simulated=run.simulated)
    return replace(verdict.series.results[-1], details=message.document(search))


@contextmanager
def opened(browser: Browser, address: str, *, width: int = 1280, **options: Any) -> Iterator[Page]:
    """Open a page; what it throws or complains about is an error."""
    context = browser.new_context(viewport={"width": width, "height": 900}, **options)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(address)
    yield page
    context.close()
    assert [] == [text for text in complaints if not _is_the_policy(text)]


def _is_the_policy(complaint: str) -> bool:
    """Whether it says that the page's script was not run: that is what Jenkins wants."""
    return complaint.startswith("Blocked script execution") and "'allow-scripts'" in complaint


@contextmanager
def jenkins(folder: Path, policy: str = "") -> Iterator[str]:
    """Give the address of a folder on a server that serves artifacts as Jenkins does.

    :param policy: empty: none, as with a resource root URL.
    """

    class Artifacts(SimpleHTTPRequestHandler):
        def end_headers(self) -> None:
            if policy:
                for name in ("Content-Security-Policy", "X-WebKit-CSP", "X-Content-Security-Policy"):
                    self.send_header(name, policy)
            self.send_header("X-Content-Type-Options", "nosniff")
            super().end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Artifacts, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(params=JENKINS_POLICIES.values(), ids=JENKINS_POLICIES)
def policy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def artifact(index: Path, policy: str) -> Iterator[str]:
    """Give the address of the report on such a server."""
    with jenkins(index.parent, policy) as address:
        yield f"{address}/index.html"


def draw_first(page: Page) -> list[dict[str, Any]]:
    """Open the first test and return the curves of its graph."""
    page.locator("summary").first.click()
    page.locator(".plot .legend").first.wait_for()
    curves: list[dict[str, Any]] = page.evaluate(
        "[...document.querySelector('.plot').data].map("
        "({name, x, y, text, marker}) => ({name, x: [...x], y: [...y], text, marker}))"
    )
    return curves


def test_graph_is_drawn_when_a_test_is_opened_and_not_before(browser: Browser, index: Path) -> None:
    with opened(browser, index.as_uri()) as page:
        assert page.evaluate("typeof Plotly") == "undefined"

        names = [curve["name"] for curve in draw_first(page)]

        assert {"TMA ± 3 TMSD", "TMA", "MM", "trend", "measured", "regression", "progression"} <= set(names)
        expect(page.locator(".plot")).to_have_count(1)


def test_graph_shows_what_was_measured(browser: Browser, index: Path, verdicts: list[Verdict]) -> None:
    regression = verdicts[0]
    with opened(browser, index.as_uri()) as page:
        expect(page.locator("summary").first).to_have_text(regression.series.key["test"])

        curves = {curve["name"]: curve for curve in draw_first(page)}

    position = regression.changes[-1].position
    assert [position + 1] == curves["regression"]["x"]
    assert [pytest.approx(regression.series.samples[position] / 1e6)] == curves["regression"]["y"]
    about = curves["regression"]["text"][0]
    run = regression.series.runs[position]
    for part in ("regression of -15", run.name, run.versions["device"][:12], "Mpps"):
        assert part in about
    shown = sum(len(curves[name]["x"]) for name in ("measured", "outlier", "regression", "progression"))
    assert shown == regression.series.samples.size


def test_value_that_is_not_valid_is_a_hollow_mark(browser: Browser, index: Path) -> None:
    with opened(browser, index.as_uri()) as page:
        page.locator(".test.not-valid summary").click()
        page.locator(".plot .legend").wait_for()

        marks = page.evaluate(
            "[...document.querySelector('.plot').data].filter((curve) => curve.name === 'not valid')"
            ".map(({marker, x, text}) => [marker.symbol, x.length, text[0]])"
        )

    ((symbol, count, text),) = marks
    assert ("circle-open", 1) == (symbol, count)
    assert "not valid: The generator sent 91.2 %" in text


def test_page_asks_the_network_for_nothing(browser: Browser, index: Path) -> None:
    requests: list[str] = []
    context = browser.new_context()
    page = context.new_page()
    page.on("request", lambda request: requests.append(request.url))
    page.goto(index.as_uri())
    draw_first(page)
    context.close()

    folder = index.parent.as_uri()
    assert requests
    assert [] == [url for url in requests if not url.startswith((folder, "blob:", "data:"))]


def test_jenkins_shows_the_table_with_its_pictures(browser: Browser, artifact: str) -> None:
    with opened(browser, artifact) as page:
        assert not page.locator("html.scripted").count()
        expect(page.locator("h1")).to_contain_text("2 regressions, 1 progression, 20 normal")
        assert "grid" == page.locator(".row").first.evaluate("row => getComputedStyle(row).display")
        picture = page.locator(".small .picture").first
        assert picture.bounding_box()["width"] > 200  # type: ignore[index]
        worse = picture.locator(".worse").evaluate("mark => getComputedStyle(mark).stroke")
        assert "rgb(198, 47, 43)" == worse


def test_jenkins_lets_a_test_be_opened_from_the_keyboard(browser: Browser, artifact: str) -> None:
    with opened(browser, artifact) as page:
        large = page.locator(".more .picture").first
        expect(large).to_be_hidden()

        page.locator("summary").first.focus()
        page.keyboard.press("Enter")

        expect(large).to_be_visible()
        expect(page.locator(".groups-table").first).to_contain_text("regression")


def test_search_can_be_pointed_at(browser: Browser, index: Path) -> None:
    with opened(browser, index.as_uri()) as page:
        with page.expect_event("framenavigated", lambda frame: frame.url.endswith("search-0.svg")) as picture:
            draw_first(page)
            page.locator("object").scroll_into_view_if_needed()
        trial = picture.value.locator(".trial").last
        told = trial.locator(".told")
        expect(told).to_be_hidden()

        trial.locator("circle").first.hover(force=True)

        expect(told).to_be_visible()
        expect(told).to_contain_text("Mpps for 30 s")


def test_trials_of_a_search_can_be_visited_by_keyboard(browser: Browser, index: Path) -> None:
    with opened(browser, (index.parent / "data" / "search-0.svg").as_uri()) as page:
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")

        expect(page.locator(".trial").nth(1).locator(".told")).to_be_visible()


@pytest.mark.parametrize("scripts", [True, False])
def test_search_is_loaded_when_its_test_is_opened_and_not_before(
    browser: Browser, index: Path, *, scripts: bool
) -> None:
    """No image is loaded lazily where no script runs, but a background is when it is shown."""
    requests: list[str] = []
    context = browser.new_context(java_script_enabled=scripts)
    page = context.new_page()
    page.on("request", lambda request: requests.append(request.url.rpartition("/")[2]))
    page.goto(index.as_uri(), wait_until="networkidle")
    assert "style.css" in requests
    assert "search-0.svg" not in requests

    with page.expect_request("**/search-0.svg"):
        page.locator("summary").first.click()
    context.close()


@pytest.mark.parametrize("scripts", [True, False])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_jenkins_refuses_nothing_of_the_report(
    browser: Browser, artifact: str, scheme: str, *, scripts: bool
) -> None:
    with opened(browser, artifact, color_scheme=scheme, java_script_enabled=scripts) as page:
        refused = refusals(page)
        page.reload()
        for summary in page.locator("summary").all()[:3]:
            summary.click()
        page.locator("#builds summary").click()
        chart = page.locator(".chart").first
        expect(chart.locator(".levels text").first).to_be_visible()
        expect(chart.locator(".builds text").first).to_be_visible()
        paper = page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
        expect(page.locator("#builds td").first).to_be_visible()
        page.wait_for_load_state("networkidle")

    assert ("rgb(20, 23, 26)" if scheme == "dark" else "rgb(252, 252, 251)") == paper
    # The page offers its script to browsers that may run it; Jenkins's sandbox is what they are told of.
    assert {"script-src"} >= refused


def refusals(page: Page) -> set[str]:
    """Return a set that is filled with the directives that are violated from now on."""
    violated: set[str] = set()
    session = page.context.new_cdp_session(page)

    def audit(event: dict[str, Any]) -> None:
        details = event["issue"]["details"].get("contentSecurityPolicyIssueDetails")
        if details:
            violated.add(details["violatedDirective"])

    session.on("Audits.issueAdded", audit)
    session.send("Audits.enable")
    return violated


def test_jenkins_shows_the_axes_and_the_bisection_of_a_change(browser: Browser, artifact: str) -> None:
    with opened(browser, artifact, java_script_enabled=False) as page:
        page.locator("summary").first.click()
        steps = page.locator(".next-steps").first
        expect(steps).to_contain_text("regression between builds")
        expect(steps.locator(".copy").first).to_contain_text("bisecttest-2n-clx ")
        assert "all" == steps.locator(".copy").first.evaluate("code => getComputedStyle(code).userSelect")
        levels = page.locator(".chart").first.locator(".levels text").all_text_contents()
        dots = page.locator(".picture.large use").first.bounding_box()
        builds = page.locator(".chart").first.locator(".builds text").first.bounding_box()

    assert len(levels) == len(set(levels)) >= 3
    assert dots is not None
    assert builds is not None
    assert dots["height"] > 100
    assert builds["y"] > dots["y"] + dots["height"]


@pytest.mark.parametrize("scripts", [True, False])
def test_jenkins_lets_a_trial_of_an_opened_search_be_pointed_at(
    browser: Browser, index: Path, policy: str, *, scripts: bool
) -> None:
    """A picture of its own has its style sheet in a file, as Jenkins wants."""
    with (
        jenkins(index.parent, policy) as address,
        opened(browser, f"{address}/data/search-0.svg", java_script_enabled=scripts) as page,
    ):
        trial = page.locator(".trial").last
        expect(trial.locator(".told")).to_be_hidden()

        trial.locator("circle").first.hover(force=True)

        expect(trial.locator(".told")).to_be_visible()


@pytest.mark.parametrize("kind", ["bisection", "per-patch test"])
@pytest.mark.parametrize("scripts", [True, False])
def test_jenkins_shows_the_other_reports(
    browser: Browser, tmp_path: Path, policy: str, kind: str, *, scripts: bool
) -> None:
    write_other(tmp_path / "report", kind)
    with (
        jenkins(tmp_path / "report", policy) as address,
        opened(browser, f"{address}/index.html", java_script_enabled=scripts) as page,
    ):
        refused = refusals(page)
        page.reload()
        colour = page.locator(".job").evaluate("job => getComputedStyle(job).backgroundColor")
        links = page.locator("a[href^='https://review.example.org/q/']")
        assert links.count() >= 2
        if kind == "bisection":
            value = page.locator(".value").first
            assert "rgb(36, 104, 178)" == value.evaluate("dot => getComputedStyle(dot).fill")
            assert page.locator(".plot svg").first.bounding_box()["height"] > 100  # type: ignore[index]

    assert "rgb(198, 47, 43)" == colour
    assert set() == refused


def test_mail_loads_nothing_and_shows_its_styles(browser: Browser, tmp_path: Path) -> None:
    """A mail program has no files but the mail, and removes style sheets."""
    verdicts = example_verdicts(tests=26, runs=90)
    run = verdicts[0].series.runs[-1]
    mails.write(tmp_path, verdicts, run=run, links=mails.Links(settings=SETTINGS))
    policy = "default-src 'none'; style-src-attr 'unsafe-inline'"
    with (
        jenkins(tmp_path / "mails", policy) as address,
        opened(browser, f"{address}/regressions.html", java_script_enabled=False, width=600) as page,
    ):
        refused = refusals(page)
        page.reload()
        assert "rgb(255, 255, 255)" == page.locator("body").evaluate(
            "body => getComputedStyle(body).backgroundColor"
        )
        expect(page.locator("pre").first).to_contain_text("bisecttest-2n-clx ")

    assert set() == refused


def test_jenkins_shows_a_search_as_it_is(browser: Browser, artifact: str) -> None:
    with opened(browser, artifact) as page:
        with page.expect_response("**/search-0.svg") as response:
            page.locator("summary").first.click()

        graph = page.locator(".search-graph a").first
        assert response.value.ok
        assert "search-0.svg" in graph.evaluate("link => getComputedStyle(link).backgroundImage")
        assert graph.bounding_box()["width"] > 700  # type: ignore[index]


def test_jenkins_lets_verdicts_be_hidden(browser: Browser, artifact: str) -> None:
    with opened(browser, artifact) as page:
        page.get_by_label("normal 20").uncheck()

        expect(page.locator(".test:visible")).to_have_count(6)


@pytest.mark.parametrize("scripts", [True, False])
def test_address_of_a_test_opens_it(
    browser: Browser, index: Path, verdicts: list[Verdict], *, scripts: bool
) -> None:
    key = verdicts[-1].series.key
    with opened(browser, f"{index.as_uri()}#{key.hash}", java_script_enabled=scripts) as page:
        expect(page.locator(f"[id='{key.hash}'] .parameters")).to_be_in_viewport()


def test_find_leaves_the_tests_with_every_word(browser: Browser, index: Path) -> None:
    with opened(browser, index.as_uri()) as page:
        page.get_by_label("Find").fill("acl60 1518B")
        expect(page.locator(".test:visible")).to_have_count(1)

        page.get_by_label("Find").fill("no such thing")
        expect(page.get_by_text("No test matches.")).to_be_visible()


def test_hostile_texts_do_nothing(browser: Browser, tmp_path: Path) -> None:
    (verdict,) = example_verdicts(tests=1, runs=20)
    parameters = {**verdict.series.key.as_dict(), "test": HOSTILE, "suite": HOSTILE}
    runs = tuple(replace(run, job=HOSTILE, versions={HOSTILE: HOSTILE}) for run in verdict.series.runs)
    key = type(verdict.series.key).of(**parameters)
    hostile = replace(
        verdict, series=replace(verdict.series, key=key, runs=runs, unit=HOSTILE), reason=HOSTILE
    )

    with opened(browser, write(tmp_path, [hostile]).as_uri()) as page:
        curves = draw_first(page)
        page.locator(".plot .points path").last.hover(force=True)
        expect(page.locator(".plot .hoverlayer")).to_contain_text(HOSTILE.split(maxsplit=1)[0])
        assert page.locator("img").count() == 0
        expect(page.locator("tr summary")).to_have_text(HOSTILE)

    assert curves


def test_simulated_values_say_so_in_the_graph(browser: Browser, index: Path) -> None:
    with opened(browser, index.as_uri()) as page:
        expect(page.locator(".banner")).to_contain_text("SIMULATED")
        curves = draw_first(page)
        expect(page.locator(".plot .annotation-text")).to_have_text("SIMULATED")

    measured = next(curve for curve in curves if curve["name"] == "measured")
    assert all("SIMULATED" in text for text in measured["text"])


def test_measured_values_are_not_called_simulated(browser: Browser, tmp_path: Path) -> None:
    (verdict,) = example_verdicts(tests=1, runs=20)
    runs = tuple(replace(run, simulated=False) for run in verdict.series.runs)
    measured = replace(verdict, series=replace(verdict.series, runs=runs))

    with opened(browser, write(tmp_path, [measured]).as_uri()) as page:
        curves = draw_first(page)
        expect(page.locator("body")).not_to_contain_text(re.compile("simulated", re.IGNORECASE))

    assert "SIMULATED" not in str(curves)


def test_single_run_is_shown_at_its_height(browser: Browser, tmp_path: Path) -> None:
    (verdict,) = example_verdicts(tests=1, runs=20)
    first = slice(0, 1)
    series = replace(
        verdict.series,
        runs=verdict.series.runs[first],
        samples=verdict.series.samples[first],
        results=verdict.series.results[first],
    )
    alone = replace(
        verdict,
        series=series,
        groups=(replace(verdict.groups[0], stop=1),),
        changes=(),
        outliers=np.zeros(1, bool),
    )

    with opened(browser, write(tmp_path, [alone]).as_uri()) as page:
        names = [curve["name"] for curve in draw_first(page)]
        low, high = page.evaluate("document.querySelector('.plot').layout.yaxis.range")

    assert ["trend", "measured"] == names
    assert 0.9 * high < low < series.samples[0] / 1e6 < high


@pytest.mark.parametrize("width", [320, 420, 800, 1280])
def test_nothing_is_wider_than_the_window(browser: Browser, index: Path, width: int) -> None:
    with opened(browser, index.as_uri(), width=width) as page:
        draw_first(page)

        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_their_background(browser: Browser, index: Path, scheme: str) -> None:
    """Contrast of at least 4.5, as the Web Content Accessibility Guidelines ask for."""
    with opened(browser, index.as_uri(), color_scheme=scheme) as page:
        colours = page.evaluate(
            "Object.fromEntries(['paper', 'hover', 'ink', 'soft', 'trend', 'worse', 'better', 'doubt'].map("
            "(name) => [name, getComputedStyle(document.documentElement).getPropertyValue('--' + name)]))"
        )

    contrasts = {
        (word, ground): contrast(colours[word], colours[ground])
        for word in ("ink", "soft", "trend", "worse", "better", "doubt")
        for ground in ("paper", "hover")
    }
    assert {} == {pair: ratio for pair, ratio in contrasts.items() if ratio < 4.5}


@pytest.mark.parametrize("width", [390, 1440])
def test_report_has_no_serious_accessibility_problem(browser: Browser, index: Path, width: int) -> None:
    with jenkins(index.parent) as address, opened(browser, f"{address}/index.html", width=width) as page:
        draw_first(page)
        page.locator("#builds summary").click()

        assert [] == violations(page)


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("kind", ["bisection", "per-patch test"])
def test_other_reports_have_no_serious_accessibility_problem(
    browser: Browser, tmp_path: Path, kind: str, width: int
) -> None:
    write_other(tmp_path / "report", kind)
    with (
        jenkins(tmp_path / "report") as address,
        opened(browser, f"{address}/index.html", width=width) as page,
    ):
        assert [] == violations(page)


def write_other(folder: Path, kind: str) -> Path:
    if kind == "bisection":
        return bisect.write(folder, slower(settings=SETTINGS))
    return perftest.write(folder, compared({"acl": (10e6, 9e6)}, settings=SETTINGS))


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    """Relative luminance of an sRGB colour such as ``#1c2126``."""
    red, green, blue = (int(part, 16) / 255 for part in re.findall(r"[0-9a-f]{2}", colour))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

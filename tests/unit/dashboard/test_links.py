from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perftrend.dashboard import links
from perftrend.dashboard.explore.state import ExploreState, read
from perftrend.model import Run
from perftrend.settings import Settings

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLAIN = Settings.load(environment={})
JENKINS = Settings.load(environment={}, overrides={"jenkins.url": "https://ci.example.org/jenkins"})
GERRIT = Settings.load(environment={}, overrides={"gerrit.url": "https://review.example.org"})


def run(archive: str, job: str = "nightly") -> Run:
    return Run("2n-clx", job, 12, NOW, NOW, {}, archive)


def test_build_of_ours_has_its_files_as_artifacts() -> None:
    build = "https://ci.example.org/job/team/job/nightly/12"

    assert links.of_run(run(f"{build}/", "team/nightly"), PLAIN) == {
        "build": f"{build}/",
        "log": f"{build}/artifact/archives/team-nightly/12/log.html",
        "report": f"{build}/artifact/report/index.html",
        "archive": f"{build}/artifact/",
    }


@pytest.mark.parametrize("file", ["/output.xml.gz", "/output.json", ""])
def test_log_lies_beside_the_output(file: str) -> None:
    found = links.of_run(run(f"https://logs.example.org/nightly/12/archives{file}"), PLAIN)

    assert found["log"] == "https://logs.example.org/nightly/12/archives/log.html"


def test_build_is_found_by_the_settings() -> None:
    found = links.of_run(run("", "team/a b"), JENKINS)

    assert found == {"build": "https://ci.example.org/jenkins/job/team/job/a%20b/12/"}


@pytest.mark.parametrize(
    "archive", ["/srv/archives/12", "javascript:alert(1)", "file:///etc/passwd", "ftp://x/y"]
)
def test_only_addresses_of_http_are_linked(archive: str) -> None:
    assert links.of_run(run(archive), PLAIN) == {}


def test_job_that_no_jenkins_has_gives_no_link() -> None:
    assert links.of_run(run("", "../.."), JENKINS) == {}


def test_commit_is_searched_where_it_is_reviewed() -> None:
    assert links.of_commit("0123abc", GERRIT) == "https://review.example.org/q/0123abc"
    assert links.of_commit("0123abc", PLAIN) == ""
    assert links.of_commit("", GERRIT) == ""


@pytest.mark.parametrize("shortcut", ["", "X12"])
def test_plot_is_found_by_what_its_page_understands(shortcut: str) -> None:
    ids = (",frame=64B,test=a b&c,", ",frame=1518B,")

    url = links.of_plot(testbed="2n-clx", ids=ids, shortcut=shortcut)

    assert read(url.removeprefix("/explore?")) == ExploreState(testbed="2n-clx", ids=ids, shortcut=shortcut)


@pytest.mark.parametrize(
    ("columns", "count", "tile", "points"),
    [
        (range(20, 80), 100, None, 128),
        (range(140, 200), 210, None, 128),
        (range(140, 200), 900, 1, 128),
        (range(100, 160), 900, 1, 256),
        (range(100, 400), 900, 3, 512),
        (range(790, 850), 900, None, 128),
    ],
)
def test_part_of_a_plot_has_all_of_its_columns(
    columns: range, count: int, tile: int | None, points: int
) -> None:
    assert links.PlotPart(columns, tile, points) == links.PlotPart.of(columns, count)


def test_address_of_a_part_is_read_by_explore() -> None:
    url = links.of_plot(testbed="2n-clx", ids=[",test=a,"], part=links.PlotPart.of(range(100, 160), 900))

    state = read(url.partition("?")[2])

    assert (0, 1, 256) == (state.scale, state.tile, state.points)
    assert state.zoom.columns is not None
    assert (99.5, 159.5) == (state.zoom.columns.low, state.zoom.columns.high)

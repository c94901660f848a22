"""What an item shows of its range: commits with authors, the environment, and its history."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from perftrend.builds import find_mirror, open_builds
from perftrend.dashboard import AppContext
from perftrend.dashboard.triage.item_details import history_entry
from perftrend.dashboard.triage.models import ItemDetail
from perftrend.dashboard.triage.views import item_detail
from perftrend.model import EnvironmentChange
from perftrend.settings import Settings
from perftrend.store import Store
from perftrend.store.activity import ActivityEntry
from perftrend.store.alerts import Alert
from tests.products.histories import History
from tests.unit.dashboard.triage.conftest import MEASURED, Nights, commit

NOW = datetime(2026, 2, 1, tzinfo=UTC)


def detail_of(store: Store, settings: Settings) -> ItemDetail:
    site = AppContext.of(settings, store)
    (item,) = Nights(store).items()
    return item_detail(site, item, may_edit=True)


@pytest.fixture
def project(tmp_path: Path) -> Settings:
    """Return settings of a project, without a mirror yet."""
    return Settings.load(
        environment={},
        overrides={
            "project.profile": "embedded-router",
            "project.repository": str(tmp_path / "source"),
            "project.builds": str(tmp_path / "builds"),
            "gerrit.url": "https://review.example.org",
        },
    )


@pytest.mark.parametrize("digits", [40, 9])
def test_commits_have_subjects_and_authors_from_the_mirror(
    store: Store, project: Settings, tmp_path: Path, alert: Alert, digits: int
) -> None:
    history = History(tmp_path / "source")
    made = [history.commit(f"Number {number}", {"file": f"{number}"}) for number in range(60)]
    # Every second commit is measured.
    nights = Nights(store, versions=lambda night: {"device": made[2 * night][:digits]})
    nights.measure(MEASURED)
    nights.evaluate()

    before = detail_of(store, project)
    open_builds(project.project).close()
    after = detail_of(store, project)

    assert "measured" == before.commits_are
    assert [(made[40][:digits], "", "")] == [
        (each.commit, each.subject, each.author) for each in before.commits
    ]
    assert "all" == after.commits_are
    assert [(made[39], "Number 39", False), (made[40], "Number 40", True)] == [
        (each.commit, each.subject, each.started is not None) for each in after.commits
    ]
    assert {"Ada Example"} == {each.author for each in after.commits}
    assert f"https://review.example.org/q/{made[39]}" == after.commits[0].link


def test_mirror_without_the_commits_is_like_none(
    nights: Nights, project: Settings, tmp_path: Path, alert: Alert
) -> None:
    History(tmp_path / "source").commit("Another", {"file": "1"})
    open_builds(project.project).close()
    nights.evaluate()

    detail = detail_of(nights.store, project)

    assert ("measured", [commit(20)]) == (detail.commits_are, [each.commit for each in detail.commits])


def test_mirror_is_found_without_the_network(project: Settings) -> None:
    assert find_mirror(project.project, timeout_s=1.0) is None
    assert not project.project.builds.exists()


def test_environment_names_what_else_changed(store: Store, alert: Alert, settings: Settings) -> None:
    nights = Nights(
        store,
        versions=lambda night: {
            "device": commit(night), "vpp": commit(night), "kernel": "6.1",
            "generator": "trex 3.00" if night < 20 else "trex 3.04",
        },
    )  # fmt: skip
    nights.measure(MEASURED)
    nights.evaluate()

    detail = detail_of(store, settings)

    wanted = EnvironmentChange(name="generator", before="trex 3.00", after="trex 3.04")
    assert ([wanted], False) == (detail.environment, detail.same_commit)


def test_change_between_two_runs_of_one_commit_is_not_the_product(
    store: Store, alert: Alert, settings: Settings
) -> None:
    nights = Nights(store, versions=lambda night: {"device": commit(20 if night == 19 else night)})
    nights.measure(MEASURED)
    nights.evaluate()

    detail = detail_of(store, settings)

    assert (True, "", None) == (detail.same_commit, detail.git_log, detail.bisect)


@pytest.mark.parametrize(
    ("user", "action", "detail", "text"),
    [
        ("evaluation", "found", "regression on 2n-clx", "Found as a regression on 2n-clx"),
        ("evaluation", "joined", "2 more traces", "Found in 2 more traces"),
        ("evaluation", "closed", "no longer found", "Closed automatically: no longer found"),
        ("evaluation", "reopened", "found again", "Reopened automatically: found again"),
        ("alerts", "sent", "mail of alert 3", "Mail sent for Nightly"),
        ("alerts", "sent", "mail of alert 4", "Mail sent for a deleted alert"),
        ("ann", "triaged", "new → bug: #4711", "ann changed the status from new to bug: #4711"),
        ("ann", "triaged", "bug → closed", "ann changed the status from bug to closed"),
        ("ann", "triaged", "bug: see → x", "ann changed the message: see → x"),
        ("ann", "triaged", "bug", "ann removed the message"),
        ("bisection", "assigned", "Ada", "bisection assigned it to Ada"),
        ("ann", "painted", "{red}", "ann painted it: {red}"),
    ],
)
def test_history_is_readable(user: str, action: str, detail: str, text: str) -> None:
    entry = ActivityEntry(1, NOW, user, action, "item 7", detail)

    assert text == history_entry(entry, {3: "Nightly"}).text

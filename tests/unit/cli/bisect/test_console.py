"""The console and the archive of a bisection."""

from __future__ import annotations

import json

import pytest

from perftrend import builds
from tests.unit.cli.bisect.conftest import Place


def test_archive_has_the_documented_folders_the_session_and_the_report(place: Place) -> None:
    place.product.range(100, 100, 100, 90, 90)
    place.search()

    build = place.archive / "1"
    assert {"parent", "current", "parent1", "parent2", "report"} == {
        each.name for each in build.iterdir() if each.is_dir()
    }
    assert (build / "parent" / "1" / "measured.json").is_file()
    assert (build / "report" / "bisection.json").is_file()
    assert [] == place.sessions
    told = [each["archive"] for each in place.report()["measurements"]]
    assert all((place.archive / each / "measured.json").is_file() for each in told)
    records = [json.loads(line) for line in (build / "session.jsonl").read_text().splitlines()]
    assert ("range", "ended") == (records[0]["record"], records[-1]["record"])


def test_who_asks_the_same_again_gets_it_measured_anew(place: Place) -> None:
    place.product.range(100, 100, 90)
    place.search()
    once = len(place.measured)

    assert 1 == place.search().exit_code
    assert 2 * once == len(place.measured)
    assert {"1", "2"} == {each.name for each in place.archive.iterdir()}
    assert 3 == len(place.built), "what was built is kept"


def test_command_to_repeat_it_says_everything(place: Place) -> None:
    place.product.range(100, 100, 90)
    place.search("--first-parent", "--trial-duration", "2")
    command = place.report()["command"]

    old, _, new = place.product.hashes
    assert command.startswith(f"./run bisect --settings settings.yaml --old {old} --new {new}")
    assert command.endswith("--trial-duration 2.0 --first-parent")


def test_password_of_the_repository_is_not_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.product.range(100, 100, 90)
    folder = place.bench.folder / "product"
    url = f"file://ada:secret@{folder}"
    monkeypatch.setattr(
        builds,
        "open_builds",
        lambda project, usual=builds.open_builds, **options: usual(
            project.model_copy(update={"repository": str(folder)}), **options
        ),
    )

    ended = place.search("--repository", url)

    told = [each.read_text() for each in place.bench.folder.rglob("report/*")]
    assert 1 == ended.exit_code, ended.err
    assert "secret" not in "".join([ended.out, ended.err, *told])


def test_dry_run_measures_nothing(place: Place) -> None:
    place.product.range(100, 100, 90)

    ended = place.search("--dry-run")

    assert 0 == ended.exit_code
    told = "Would search 2 commits, measured by sh measure.sh. Nothing was measured."
    assert f"perftrend verdict: {told}" == ended.out.splitlines()[-1]
    assert [] == place.measured == place.sessions

"""A bisection that is ended at any point can be resumed."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from perftrend.bisect import BisectSession
from perftrend.bisect.session import Journal
from perftrend.builds import Builds
from perftrend.files import hold_lock
from perftrend.model import BuildMeasurement
from tests.unit.cli.bisect.conftest import Place, raising, stopped_after


class Killed(BaseException):
    """What a kill looks like from inside."""


def test_killed_at_any_point_it_goes_on_and_does_nothing_twice(
    place: Place, monkeypatch: pytest.MonkeyPatch, *, thorough: bool
) -> None:
    """Each start dies at the next record that it writes, before or after it is on the disk."""
    half, broken = (9, 7) if thorough else (6, 4)
    place.product.range(*[100] * half, *[90] * half, broken=(broken,))
    undisturbed = place.search()
    expected, steps = place.culprits(), list(place.measured)
    place.measured.clear()
    place.built.clear()
    (place.bench.folder / "builds").rename(place.bench.folder / "others")

    deaths = Deaths()
    monkeypatch.setattr(Journal, "append", deaths.deadly(Journal.append))
    starts = 0
    while True:
        starts += 1
        deaths.left, deaths.before = 1 + starts % 3, bool(starts % 2)
        try:
            ended = place.search()
        except Killed:
            continue
        break

    assert starts > 5
    assert undisturbed.out.splitlines()[-1] == ended.out.splitlines()[-1]
    assert expected == place.culprits()
    assert steps == place.measured
    assert len(set(place.built)) == len(
        [each for each in place.built if each != place.product.hashes[broken]]
    )
    assert {"1", "2"} == {each.name for each in place.archive.iterdir()}


@dataclass
class Deaths:
    """Kills who adds a record."""

    left: int = 0
    """After so many more."""
    before: bool = False
    """Whether the last one is not written any more."""

    def deadly(
        self, usual: Callable[[Any, Mapping[str, Any]], None]
    ) -> Callable[[Any, Mapping[str, Any]], None]:
        def append(journal: Journal, record: Mapping[str, Any]) -> None:
            self.left -= 1
            if self.left or not self.before:
                usual(journal, record)
            if not self.left:
                raise Killed

        return append


def test_interrupted_it_says_what_is_known_and_goes_on(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.product.range(*[100] * 9, *[90] * 9)
    usual = Builds.measure

    def interrupted(self: Builds, built: Any, number: int) -> BuildMeasurement:
        if len(place.measured) == 4:
            raise KeyboardInterrupt
        return usual(self, built, number)

    with monkeypatch.context() as patch:
        patch.setattr(Builds, "measure", interrupted)
        stopped = place.search()
    assert 130 == stopped.exit_code
    verdict = stopped.out.splitlines()[-1]
    assert "Undecided, because it was interrupted, and resumes when the same command" in verdict
    assert "most likely, with " in verdict
    assert 1 == len([each for each in place.sessions if each.suffix == ".jsonl"])

    ended = place.search()

    assert (1, [[9]]) == (ended.exit_code, place.culprits())
    assert ["1"] == [each.name for each in place.archive.iterdir()]
    assert len(place.report()["measurements"]) == len(place.measured)


def test_interrupted_before_the_first_measurement_it_says_so(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.product.range(100, 100, 90)

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(BisectSession, "run", interrupted)

    ended = place.search()

    assert 130 == ended.exit_code
    assert "perftrend verdict: Undecided, because it was interrupted" in ended.out


def test_full_disk_ends_it_in_one_line_and_it_goes_on(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.product.range(*[100] * 5, *[90] * 5)
    with monkeypatch.context() as patch:
        usual = Journal.append

        def append(journal: Journal, record: Mapping[str, Any]) -> None:
            if len(place.measured) == 5:
                raise OSError(errno.ENOSPC, "No space left on device", "session.jsonl")
            usual(journal, record)

        patch.setattr(Journal, "append", append)
        ended = place.search()
    assert 3 == ended.exit_code
    assert "session.jsonl: No space left on device; free some space" in ended.err.splitlines()[-1]

    assert (1, [[5]]) == (place.search().exit_code, place.culprits())
    assert len(place.report()["measurements"]) == len(place.measured)


def test_session_whose_first_record_is_torn_begins_anew(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.product.range(100, 100, 90)
    stopped_after(place, 0, monkeypatch)
    [session] = [each for each in place.sessions if each.suffix == ".jsonl"]
    session.write_text('{"record":"ra')

    assert 1 == place.search().exit_code


def test_build_of_jenkins_goes_on_with_the_session_of_another(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.product.range(100, 100, 90, 90)
    monkeypatch.setenv("BUILD_NUMBER", "41")
    stopped_after(place, 3, monkeypatch)
    monkeypatch.setenv("BUILD_NUMBER", "42")

    assert 1 == place.search().exit_code
    folders = {each["archive"].split("/")[0] for each in place.report()["measurements"]}
    assert {"41", "42"} == folders
    assert len(place.report()["measurements"]) == len(place.measured)


def test_what_the_nights_add_to_the_store_does_not_end_a_session(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.product.range(100, 100, 90)
    with monkeypatch.context() as patch:
        patch.setattr("perftrend.bisect.runner.read_deviations", lambda *_: {"command": 0.5})
        patch.setattr(Builds, "measure", raising(KeyboardInterrupt))
        place.search()
    monkeypatch.setattr("perftrend.bisect.runner.read_deviations", lambda *_: {"command": 0.6})

    assert 1 == place.search().exit_code


def test_two_do_not_answer_the_same_question_at_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.product.range(100, 100, 90)
    stopped_after(place, 0, monkeypatch)
    [session] = [each for each in place.sessions if each.suffix == ".jsonl"]

    with hold_lock(session.with_suffix(".lock")):
        ended = place.search()

    assert 2 == ended.exit_code
    assert "another process works on the same request; wait until it has ended" in ended.err


def test_build_of_another_question_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.product.range(100, 100, 90)
    monkeypatch.setenv("BUILD_NUMBER", "7")
    place.search()

    ended = place.run("--old", place.product.hashes[1], "--new", place.product.hashes[2])

    assert 2 == ended.exit_code
    assert "contains the result of another request" in ended.err


@pytest.mark.parametrize(
    ("asked", "other"),
    [
        ("gerrit:", "bisect: {maximum_changes: 1}\ngerrit:"),
        ("gerrit:", "bisect: {search_equal_ends: true}\ngerrit:"),
        ("sh measure.sh", "sh -u measure.sh"),
    ],
)
def test_other_limits_and_commands_are_another_question(
    place: Place, asked: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who changes them while a session is unfinished gets a new one, and the old one goes on later."""
    place.product.range(*[100] * 5, *[90] * 5)
    file = place.bench.folder / "settings.yaml"
    usual = file.read_text()
    stopped_after(place, 3, monkeypatch)
    unfinished = [each.read_text() for each in place.sessions]
    file.write_text(usual.replace(asked, other))

    assert (1, [[5]]) == (place.search().exit_code, place.culprits())
    assert unfinished == [each.read_text() for each in place.sessions]

    file.write_text(usual)
    again = place.search()
    assert (1, [[5]]) == (again.exit_code, place.culprits())
    assert "continuing after 3 measurements" in again.out


def test_undecided_search_fails_and_goes_on_with_more_measurements(place: Place) -> None:
    place.product.range(*[100] * 5, *[90] * 5)

    first = place.search("--measurements", "6")
    assert (4, 6) == (first.exit_code, len(place.measured))
    assert "more measurements might decide it." in first.out.splitlines()[-1]
    second = place.search("--measurements", "100")

    assert (1, [[5]]) == (second.exit_code, place.culprits())
    assert "continuing after 6 measurements" in second.out
    assert len(place.report()["measurements"]) == len(place.measured)

"""Commits that will probably be needed next are built in advance."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perftrend.bisect import Adaptive, BisectSession, CommitRange, CsitHalving, Strategy, load
from perftrend.builds import BackgroundBuilds, Builds, BuiltCommit
from perftrend.clients.git import Repository
from perftrend.errors import BuildError, TestbedError
from perftrend.files import hold_lock
from perftrend.model import BuildMeasurement, MetricSamples
from tests.products.histories import History
from tests.unit.builds.conftest import Open, ended


def commits(history: History, count: int) -> list[str]:
    return [history.commit(f"Number {number}", {"in": str(number)}) for number in range(count)]


class Gate:
    """Commands of a build that say that they have begun, and go on when they are told to."""

    def __init__(self, folder: Path) -> None:
        self.began, self.goes_on, self.child = folder / "began", folder / "goes-on", folder / "child"
        for name in (self.began, self.goes_on):
            os.mkfifo(name)

    @property
    def build(self) -> list[list[str]]:
        waits = f"sleep 1000 & echo $! > {self.child}; cat in > {self.began}; cat {self.goes_on}; cp in out"
        return [["sh", "-c", waits]]

    def await_begin(self) -> str:
        """Return what is built."""
        return self.began.read_text()

    def open(self) -> None:
        self.goes_on.write_text("")

    def child_ended(self) -> bool:
        return ended(int(self.child.read_text()))


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def finish(ahead: BackgroundBuilds) -> None:
    """Wait until all is built that is expected."""
    for work, _ in ahead._begun.values():
        work.result()


def begun(said: Sequence[str]) -> set[str]:
    """Return the first digits of the commits that were begun to be built."""
    return {line.split()[2].rstrip(":") for line in said if line.endswith(": building")}


def test_commit_is_built_while_something_else_is_done(history: History, opened: Open, gate: Gate) -> None:
    (commit,) = commits(history, 1)
    with BackgroundBuilds(opened(build=gate.build), 1) as ahead:
        ahead.expect([commit])
        assert "0" == gate.await_begin()
        gate.open()

        assert "0" == (ahead.build(commit).folder / "out").read_text()


def test_build_under_way_is_waited_for_and_not_made_twice(
    history: History, opened: Open, gate: Gate, said: list[str]
) -> None:
    (commit,) = commits(history, 1)
    with BackgroundBuilds(opened(build=gate.build), 1) as ahead:
        ahead.expect([commit])
        gate.await_begin()
        ahead.expect([commit])
        gate.open()

        assert ahead.build(commit).was_cached
    assert 1 == len([line for line in said if line.endswith(": building")])


def test_what_is_asked_for_goes_first_and_what_was_begun_for_nothing_is_ended(
    history: History, opened: Open, tmp_path: Path, said: list[str]
) -> None:
    wrong, right = commits(history, 2)
    gate = Gate(tmp_path)
    only_wrong = f"[ $(cat in) = 1 ] && cp in out && exit; {gate.build[0][2]}"
    builds = opened(build=[["sh", "-c", only_wrong]])
    with BackgroundBuilds(builds, 1) as ahead:
        ahead.expect([wrong])
        gate.await_begin()

        assert "1" == (ahead.build(right).folder / "out").read_text()
    assert gate.child_ended()
    assert f"ours at {wrong[:12]}: ended, because it is not needed" in said
    assert not builds.is_cached(wrong)
    assert [] == list((builds.folder / "worktrees").iterdir())


def test_what_is_no_longer_expected_is_ended_and_other_expected_ones_are_built(
    history: History, opened: Open, tmp_path: Path
) -> None:
    wrong, right = commits(history, 2)
    gate = Gate(tmp_path)
    builds = opened(build=[["sh", "-c", f"[ $(cat in) = 1 ] && cp in out && exit; {gate.build[0][2]}"]])
    with BackgroundBuilds(builds, 1) as ahead:
        ahead.expect([wrong])
        gate.await_begin()
        ahead.expect([right])
        finish(ahead)

        assert builds.is_cached(right)
        assert not builds.is_cached(wrong)


def test_end_does_not_wait_for_what_is_built_ahead(history: History, opened: Open, gate: Gate) -> None:
    (commit,) = commits(history, 1)
    builds = opened(build=gate.build)
    with BackgroundBuilds(builds, 1) as ahead:
        ahead.expect([commit])
        gate.await_begin()

    assert gate.child_ended()
    assert [] == list((builds.folder / "worktrees").iterdir())
    assert not builds.is_cached(commit)
    assert builds.log_of(commit).exists()


def test_build_that_was_ended_is_no_failure_of_the_commit(history: History, opened: Open, gate: Gate) -> None:
    (commit,) = commits(history, 1)
    builds = opened(build=gate.build)
    with BackgroundBuilds(builds, 1) as ahead:
        ahead.expect([commit])
        gate.await_begin()
        ahead.expect([])
        finish(ahead)
        ahead.expect([commit])
        gate.await_begin()
        gate.open()

        assert ahead.build(commit)


def test_no_more_are_built_ahead_than_allowed(history: History, opened: Open, said: list[str]) -> None:
    all_ = commits(history, 4)
    with BackgroundBuilds(opened(), 2) as ahead:
        ahead.expect(iter(all_))
        finish(ahead)

        assert {each[:12] for each in all_[:2]} == begun(said)

    with BackgroundBuilds(opened(), 0) as ahead:
        ahead.expect(iter(all_))

        assert 2 == len(begun(said))
        assert ahead.build(all_[3])


def test_failure_is_told_when_the_commit_is_asked_for(
    history: History, opened: Open, said: list[str]
) -> None:
    bad, good = commits(history, 2)
    with BackgroundBuilds(opened(build=[["sh", "-c", "[ $(cat in) = 1 ] && cp in out"]]), 2) as ahead:
        ahead.expect([bad, good])
        finish(ahead)

        assert ahead.build(good).was_cached
        with pytest.raises(BuildError, match="build failed"):
            ahead.build(bad)
    assert {bad[:12], good[:12]} == begun(said)
    assert 2 == len([line for line in said if line.endswith(": building")])


def test_fault_of_the_machine_is_told_when_the_commit_is_asked_for(history: History, opened: Open) -> None:
    (commit,) = commits(history, 1)
    with BackgroundBuilds(opened(build=[["no-such-program"]]), 1) as ahead:
        ahead.expect([commit])
        finish(ahead)

        with pytest.raises(TestbedError, match="no-such-program is missing"):
            ahead.build(commit)


def test_what_another_process_builds_is_not_waited_for_ahead(
    history: History, opened: Open, said: list[str]
) -> None:
    other, free = commits(history, 2)
    builds = opened()
    with hold_lock(builds._cache.lock(builds._key(other))), BackgroundBuilds(builds, 2) as ahead:
        ahead.expect([other, free])
        finish(ahead)

        assert builds.is_cached(free)
    assert {free[:12]} == begun(said)
    assert not [line for line in said if "waiting" in line]


# ---- a bisection that builds while it measures

LEVELS = (*[100.0] * 11, *[80.0] * 6)


class Beside:
    """A bisection, each measurement of which takes as long as building what is expected meanwhile."""

    def __init__(self, builds: Builds, asked: CommitRange, file: Path, strategy: Strategy, most: int) -> None:
        self.ahead = BackgroundBuilds(builds, most)
        self.was_ready: list[bool] = []
        """Of each commit, whether it was built when it was asked for."""
        self.measured = 0
        self.session = BisectSession(
            file, asked, strategy, build=self.build, measure=self.measure, expect=self.ahead.expect
        )

    def build(self, commit: str) -> BuiltCommit:
        built = self.ahead.build(commit)
        self.was_ready.append(built.was_cached)
        # What a build takes is not the same twice, and the strategy looks at it.
        return replace(built, took_s=600.0)

    def measure(self, built: BuiltCommit) -> BuildMeasurement:
        finish(self.ahead)
        level = LEVELS[int((built.folder / "out").read_text())] * (1 + 0.001 * (self.measured % 3))
        began = datetime(2026, 3, 2, 18, tzinfo=UTC) + timedelta(minutes=5 * self.measured)
        self.measured += 1
        return BuildMeasurement(
            built.commit, began, began + timedelta(seconds=50), {"t": MetricSamples((level,) * 3)}
        )

    def run(self) -> None:
        with self.ahead:
            self.session.run()


def ranged(history: History, broken: Collection[int] = ()) -> CommitRange:
    for number in range(len(LEVELS)):
        works = "exit 1" if number in broken else "cp in out"
        history.commit(f"Number {number}", {"in": str(number), "build": works})
    old = history.git("rev-list", "--max-parents=0", "HEAD")
    new = history.git("rev-parse", "HEAD")
    return CommitRange.of(old, Repository.at(history.folder).history(old, new))


@pytest.mark.parametrize("strategy", [CsitHalving(), Adaptive()])
@pytest.mark.parametrize("broken", [(), (8, 9)])
def test_same_is_decided_with_and_without_builds_ahead(
    strategy: Strategy,
    broken: Collection[int],
    history: History,
    opened: Open,
    tmp_path: Path,
    *,
    thorough: bool,
) -> None:
    asked = ranged(history, broken)
    known = []
    for most in (0, 1, 2) if thorough else (0, 2):
        builds = opened(build=[["sh", "build"]], environment={"KEPT_FOR": str(most)})
        Beside(builds, asked, tmp_path / str(most), strategy, most).run()
        known.append(load(tmp_path / str(most)))

    one, *others = known
    for other in others:
        assert (one.steps, one.measured) == (other.steps, other.measured)
        assert (one.built, list(one.broken)) == (other.built, list(other.broken))
    assert {history.git("rev-parse", f"HEAD~{16 - number}") for number in broken} >= set(one.broken)


@pytest.mark.parametrize("strategy", [CsitHalving(), Adaptive()])
def test_all_between_the_ends_was_ready_when_it_was_asked_for(
    strategy: Strategy, history: History, opened: Open, tmp_path: Path
) -> None:
    """The change is plain to see, and two builds fit into a measurement."""
    asked = ranged(history)
    alone, beside = (
        Beside(opened(environment={"KEPT_FOR": str(most)}), asked, tmp_path / str(most), strategy, most)
        for most in (0, 2)
    )
    alone.run()
    beside.run()

    assert not any(alone.was_ready)
    assert [False, False] == beside.was_ready[:2]
    assert len(beside.was_ready) > 4
    assert all(beside.was_ready[2:])

import math
from pathlib import Path

import pytest

from perftrend.bisect import BisectOutcome, BisectSession, CommitRange, CsitHalving, OutcomeKind
from perftrend.bisect.state import RangeCommit
from perftrend.model import Better, Direction
from tests.unit.bisect.world import World, line, names, stepped


def bisected(world: World, asked: CommitRange, folder: Path, **options: int) -> BisectOutcome:
    session = BisectSession(
        folder / "session", asked, CsitHalving(**options), build=world.build, measure=world.measure
    )
    return session.run()


@pytest.mark.parametrize("culprit", [1, 2, 9, 16, 17])
def test_quiet_change_is_found_by_halving(culprit: int, tmp_path: Path) -> None:
    world = World(stepped(17, {culprit: 0.8}), noise=0.001)

    outcome = bisected(world, line(17), tmp_path)

    assert outcome.kind is OutcomeKind.FOUND
    assert [names([culprit])] == [each.commits for each in outcome.culprits]
    assert outcome.culprits[0].effects["t"].relative == pytest.approx(-0.2, abs=0.01)
    assert len(world.measured) <= 2 + 5
    assert ["c0", "c17", "c8"] == world.built[:3]


def test_middle_build_that_stays_apart_keeps_the_larger_change(tmp_path: Path) -> None:
    world = World(stepped(16, {4: 0.9, 12: 0.7}), noise=0.001)

    outcome = bisected(world, line(16), tmp_path)

    assert names([12]) == outcome.culprits[0].commits


def test_commits_that_do_not_build_are_skipped_and_told_where_they_hide_it(tmp_path: Path) -> None:
    world = World(stepped(16, {8: 0.8}), noise=0.001, broken={"c7", "c8", "c3"})

    outcome = bisected(world, line(16), tmp_path)

    assert names([7, 8, 9]) == outcome.culprits[0].commits
    assert "do not build" in outcome.reason


@pytest.mark.parametrize(("broken", "name"), [("c0", "old"), ("c16", "new")])
def test_end_that_does_not_build_ends_it(broken: str, name: str, tmp_path: Path) -> None:
    world = World(stepped(16, {}), broken={broken})

    outcome = bisected(world, line(16), tmp_path)

    assert outcome.kind is OutcomeKind.NOT_BUILT
    assert f"the {name} commit {broken} does not build: {broken}: make failed" == outcome.reason


def test_test_that_fails_from_a_commit_on_is_a_change(tmp_path: Path) -> None:
    levels = stepped(16, {})
    for index in range(6, 17):
        levels[f"c{index}"] = {}

    outcome = bisected(World(levels, noise=0.001), line(16), tmp_path)

    effect = outcome.culprits[0].effects["t"]
    assert names([6]) == outcome.culprits[0].commits
    assert math.isnan(effect.after)
    assert effect.direction(Better.LOWER) is Direction.REGRESSION


def test_each_build_is_measured_as_often_as_asked(tmp_path: Path) -> None:
    world = World(stepped(4, {2: 0.8}), noise=0.001)

    bisected(world, line(4), tmp_path, repeats=3)

    assert {3} == {world.measured.count(commit) for commit in world.built}
    assert len(set(world.built)) == len(world.built)


def test_merge_without_guilty_parents_is_itself_guilty(tmp_path: Path) -> None:
    r"""c0 - a1 - a2 - m, and b1 - b2 from c0 into m."""
    shape = {"a1": ["c0"], "b1": ["c0"], "a2": ["a1"], "b2": ["b1"], "m": ["a2", "b2"]}
    asked = CommitRange("c0", tuple(RangeCommit(name, tuple(parents)) for name, parents in shape.items()))
    world = World({name: {"t": 50.0 if name == "m" else 100.0} for name in ["c0", *shape]}, noise=0.001)

    assert (("m",),) == tuple(each.commits for each in bisected(world, asked, tmp_path).culprits)

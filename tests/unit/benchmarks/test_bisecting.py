import json
import math

import pytest

from benchmarks.bisecting.__main__ import main
from benchmarks.bisecting.bisections import bisected, scored
from benchmarks.bisecting.histories import CELLS, Cell, Simulated
from benchmarks.bisecting.peers import Threshold
from perftrend.bisect import Culprit, Documented, Kind, Outcome

QUIET = Cell("quiet", size=16, ratios=(40.0,), within=0.1, between=0.1)


@pytest.mark.parametrize("strategy", [Documented(), Threshold(1), Threshold(3)])
def test_quiet_history_is_bisected_in_the_fewest_steps(strategy: Documented | Threshold) -> None:
    world = Simulated(QUIET, 1)

    score = bisected(strategy, world)

    assert score.right
    assert score.complete
    assert 5 <= score.builds <= 7
    assert score.builds * getattr(strategy, "repeats", 1) == score.measurements
    assert score.builds * 10 + score.measurements * 50 / 60 == pytest.approx(score.minutes)


@pytest.mark.parametrize("cell", CELLS, ids=[cell.name for cell in CELLS])
def test_all_that_see_a_history_see_the_same(cell: Cell) -> None:
    one, other = Simulated(cell, 3), Simulated(cell, 3)
    new = one.range.history.new

    assert one.range == other.range
    assert (one.culprits, one.broken) == (other.culprits, other.broken)
    assert one.measure(new) == other.measure(new)
    assert len(one.culprits) == len(cell.ratios)
    assert len(one.range.commits) == cell.size
    assert one.range.history.ancestors[-1].bit_count() == cell.size


def test_measured_difference_of_old_and_new_is_that_of_the_cell() -> None:
    world = Simulated(QUIET, 2)

    old, new = (
        sum(math.log(x) for x in world.measure(commit).values["test 0"].samples) / 5
        for commit in ("0" * 40, world.range.history.new)
    )

    assert 40 * QUIET.noise == pytest.approx(100 * (new - old), abs=1)


def test_set_of_commits_is_right_when_no_commit_that_builds_could_tell_more() -> None:
    world = Simulated(QUIET, 1)
    (culprit,) = world.culprits
    index = world.range.history.index(culprit)
    names = world.range.history.commits
    world.broken = frozenset({index})
    found = (culprit, names[index + 1]) if index + 1 < len(names) else (culprit,)

    assert found == world.smallest_set(culprit)
    assert scored(world, Outcome(Kind.FOUND, "", (Culprit(found),))).right
    assert scored(world, Outcome(Kind.FOUND, "", (Culprit((culprit, "0")),))).wrong
    assert not scored(world, Outcome(Kind.NO_DIFFERENCE, "")).right


def test_every_cell_that_is_asked_for_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["--cells", "base-r10", "none", "--strategies", "documented-1", "--histories", "2", "--json"])
        == 0
    )

    rows = json.loads(capsys.readouterr().out)
    assert [("base-r10", 2), ("none", 2)] == [(row["cell"], row["histories"]) for row in rows]
    assert [1.0, 0.0] == [row["right"] for row in rows]


def test_table_has_a_line_for_each_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cells", "base-r10", "--strategies", "adaptive", "threshold-1", "--histories", "1"]) == 0

    assert len(capsys.readouterr().out.splitlines()) == 3


def test_unknown_strategy_is_refused() -> None:
    with pytest.raises(SystemExit):
        main(["--strategies", "guess"])

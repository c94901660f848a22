import json
import math
from pathlib import Path

import pytest

from benchmarks.bisection.__main__ import main
from benchmarks.bisection.calibration import Calibration, of_leading, of_named
from benchmarks.bisection.cells import CELLS, Cell, cells_named
from benchmarks.bisection.figures import Row, Share
from benchmarks.bisection.goals import GOALS, verdicts, worst
from benchmarks.bisection.running import Bisected, Equal, until
from benchmarks.bisection.scores import Score, score_history, score_outcome
from benchmarks.bisection.strategies import DEFAULT, EQUAL, Bayesect, Threshold, strategy_named
from perftrend.bisect import (
    BisectOutcome,
    BisectState,
    CsitHalving,
    Culprit,
    Effect,
    OutcomeKind,
    Strategy,
)
from perftrend.bisect.simulator import SimulatedNoise, SimulatedTestbed

QUIET = Cell.of("quiet", 40, size=16, within=0.1, between=0.1)


def score(number: int = 0, *, right: bool = True, measurements: int = 10, confidence: float = 0.99) -> Score:
    named = ((confidence, right),)
    return Score(number, right, not right, right, measurements, 8, 100.0, "found", named, ((0.5, True),))


def row(cell: Cell, *scores: Score, equal: Equal | None = None) -> Row:
    return Row.of(Bisected(cell, {"adaptive": scores}, equal))


@pytest.mark.parametrize("strategy", [CsitHalving(), Threshold(1), Threshold(3)])
def test_quiet_history_is_bisected_in_the_fewest_steps(strategy: CsitHalving | Threshold) -> None:
    found = score_history(strategy, QUIET.history(1))

    assert found.right
    assert found.complete
    assert 5 <= found.builds <= 7
    assert found.builds * strategy.repeats == found.measurements
    assert found.builds * 10 + found.measurements * 50 / 60 == pytest.approx(found.minutes)


@pytest.mark.usefixtures("shared_memory")
def test_recording_of_a_machine_takes_the_place_of_the_noise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = [10 * (1.6 if number % 5 < 2 else 1) + number % 7 / 100 for number in range(50)]
    file = tmp_path / "quiet.csv"
    file.write_text("".join(f"{at},sort,{each},{each}\n" for at, each in enumerate(times)))
    arguments = ["--recording", str(file), "sort", "--strategies", "adaptive", "--histories", "1"]

    assert 0 == main([*arguments, "--processes", "1", "--json"])

    cells = {each["cell"] for each in json.loads(capsys.readouterr().out)["cells"]}
    sizes = ("none", "+5%", "+10%", "+25%", "+50%", "-20%")
    assert {f"quiet-sort-{size}" for size in sizes} == cells
    assert 2 == main(["--recording", str(file), "other"])
    assert 2 == main(["--recording", str(tmp_path), "sort"])


@pytest.mark.parametrize("options", [{}, {"broken": 0.3}])
def test_bayes_on_good_and_bad_finds_what_is_plain_to_see(options: dict[str, float]) -> None:
    """It names a commit together with those before it that do not build."""
    cell = Cell.of("plain", 40, size=32, within=0.1, between=0.1, **options)

    found = [score_history(Bayesect(), cell.history(number)) for number in range(8)]

    assert all(each.right for each in found)
    assert all(each.measurements < 30 for each in found)


@pytest.mark.parametrize("strategy", [CsitHalving(repeats=3), Threshold(3), Bayesect()])
def test_commit_from_which_the_test_fails_is_found(strategy: Strategy) -> None:
    (cell,) = cells_named(["fails"])

    assert all(score_history(strategy, cell.history(number)).right for number in range(5))


def test_bayes_on_good_and_bad_is_sure_of_one_commit_where_a_threshold_says_nothing() -> None:
    """It knows no noise of the threshold, and no "no change"; at the end it gives up."""
    history = Cell.of("none").history(0)

    found = score_history(Bayesect(maximum_measurements=20), history)

    assert (20, OutcomeKind.UNDECIDED.value) == (found.measurements, found.kind)


@pytest.mark.parametrize("cell", CELLS, ids=[cell.name for cell in CELLS])
def test_all_that_see_a_history_see_the_same(cell: Cell) -> None:
    one, other = SimulatedTestbed(cell.history(3)), SimulatedTestbed(cell.history(3))
    new = one.history.range.history.new

    assert one.history.range == other.history.range
    assert (one.history.culprits, one.history.broken) == (other.history.culprits, other.history.broken)
    assert one.measure(one.build(new)) == other.measure(other.build(new))
    assert len(one.history.culprits) == len(cell.ratios)
    assert len({cell.history(3).range, cell.history(3, seed=1).range}) == 1 or cell.model.branches


def test_names_of_cells_are_all_different() -> None:
    assert len({cell.name for cell in CELLS}) == len(CELLS)


def test_size_of_a_change_is_its_ratio_times_the_noise_of_a_measurement() -> None:
    (cell,) = cells_named(["within-r2"])

    assert (2.0, 2 * 3 / math.sqrt(5)) == (cell.r, pytest.approx(cell.model.changes[0]))


def test_layouts_are_part_of_the_noise() -> None:
    (cell,) = cells_named(["layout-r2"])

    assert pytest.approx(2 * math.sqrt(1.2 / (1.2 + 0.25))) == cell.r


def test_largest_change_is_thirty_per_cent() -> None:
    (cell,) = cells_named(["base-30%"])

    assert pytest.approx(30) == cell.percent


def test_beginning_names_several_cells_and_a_whole_name_one() -> None:
    assert ["two-same", "two-opposite", "two-cancelling", "two-r2", "two-all"] == [
        cell.name for cell in cells_named(["two"])
    ]
    assert ["all-r2", "all-swing-r2", "all-swing-r4"] == [
        cell.name for cell in cells_named(["all-r2", "all-swing"])
    ]
    assert list(CELLS) == cells_named([])


def judge(cell: Cell, *named: set[str], kind: OutcomeKind = OutcomeKind.FOUND) -> Score:
    history = cell.history(1)
    culprits = tuple(Culprit(tuple(sorted(each)), 0.99) for each in named)
    return score_outcome(
        history, BisectOutcome(kind, "", culprits), BisectState(history.range), SimulatedTestbed(history)
    )


def test_smallest_set_is_right_and_a_larger_one_neither_right_nor_wrong() -> None:
    history = QUIET.history(1)
    ((culprit, _),) = history.culprits.items()
    other = next(commit for commit in history.range.history.commits if commit != culprit)

    found = [judge(QUIET, {culprit}), judge(QUIET, {culprit, other}), judge(QUIET, {other})]

    assert [True, False, False] == [each.right for each in found]
    assert [False, False, True] == [each.wrong for each in found]
    assert [((0.99, True),), ((0.99, True),), ((0.99, False),)] == [each.named for each in found]


def test_one_of_two_changes_is_right_and_not_complete() -> None:
    cell = Cell.of("two", 5, 4)
    one, other = cell.history(1).culprits

    assert [(True, False), (True, True)] == [
        (each.right, each.complete) for each in (judge(cell, {one}), judge(cell, {one}, {other}))
    ]


def test_nothing_is_right_where_nothing_changed_and_only_there() -> None:
    assert judge(Cell.of("none"), kind=OutcomeKind.NO_DIFFERENCE).right
    assert not judge(QUIET, kind=OutcomeKind.NO_DIFFERENCE).right
    assert not judge(QUIET, kind=OutcomeKind.NO_DIFFERENCE).wrong


def test_error_of_a_share_is_that_of_a_binomial_and_never_none() -> None:
    half, none = Share.of([True, False] * 50), Share.of([False] * 300)

    assert (0.5, pytest.approx(0.05, abs=0.001)) == (half.value, half.error)
    assert (0.0, pytest.approx(1 / 300, rel=0.05)) == (none.value, none.error)


def test_fewest_measurements_are_those_of_both_ends_and_of_each_halving() -> None:
    found = row(Cell.of("base", 5), score(measurements=13))

    assert (8.0, 5.0) == (found.fewest, found.more)


def test_commits_that_do_not_build_leave_less_to_tell_apart() -> None:
    assert 8 - 1 < row(Cell.of("broken", 5, broken=0.3), score()).fewest < 8


def test_ratio_is_that_to_the_documented_strategy_that_is_as_right() -> None:
    equal = Equal(3, (score(measurements=24), score(measurements=26)))

    assert 0.4 == row(Cell.of("base", 2), score(measurements=10), equal=equal).ratio
    assert math.isnan(row(Cell.of("base", 2), score()).ratio)


def test_repeating_is_given_up_after_too_many_misses() -> None:
    """Where nothing changed the documented strategy is never right."""
    cell = Cell.of("none")

    assert 3 == len(until(cell, "documented-1", 0, range(10), misses=2))
    assert 10 == len(until(QUIET, "documented-1", 0, range(10), misses=0))


def test_calibration_compares_what_is_stated_with_what_holds() -> None:
    found = Calibration.by("all", [(0.9, True), (0.9, True), (0.9, False), (0.7, True)])

    assert (4, 0.85, 0.75) == (found.count, pytest.approx(found.stated), found.holds.value)
    assert pytest.approx(-0.1) == found.surplus


def test_calibration_is_told_by_kinds_of_cells_and_by_probability() -> None:
    found = [
        Bisected(Cell.of("base", 2), {"adaptive": (score(), score(right=False))}),
        Bisected(Cell.of("two", 5, 4), {"adaptive": (score(),)}),
    ]

    named = {each.of: each.count for each in of_named(found, "adaptive")}
    leading = {each.of: each.count for each in of_leading(found, "adaptive")}

    assert (3, 2, 1, 2, 0) == tuple(
        named[name] for name in ("all", "one change", "two changes", "r = 2, no drift", "r = 2, drift")
    )
    assert 2 == leading["40 to 60 %"] == sum(leading.values())


@pytest.mark.parametrize(
    ("relative", "low", "high", "sizes", "is_reversed"),
    [(0.5, 0.4, 0.6, (True,), False), (0.3, 0.2, 0.4, (False,), False), (-0.2, -0.3, -0.1, (False,), True)],
)
def test_stated_size_is_compared_with_the_true_one(
    relative: float, low: float, high: float, sizes: tuple[bool, ...], is_reversed: bool
) -> None:
    history = Cell.of("half", 100 * math.log(1.5) / SimulatedNoise().deviation).history(1)
    effect = Effect(100.0, 100.0 * (1 + relative), relative, low, high, 1.0)
    culprit = Culprit(tuple(history.culprits), 0.99, {"test 1": effect})
    outcome = BisectOutcome(OutcomeKind.FOUND, "", (culprit,))

    found = score_outcome(history, outcome, BisectState(history.range), SimulatedTestbed(history))

    assert (sizes, is_reversed) == (found.sizes, found.reversed)


@pytest.mark.parametrize(("limit", "overlooked"), [(0.6, False), (0.4, True)])
def test_change_above_the_stated_limit_is_overlooked(limit: float, overlooked: bool) -> None:
    history = Cell.of("half", 100 * math.log(1.5) / SimulatedNoise().deviation).history(1)
    outcome = BisectOutcome(OutcomeKind.NO_DIFFERENCE, "", smallest_visible={"test 1": limit})

    found = score_outcome(history, outcome, BisectState(history.range), SimulatedTestbed(history))

    assert overlooked is found.overlooked


def test_goal_is_judged_by_its_worst_cell() -> None:
    right, wrong = score(), score(right=False)
    rows = [
        row(Cell.of("good", 2), *[right] * 100),
        row(Cell.of("bad", 3), *[right] * 98, wrong, wrong),
        row(Cell.of("small", 1), wrong),
    ]

    found = verdicts(rows, [])[1]

    assert (0.02, "bad", ("bad",), 2, False) == (
        pytest.approx(found.figure),
        found.where,
        found.missed,
        found.of,
        found.reached,
    )


def test_goal_without_a_cell_is_not_reached() -> None:
    assert not worst("goal", 1.0, [("cell", math.nan)]).reached
    assert not any(goal.judge([]).reached for goal in GOALS)


def test_statement_that_holds_too_rarely_is_too_sure() -> None:
    sure = Calibration("all", 1000, 0.99, Share(0.97, 0.005))
    modest = Calibration("all", 1000, 0.95, Share(0.99, 0.003))

    assert [False, True] == [verdicts([], [each])[-1].reached for each in (sure, modest)]


@pytest.mark.parametrize("name", [name for name in DEFAULT if name != EQUAL])
def test_default_strategies_are_known(name: str) -> None:
    strategy: Strategy = strategy_named(name)

    assert name.startswith(strategy.name)


def test_asking_once_for_each_build_changes_nothing() -> None:
    cell = Cell.of("broken", 3, size=32, broken=0.3)

    for number in range(5):
        asked, unhurried = (
            score_history(strategy, cell.history(number))
            for strategy in (CsitHalving(repeats=4), strategy_named("documented-4"))
        )
        assert asked == unhurried


def test_strategy_is_given_options() -> None:
    assert {"confidence": 0.95, "inside": True}.items() <= strategy_named(
        "adaptive,confidence=0.95,inside=true"
    ).options.items()


@pytest.mark.usefixtures("shared_memory")
def test_every_cell_that_is_asked_for_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--strategies", "threshold-1", "documented", "--histories", "3", "--processes", "1"]
    assert main(["--only", "base-r10", "none-all", *asked, "--json", "--each"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert ["base-r10", "none-all", "none-all-jumps"][:2] == [each["cell"] for each in found["cells"]]
    assert [1.0, 0.0] == [each["figures"][0]["right"]["value"] for each in found["cells"]]
    assert [1, None] == [each["equal_repeats"] for each in found["cells"]]
    assert [0, 1, 2] == [each["number"] for each in found["histories"]["none-all"]["threshold-1"]]


@pytest.mark.usefixtures("shared_memory")
def test_table_has_a_line_for_each_strategy_and_a_goal_table(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--strategies", "threshold-1", "documented-2", "--histories", "2", "--processes", "1"]
    assert main(["--only", "base-r10", *asked]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert ["base-r10", "documented-2"] == [line.split()[0] for line in lines[1:3]]
    assert any("reached" in line for line in lines)


@pytest.mark.parametrize(
    "wrong", [["--only", "bass"], ["--histories", "0"], ["--strategies", "documented", "adaptive"]]
)
def test_what_cannot_be_run_is_refused_in_a_line(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(wrong) == 2

    assert len(capsys.readouterr().err.splitlines()) == 1


def test_unknown_strategy_is_refused() -> None:
    with pytest.raises(SystemExit):
        main(["--strategies", "guess"])

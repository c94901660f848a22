from __future__ import annotations

import json
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

from benchmarks.comparing import __main__ as comparing
from benchmarks.comparing import harmless, many
from benchmarks.comparing.methods import mann_whitney, sequential, student_beyond, welch
from benchmarks.comparing.patches import CELLS, Cell, cell_from_recording, patch
from perftrend.analysis.significance import quantile


def test_all_tests_of_a_patch_are_measured_in_one_order_with_noise_of_their_own() -> None:
    first, second = (patch(CELLS["1n-veth"], 0.0, number=0, rounds=8, test=test) for test in (0, 1))

    assert [each.build for each in first.observations] == [each.build for each in second.observations]
    assert not set(first.averages(0, 8)) & set(second.averages(0, 8))


def test_starts_are_at_one_of_two_levels() -> None:
    cell = CELLS["starts-2"]
    averages = np.concatenate([patch(cell, 0.0, number=n, rounds=20).averages(0, 20) for n in range(20)])

    levels = 100 * np.log(averages / 3e5)

    assert np.abs(np.abs(levels) - 2.0).max() < 0.4
    assert 150 < (levels > 0).sum() < 250


def test_machine_is_slow_for_its_share_of_the_time_and_for_phases() -> None:
    """45 % of the measurements, and 20 seconds are some 15 measurements in a row."""
    slow = np.concatenate(
        [
            [
                np.mean(each.samples) < 2.4e5
                for each in patch(CELLS["speeds-20s"], 0.0, number=n, rounds=20).observations
            ]
            for n in range(100)
        ]
    )

    switches = np.abs(np.diff(slow.astype(int))).mean()

    assert 0.45 == pytest.approx(slow.mean(), abs=0.08)
    assert 1 / 40 < switches < 1 / 8


def test_layout_moves_builds_although_the_patch_changes_nothing() -> None:
    made = [patch(CELLS["layout"], 0.0, number=n, rounds=20) for n in range(200)]

    moved = [100 * np.log(each.averages(1, 20).mean() / each.averages(0, 20).mean()) for each in made]

    assert 2**0.5 == pytest.approx(np.std(moved), rel=0.2)


def test_recording_is_replayed_from_any_moment_on(tmp_path: Path) -> None:
    file = tmp_path / "machine.csv"
    file.write_text("".join(f"{n},sort,{100 + n},{100 + n}\n{n},other,7,7\n" for n in range(50)))

    made = patch(cell_from_recording(f"{file}:sort"), 0.0, number=1, rounds=10)

    times = [3e7 / each.samples[0] for each in made.observations]
    steps = np.diff(times) / np.mean(times)
    assert (2, True) == (len(made.observations[0].samples), bool(np.all(np.abs(steps) < 0.5)))
    assert np.sum(steps > 0) >= 18


def test_harmless_patches_are_counted(capsys: pytest.CaptureFixture[str], *, thorough: bool) -> None:
    patches = "40" if thorough else "20"
    arguments = ["--tests", "1", "3", "--patches", patches, "--cells", "starts-2", "t4", "--json"]
    assert 0 == harmless.main(arguments)

    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [("starts-2", 1), ("starts-2", 3), ("t4", 1), ("t4", 3)] == [
        (row["cell"], row["tests"]) for row in rows
    ]
    assert thorough >= sum(row["wrong"] for row in rows)


def test_layout_is_called_a_difference(capsys: pytest.CaptureFixture[str]) -> None:
    """No order of measuring can distinguish it from one: so the count is not always zero."""
    assert 0 == harmless.main(["--tests", "1", "--patches", "8", "--cells", "layout", "--json"])

    [row] = json.loads(capsys.readouterr().out)["rows"]
    assert 0 < row["wrong"] <= row["shown"]


def test_difference_moves_the_patch_alone_and_leaves_the_noise() -> None:
    without = patch(CELLS["outliers"], 0.0, number=5, rounds=4)
    slower = patch(CELLS["outliers"], -0.03, number=5, rounds=4)

    assert np.array_equal(without.averages(0, 4), slower.averages(0, 4))
    assert (0.97 * without.averages(1, 4)).tolist() == pytest.approx(slower.averages(1, 4).tolist())


@pytest.mark.parametrize("cell", [CELLS["1n-veth"], CELLS["uniform"], CELLS["quiet"]], ids=lambda c: c.name)
def test_starts_differ_as_the_cell_says(cell: Cell) -> None:
    averages = np.concatenate(
        [patch(cell, 0.0, number=number, rounds=20).averages(0, 20) for number in range(100)]
    )

    expected = (cell.between**2 + cell.within**2 / 5) ** 0.5
    assert 100 * np.log(averages).std() == pytest.approx(expected, rel=0.06)


def test_welch_by_a_table() -> None:
    """Averages 2 and 5, variances 1, three each: t = 3 / √(2/3) = 3.674 at 4 degrees, p = 0.0213."""
    assert welch(np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])) == pytest.approx(0.0213, abs=1e-4)


def test_welch_without_any_noise() -> None:
    assert 1.0 == welch(np.ones(3), np.ones(3))
    assert 0.0 == welch(np.ones(3), np.full(3, 2.0))


@pytest.mark.parametrize("freedom", [1, 2, 3.7, 9, 40])
@pytest.mark.parametrize("level", [0.9, 0.99])
def test_student_of_any_freedom(freedom: float, level: float) -> None:
    if freedom == int(freedom):
        t = quantile(level, int(freedom))
        assert student_beyond(t, freedom) == pytest.approx(1 - level, rel=1e-3)
    else:
        below, above = (student_beyond(3.0, f) for f in (np.ceil(freedom), np.floor(freedom)))
        assert below < student_beyond(3.0, freedom) < above


def test_student_becomes_normal() -> None:
    assert student_beyond(2.0, 1e4) == pytest.approx(2 * NormalDist().cdf(-2.0), rel=1e-3)


def test_mann_whitney_by_hand() -> None:
    """Three below three is one of 20 orders, as is three above: 2 / 20. One exchanged: 4 / 20."""
    assert 0.1 == pytest.approx(mann_whitney(np.array([1.0, 2, 3]), np.array([4.0, 5, 6])))
    assert 0.2 == pytest.approx(mann_whitney(np.array([1.0, 2, 4]), np.array([3.0, 5, 6])))
    assert 1.0 == pytest.approx(mann_whitney(np.array([1.0, 4]), np.array([2.0, 3])))


def test_looking_after_every_round_raises_at_most_one_false_alarm_in_a_hundred() -> None:
    cell = CELLS["1n-veth"]
    endings = [sequential(10)(patch(cell, 0.0, number=number, rounds=10)) for number in range(100)]

    assert 1 >= sum(abs(each.shown) for each in endings)
    assert 7 > np.mean([each.rounds for each in endings])


def test_every_method_is_in_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == comparing.main(["--patches", "3", "--only", "1n-veth", "--json"])

    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {0.0, -0.01, -0.02, -0.03, -0.05, -0.1, 0.03} == {row["difference"] for row in rows}
    large = {row["method"]: row["lower"] for row in rows if row["difference"] == -0.1}
    assert large["perftrend"] == 1.0
    assert {"documented, one start", "documented, 5 starts", "Welch, own rounds"} < set(large)


def test_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == comparing.main(["--patches", "4", "--only", "quiet"])

    assert "false alarms" in capsys.readouterr().out


def test_patches_of_many_tests_are_told_by_their_votes(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--tests", "1", "3", "--patches", "2", "--slower", "2", "--difference", "-0.3", "--json"]
    assert 0 == many.main([*asked, "--cell", "quiet", "--maximum-rounds", "8"])

    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(1, 1, 1.0, None), (3, 2, 1.0, 0.0)] == [
        (row["tests"], row["slower"], row["found"], row["false"]) for row in rows
    ]
    assert [(1.0, 0.0, 6.0), (1.0, 0.0, 8.0)] == [
        (row["blamed"], row["praised"], row["mean_rounds"]) for row in rows
    ]


def test_patches_of_many_tests_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == many.main(["--tests", "1", "--patches", "1", "--cell", "quiet", "--maximum-rounds", "3"])

    assert "slower tests found" in capsys.readouterr().out

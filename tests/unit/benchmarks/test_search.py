"""The benchmark of searches: its yardsticks, against figures worked out by hand or known from elsewhere."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.search import __main__ as command
from benchmarks.search.cells import DETERMINISTIC, MOVING, Cell, Figures, measure_alike
from benchmarks.search.goals import GOALS, Goal, Together
from benchmarks.search.methods import MLRSEARCH, MLRSEARCH_STRICT, Recorder, methods, simulated_parameters
from benchmarks.search.unavoidable import CalmDevice
from perftrend.measure.search.mdr import DEFAULT_STRATEGY, STRATEGIES
from perftrend.measure.simulated_loss import KINDS
from perftrend.measure.simulator import DeviceModel

C = 12.3e6
CELL = Cell("hard", 30.0, early=True, width=0.005, devices=3, methods=("perftrend mdr", MLRSEARCH))


@pytest.mark.parametrize(
    ("method", "kind", "elapsed_s"),
    [
        (MLRSEARCH, "hard", 104.0),
        (MLRSEARCH, "soft", 148.9),
        (MLRSEARCH, "gentle", 148.9),
        (MLRSEARCH_STRICT, "hard", 74.0),
        ("NDR bisection", "hard", 300.0),
        ("NDR bisection", "gentle", 300.0),
        ("NDR, PDR bisection", "hard", 600.0),
        ("joint bisection", "hard", 360.0),
        ("joint bisection", "gentle", 450.0),
        ("perftrend mdr", "hard", 104.0),
    ],
)
def test_known_figures_come_out(method: str, kind: str, elapsed_s: float) -> None:
    recorder = Recorder(DeviceModel.of_kind(kind, C, ends_early=False))
    intervals = methods()[method](recorder, simulated_parameters(30.0, 0.005))

    assert pytest.approx(elapsed_s, abs=0.1) == recorder.elapsed_s
    assert all(interval is None or interval.relative_width <= 0.005 for interval in intervals)


def test_every_strategy_takes_part() -> None:
    assert {f"perftrend {strategy}" for strategy in STRATEGIES} <= methods().keys()


@pytest.mark.parametrize("method", methods())
def test_device_below_the_minimum_is_flagged(method: str) -> None:
    intervals = methods()[method](DeviceModel(1e3), simulated_parameters(2.0, 0.005))

    assert all(interval.invalid for interval in intervals if interval)


@pytest.mark.parametrize("method", methods())
def test_device_above_the_maximum_passes_there(method: str) -> None:
    intervals = methods()[method](DeviceModel(1e9), simulated_parameters(2.0, 0.005))

    assert {(29.76e6, "")} == {(of.upper, of.invalid) for of in intervals if of}
    assert all(of.relative_width <= 0.005 for of in intervals if of)


@pytest.mark.parametrize(
    ("kind", "early", "elapsed_s", "free_s"),
    [
        # Two lower bounds; at PDR/0.995 a 0.995² remains, so the loss of 0.5 % is proven in F·0.005/0.009975.
        # PDR's lower bound loses frames, and so is NDR's upper bound.
        ("hard", True, 60 + 15.0376, 60 + 15.0376),
        ("hard", False, 90, 90),
        # PDR lies 12 % above NDR: four trials. The proof at 1.1256 c takes 0.005/0.005479 of 30 s.
        ("gentle", True, 60 + 27.3722 + 0.009, 60 + 27.3722),
        ("gentle", False, 120, 90),
        # PDR is 0.25 % above NDR: the same two bounds hold both. At 1.005025 c 0.9975 % are lost.
        ("collapse", True, 30 + 15.0376, 30 + 15.0376),
        ("collapse", False, 60, 60),
        # With a start that is 20 % slow NDR is 0.8 c: two separate intervals.
        ("short-pessimistic", False, 120, 90),
    ],
)
def test_unavoidable_by_hand(kind: str, early: bool, elapsed_s: float, free_s: float) -> None:
    least = CalmDevice.of(kind, C, 30.0).unavoidable(0.005, early=early)

    assert pytest.approx(elapsed_s, abs=0.002) == least.elapsed_s
    assert pytest.approx(free_s, abs=0.002) == least.without_ndr_upper_s


@pytest.mark.parametrize("kind", ["hard", "soft", "gentle", "cubic", "linear", "steps", "short-pessimistic"])
def test_no_search_is_faster_than_what_is_unavoidable(kind: str) -> None:
    (figures,) = measure_alike([replace(CELL, kind=kind)])

    assert figures[MLRSEARCH].ratio_mean > 1.0
    assert figures["perftrend mdr"].ratio_mean > 1.0
    assert (1.0, 1.0) == figures["perftrend mdr"].held


def test_mlrsearch_finds_the_same_whether_others_end_early_or_not() -> None:
    early, late = measure_alike([CELL, replace(CELL, early=False)])

    assert early[MLRSEARCH].mean_s == late[MLRSEARCH].mean_s
    assert early["perftrend mdr"].mean_s < late["perftrend mdr"].mean_s


def test_kinds_are_sorted_by_what_chance_does_to_them() -> None:
    assert {"hard", "short-optimistic", "loss-floor", "asymmetric"} <= DETERMINISTIC
    assert {"drift", "warm-up-once"} == MOVING
    assert {"jitter", "two-mode", "hard-poisson", "inconsistent", "bursty", "stalls", "pauses-7"} <= (
        KINDS.keys() - DETERMINISTIC - MOVING
    )


def test_loss_that_falls_with_the_rate_is_found_as_fast_as_by_mlrsearch_to_the_end() -> None:
    cell = Cell(
        "falling", 30.0, early=False, width=0.005, devices=8, methods=("perftrend predictive", MLRSEARCH)
    )
    (measured,) = measure_alike([cell])

    assert measured["perftrend predictive"].peer_mean <= 1.0
    assert (1.0, 1.0) == measured["perftrend predictive"].held == measured[MLRSEARCH].held


def test_lower_bound_is_measured_again() -> None:
    """A device without chance passes again; where every other trial meets a pause, half of them pass."""
    (hard,) = measure_alike([CELL])
    assert ((1.0, 1.0), (0.0, 0.0)) == (hard[MLRSEARCH].again, hard[MLRSEARCH].again_error)

    (stalls,) = measure_alike([replace(CELL, kind="stalls", devices=12)])
    again, error = stalls[MLRSEARCH].again[0], stalls[MLRSEARCH].again_error[0]

    assert 0.35 < again < 0.75
    assert 0.02 < error < 0.15


def figures(**changed: object) -> Figures:
    (measured,) = measure_alike([CELL])
    return replace(measured["perftrend mdr"], **changed)  # type: ignore[arg-type]


def goal(beginning: str) -> Goal | Together:
    return next(goal for goal in GOALS if goal.name.startswith(beginning))


def test_worst_cell_decides() -> None:
    cells = [CELL, replace(CELL, kind="soft"), replace(CELL, kind="collapse")]
    of = [
        (cell, {"ours": figures(ratio_mean=ratio), MLRSEARCH: figures()})
        for cell, ratio in zip(cells, (1.1, 1.2, 9.9), strict=True)
    ]
    verdict = goal("hard, soft, gentle").judge(of, "ours")

    assert (1.2, "soft, 30 s", 1, 2, False) == (
        verdict.figure, verdict.where, verdict.missed, verdict.of, verdict.reached,
    )  # fmt: skip


def test_what_was_not_measured_is_not_reached() -> None:
    verdict = goal("trials run to their end").judge(
        [(CELL, {"ours": figures(), MLRSEARCH: figures()})], "ours"
    )

    assert math.isnan(verdict.figure)
    assert not verdict.reached


@pytest.mark.parametrize(("ours", "reached"), [(0.5, True), (0.36, True), (0.34, False)])
def test_chance_is_allowed_for_in_each_cell(ours: float, reached: bool) -> None:
    """Of 200 devices each, half against 35 % is just three standard errors."""
    cell = replace(CELL, kind="jitter")
    counted = {"counted": (200, 200)}
    of = [
        (cell, {"ours": figures(held=(0.9, ours), **counted), MLRSEARCH: figures(held=(0.5, 0.5), **counted)})
    ]

    assert reached == goal("others, each cell").judge(of, "ours").reached


def test_what_each_cell_may_lack_all_together_may_not() -> None:
    """Half against 41 % is 1.8 standard errors in one cell, and 3.6 in four."""
    counted = {"counted": (200, 200)}
    of = {"ours": figures(held=(0.5, 0.41), **counted), MLRSEARCH: figures(held=(0.5, 0.5), **counted)}
    cells = [(replace(CELL, kind="jitter", final_s=final_s), of) for final_s in (10.0, 20.0, 30.0, 60.0)]

    assert goal("others, each cell").judge(cells, "ours").reached
    assert goal("others, all together").judge(cells[:1], "ours").reached
    verdict = goal("others, all together").judge(cells, "ours")
    assert pytest.approx(3.61, abs=0.02) == verdict.figure * 2**0.5
    assert not verdict.reached


@pytest.mark.parametrize(("ours", "reached"), [(0.8, True), (0.72, True), (0.7, False)])
def test_bursts_may_spoil_a_lower_bound_as_often_as_that_of_mlrsearch(ours: float, reached: bool) -> None:
    """Two standard errors of 3 % and 4 % are 10 %."""
    of = [
        (
            replace(CELL, kind="bursty"),
            {
                "ours": figures(again=(ours, 1.0), again_error=(0.03, 0.0)),
                MLRSEARCH: figures(again=(0.81, 1.0), again_error=(0.04, 0.0)),
            },
        )
    ]

    assert reached == goal("bursts, stalls").judge(of, "ours").reached


def test_wrong_interval_of_a_deterministic_device_is_never_allowed() -> None:
    of = [(CELL, {"ours": figures(held=(math.nan, 0.999)), MLRSEARCH: figures()})]

    assert not goal("deterministic devices: truth").judge(of, "ours").reached


SMALL = ["--devices", "2", "--kinds", "hard", "--final-duration", "10", "--strategies", "mdr"]


@pytest.mark.usefixtures("shared_memory")
def test_tables_name_every_method_and_goal(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == command.main(SMALL)

    printed = capsys.readouterr().out
    assert all(name in printed for name in ("perftrend mdr", MLRSEARCH_STRICT, "joint bisection"))
    assert all(goal.name in printed for goal in GOALS)


@pytest.mark.usefixtures("shared_memory")
def test_json_holds_every_cell(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == command.main([*SMALL, "--json", "--no-bisections", "--early-end"])

    report = json.loads(capsys.readouterr().out)
    assert [("hard", 10.0, True)] == [
        (cell["kind"], cell["final_s"], cell["early"]) for cell in report["cells"]
    ]
    assert len(GOALS) == len(report["goals"]["perftrend mdr"])


@pytest.mark.usefixtures("shared_memory")
def test_plot_draws_the_search_of_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One device is a cell of its own, so that its time is the mean."""
    cell = ["--devices", "1", "--kinds", "soft", "--final-duration", "10", "--early-end"]
    assert 0 == command.main([*cell, "--strategies", "mdr", "--no-bisections", "--json"])
    (of,) = json.loads(capsys.readouterr().out)["cells"]
    figures = of["methods"]["perftrend mdr"]
    file = tmp_path / "search.html"

    assert 0 == command.main([*cell, "--strategies", "mdr", "--plot", str(file)])
    told = capsys.readouterr().out
    assert f"{figures['trials']:.0f} trials" in told
    assert f"took {figures['mean_s']:.1f} s" in told
    drawn = file.read_text()
    assert "<svg" in drawn
    assert "mdr search of a simulated device: soft, final trials of 10 s" in drawn


def test_plot_draws_the_default_strategy(tmp_path: Path) -> None:
    file = tmp_path / "search.html"

    assert 0 == command.main(["--plot", str(file), "--kinds", "jitter"])
    assert f"{DEFAULT_STRATEGY} search of a simulated device: jitter" in file.read_text()


def test_plot_without_a_folder_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 3 == command.main(["--plot", str(tmp_path / "none" / "search.html"), "--kinds", "hard"])
    assert 1 == capsys.readouterr().err.count("\n")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (["--kinds", "hart"], "'hart' is unknown; did you mean 'hard'"),
        (["--strategies", "mrd"], "'mrd' is unknown; did you mean 'mdr'"),
        (["--devices", "0"], "--devices is 0; give at least 1"),
    ],
)
def test_wrong_option_is_refused_by_name(
    wrong: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 2 == command.main([*SMALL, *wrong])
    assert told in capsys.readouterr().err

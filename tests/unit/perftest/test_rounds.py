"""The order of measuring."""

from __future__ import annotations

from itertools import islice

from perftrend.analysis.comparison import PATCH, Design
from perftrend.model import BuildMeasurement
from perftrend.perftest import BuildSide, measure_rounds
from tests.unit.perftest.made import measured

DESIGN = Design(first_rounds=3, maximum_rounds=6)


class Bench:
    """Notes what is measured."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def measure(self, side: BuildSide, number: int) -> BuildMeasurement:
        self.asked.append((str(side), number))
        return measured(len(self.asked), {"mrr": [float(len(self.asked))]}, commit=str(side))


def test_builds_are_measured_in_the_order_that_the_design_draws() -> None:
    bench = Bench()

    list(measure_rounds(bench.measure, DESIGN, seed="a b 1"))

    order = [build for block in range(3) for build in DESIGN.order("a b 1", block)]
    assert order == [int(side == BuildSide.CURRENT) * PATCH for side, _ in bench.asked]


def test_each_build_is_measured_once_a_round() -> None:
    bench = Bench()

    list(measure_rounds(bench.measure, DESIGN, seed="a b 1"))

    for side in BuildSide:
        assert [1, 2, 3, 4, 5, 6] == [number for of, number in bench.asked if of == side]


def test_same_comparison_repeats_its_order_and_another_does_not() -> None:
    benches = []
    for seed in ("a b 1", "a b 1", "a b 2"):
        bench = Bench()
        list(measure_rounds(bench.measure, Design(maximum_rounds=20), seed=seed))
        benches.append(bench.asked)

    assert benches[0] == benches[1]
    assert benches[0] != benches[2]


def test_no_block_is_measured_that_is_not_needed() -> None:
    bench = Bench()

    taken = list(islice(measure_rounds(bench.measure, DESIGN, seed=""), 2))

    assert [3, 5] == [len(done) for done in taken]
    assert 10 == len(bench.asked)


def test_each_measurement_is_on_its_side() -> None:
    for done in measure_rounds(Bench().measure, DESIGN, seed=""):
        assert [("parent", "current")] * len(done) == [
            (each[BuildSide.PARENT].commit, each[BuildSide.CURRENT].commit) for each in done
        ]

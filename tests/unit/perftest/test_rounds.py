"""The order of measuring."""

from __future__ import annotations

from itertools import islice

from perftrend.model import Measured
from perftrend.perftest import Side, measured_rounds
from tests.unit.perftest.made import measured


class Bench:
    """Notes what is measured."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def measure(self, side: Side, number: int) -> Measured:
        self.asked.append((str(side), number))
        return measured(len(self.asked), {"mrr": [float(len(self.asked))]}, commit=str(side))


def test_the_builds_take_turns_in_being_first() -> None:
    bench = Bench()

    list(measured_rounds(bench.measure, 3))

    assert [
        ("parent", 1), ("current", 1), ("current", 2), ("parent", 2), ("parent", 3), ("current", 3),
    ] == bench.asked  # fmt: skip


def test_drift_moves_both_builds_alike() -> None:
    """Whatever grows evenly with time has the same average on both sides after an even number of rounds."""
    *_, done = measured_rounds(Bench().measure, 4)

    averages = [sum(each[side].values["mrr"].samples[0] for each in done) for side in Side]

    assert averages[0] == averages[1]


def test_no_round_is_measured_that_nobody_takes() -> None:
    bench = Bench()

    taken = list(islice(measured_rounds(bench.measure, 10), 2))

    assert [1, 2] == [len(done) for done in taken]
    assert 4 == len(bench.asked)


def test_each_measurement_is_on_its_side() -> None:
    [done] = measured_rounds(Bench().measure, 1)

    assert ["parent", "current"] == [done[0][side].commit for side in Side]

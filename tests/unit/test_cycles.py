"""Which parts of a device become traces."""

from __future__ import annotations

import math

import pytest

from perftrend import measurement
from perftrend.model import TraceKey


def test_names_of_nodes_and_interfaces_are_usual() -> None:
    reported = {"ip4-lookup": 30.2, "TenGigabitEthernet5e/0/0-output": 1.5, "total": 700.0}

    assert reported == measurement.plausible_cycles(reported)


@pytest.mark.parametrize(
    "name", ["", "-x", "a b", "a\n", "a,metric=b", "<b>", "\u00e9", "x" * 101, "a;rm"], ids=repr
)
def test_other_names_are_dropped(name: str) -> None:
    assert {"a": 1.0} == measurement.plausible_cycles({name: 1.0, "a": 1.0})


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, 1e12])
def test_impossible_numbers_are_dropped(value: float) -> None:
    assert {"a": 1.0} == measurement.plausible_cycles({"b": value, "a": 1.0})


def test_number_of_parts_is_limited() -> None:
    assert 200 == len(measurement.plausible_cycles({f"node-{number}": 1.0 for number in range(1000)}))


def test_device_without_packets_has_no_cycles_per_packet() -> None:
    assert ({}, {"total": 2.5}) == (
        measurement.cycles_per_packet(10, 0),
        measurement.cycles_per_packet(10, 4),
    )


def test_traces_of_cycles_are_optional() -> None:
    keys = [TraceKey.of(test="cycles_x", metric=metric) for metric in (measurement.cycle_metric("x"), "mrr")]

    assert [True, False] == [key.is_optional for key in keys]

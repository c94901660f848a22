"""Differences between the environments of runs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perftrend.analysis.environment import compare_environments
from perftrend.model import Run

NIGHT = datetime(2026, 3, 1, 2, tzinfo=UTC)


def run(job: str = "trending", versions: dict[str, str] | None = None, **environment: str) -> Run:
    parts = {name.replace("_", ": "): value for name, value in environment.items()}
    return Run("2n-clx", job, 1, NIGHT, NIGHT, versions=versions or {}, environment=parts)


def found(old: Run, new: Run) -> list[str]:
    return [str(each) for each in compare_environments([old], [new])]


def test_parts_of_the_machines_and_versions_differ() -> None:
    old = run(versions={"device": "0123abc", "vpp": "0123abc", "generator": "3.0"}, dut_kernel="6.1.18")
    new = run(versions={"device": "4567def", "vpp": "4567def", "generator": "3.1"}, dut_kernel="6.1.20")

    assert ["dut: kernel 6.1.18 → 6.1.20", "generator 3.0 → 3.1"] == found(old, new)


def test_what_one_run_does_not_know_is_no_difference() -> None:
    assert [] == found(run(dut_kernel="6.1"), run(tg_kernel="6.2"))


@pytest.mark.parametrize(
    ("old", "new", "differs"),
    [("41", "49", False), ("41", "51", True), ("62", "52", True), ("41", "?", True)],
)
def test_temperatures_of_any_two_nights_differ_a_little(old: str, new: str, differs: bool) -> None:
    assert differs == bool(found(run(dut_temperature=old), run(dut_temperature=new)))


def test_runs_of_one_night_are_compared_together() -> None:
    old = [run(kernel="6.1"), run(job="weekly", kernel="6.1")]
    new = [run(kernel="6.1"), run(job="weekly", kernel="6.2")]

    assert ["kernel 6.1 → 6.1, 6.2"] == [str(each) for each in compare_environments(old, new)]

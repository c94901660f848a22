"""Measurements of builds: made once, of the right commit, and valid."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from perftrend.builds import BuiltCommit
from perftrend.errors import ArchiveError, TestbedError
from perftrend.execution.build_measurement import BuildMeasurements, without_doubtful
from perftrend.model import NOT_VALID, BuildMeasurement, MetricSamples

NOW = datetime(2026, 3, 2, 18, tzinfo=UTC)
ONE, OTHER = "1" * 40, "2" * 40
DOUBTFUL = {"t": f"{NOT_VALID}the generator was slow"}


@dataclass
class Product:
    """Says what each measurement gives, in turn: values, and what failed."""

    gives: list[tuple[dict[str, MetricSamples], dict[str, str]]]
    installed: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    profile: Any = field(default_factory=lambda: type("Profile", (), {"measure": "by a command"}))

    def install(self, built: BuiltCommit) -> None:
        self.installed.append(built.commit)

    def measure(self, built: BuiltCommit, number: int) -> BuildMeasurement:
        self.numbers.append(number)
        return BuildMeasurement(built.commit, NOW, NOW, *self.gives.pop(0))


def measuring(
    folder: Path, *gives: tuple[dict[str, MetricSamples], dict[str, str]]
) -> tuple[BuildMeasurements, Product]:
    product = Product(list(gives))
    return BuildMeasurements(product, None, folder), product  # type: ignore[arg-type]


def built(commit: str) -> BuiltCommit:
    return BuiltCommit(commit, Path("nowhere"), {}, 0.0, was_cached=True)


def test_measurement_is_made_once_in_its_place(tmp_path: Path) -> None:
    testbed, product = measuring(tmp_path, ({"t": MetricSamples((1.0,))}, {}))

    found = [testbed.measure(built(ONE), "1/parent/1") for _ in range(2)]

    assert [ONE] == product.installed
    assert found[0] == found[1]
    assert "1/parent/1" == found[0].archive
    assert (tmp_path / "1" / "parent" / "1" / "measured.json").is_file()


def test_build_hears_the_number_of_its_measurement(tmp_path: Path) -> None:
    testbed, product = measuring(tmp_path, *[({"t": MetricSamples((1.0,))}, {})] * 3)
    for place in ("1/parent/1", "1/current/1", "1/parent/2"):
        testbed.measure(built(ONE), place)

    assert [1, 1, 2] == product.numbers


def test_place_of_another_commit_is_refused(tmp_path: Path) -> None:
    testbed, _ = measuring(tmp_path, ({"t": MetricSamples((1.0,))}, {}))
    testbed.measure(built(ONE), "1")

    with pytest.raises(ArchiveError, match="belongs to another commit; remove it to measure it again"):
        testbed.measure(built(OTHER), "1")


def test_what_cannot_be_trusted_is_left_out_after_three_attempts(tmp_path: Path) -> None:
    testbed, product = measuring(tmp_path, *[({"u": MetricSamples((1.0,))}, DOUBTFUL)] * 4)
    places = map(str, count(1))

    found = testbed.measure_until_valid(built(ONE), lambda: next(places))

    assert (["u"], {}, "3") == (list(found.values), found.failed, found.archive)
    assert 1 == len(product.gives)


def test_attempts_of_an_earlier_start_do_not_count(tmp_path: Path) -> None:
    testbed, _ = measuring(tmp_path, *[({}, DOUBTFUL)] * 4, ({"t": MetricSamples((1.0,))}, {}))
    for number in (1, 2):
        testbed.measure(built(ONE), str(number))
    places = map(str, count(1))

    assert "5" == testbed.measure_until_valid(built(ONE), lambda: next(places)).archive


def test_nothing_that_can_be_trusted_is_the_testbed_s_fault(tmp_path: Path) -> None:
    testbed, _ = measuring(tmp_path, *[({}, DOUBTFUL)] * 3)
    places = map(str, count(1))

    with pytest.raises(
        TestbedError, match=r"in 3 attempts \(t: not valid: the generator was slow\); fix the testbed"
    ):
        testbed.measure_until_valid(built(ONE), lambda: next(places))


def test_failure_of_the_build_is_no_doubt() -> None:
    failed = BuildMeasurement(ONE, NOW, NOW, {}, {"t": "no route to host", "u": DOUBTFUL["t"]})

    kept = without_doubtful(failed)

    assert kept is not None
    assert {"t": "no route to host"} == kept.failed
    assert without_doubtful(BuildMeasurement(ONE, NOW, NOW, {}, DOUBTFUL)) is None

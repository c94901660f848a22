"""Measurements of builds: made once, of the right commit, and valid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from perftrend.builds import BuiltCommit
from perftrend.builds.measurement import CommandFailure
from perftrend.errors import ArchiveError, NoNumbersError, TestbedError
from perftrend.execution.build_measurement import BuildMeasurements, NumbersCheck, Suites, without_doubtful
from perftrend.execution.robot import LockReference
from perftrend.measure.lock import LockedPlace
from perftrend.model import NOT_VALID, BuildMeasurement, MetricSamples
from perftrend.settings import Settings

NOW = datetime(2026, 3, 2, 18, tzinfo=UTC)
ONE, OTHER = "1" * 40, "2" * 40
DOUBTFUL = {"t": f"{NOT_VALID}the generator was slow"}


@dataclass
class Product:
    """Says what each measurement gives, in turn: values, and what failed."""

    gives: list[tuple[dict[str, MetricSamples], dict[str, str]]]
    installed: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    measured: list[str] = field(default_factory=list)
    profile: Any = field(
        default_factory=lambda: type("Profile", (), {"measure": "a command", "installs_by_ssh": False})
    )
    failure: CommandFailure | None = None

    def install(self, built: BuiltCommit, devices: Sequence[object]) -> None:
        assert not devices
        self.installed.append(built.commit)

    def measure(self, built: BuiltCommit, number: int) -> BuildMeasurement:
        self.numbers.append(number)
        self.measured.append(built.commit)
        values, failed = self.gives.pop(0)
        reasons = [why for why in failed.values() if not why.startswith(NOT_VALID)]
        self.failure = (
            CommandFailure(why := reasons[0], (f"last of {why}",), why == "text") if reasons else None
        )
        return BuildMeasurement(built.commit, NOW, NOW, values, failed)


def measuring(
    folder: Path, *gives: tuple[dict[str, MetricSamples], dict[str, str]]
) -> tuple[BuildMeasurements, Product]:
    product = Product(list(gives))
    numbers = NumbersCheck(ONE, lambda commit: built(OTHER if commit == ONE else ONE))
    suites = Suites(Settings(), folder, "", [], LockReference("", LockedPlace(-1)), {})
    return BuildMeasurements(product, suites, folder, numbers), product  # type: ignore[arg-type]


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


# ---- a command that prints no numbers

VALUES: dict[str, MetricSamples] = {"t": MetricSamples((1.0,))}
TEXT, CRASH = ({}, {"command": "text"}), ({}, {"command": "crash"})
"""What a command gives that ends with 0, and one that does not."""


def test_text_of_the_old_commit_ends_the_job_at_once(tmp_path: Path) -> None:
    testbed, product = measuring(tmp_path, TEXT)

    with pytest.raises(NoNumbersError, match=rf"printed no numbers for {ONE[:12]}: text$") as ended:
        testbed.measure(built(ONE), "1")

    assert (("last of text",), [ONE]) == (ended.value.last_lines, product.measured)
    assert [] == [each for each in tmp_path.iterdir() if each.name[0] != "."], "it is not archived"


@pytest.mark.parametrize(
    ("commit", "other", "gives"), [(ONE, OTHER, CRASH), (OTHER, ONE, CRASH), (OTHER, ONE, TEXT)]
)
def test_failure_ends_the_job_if_the_other_commit_fails_too(
    tmp_path: Path, commit: str, other: str, gives: Any
) -> None:
    testbed, product = measuring(tmp_path, gives, CRASH)

    with pytest.raises(NoNumbersError, match=rf"printed no numbers for {commit[:12]}: "):
        testbed.measure(built(commit), "1")

    assert [commit, other] == product.measured


@pytest.mark.parametrize("gives", [CRASH, TEXT])
def test_failure_is_a_result_if_the_other_commit_gives_numbers(tmp_path: Path, gives: Any) -> None:
    testbed, product = measuring(tmp_path, gives, (VALUES, {}), CRASH)

    found = [testbed.measure(built(OTHER), "1"), testbed.measure(built("3" * 40), "2")]

    assert [{}, {}] == [each.values for each in found]
    assert [OTHER, ONE, "3" * 40] == product.measured, "the other one is tried only once"


def test_failure_after_archived_numbers_is_a_result(tmp_path: Path) -> None:
    measuring(tmp_path, (VALUES, {}))[0].measure(built(ONE), "1")
    testbed, product = measuring(tmp_path, TEXT)
    testbed.measure(built(ONE), "1")

    assert {"command": "text"} == testbed.measure(built(ONE), "2").failed
    assert [ONE] == product.measured

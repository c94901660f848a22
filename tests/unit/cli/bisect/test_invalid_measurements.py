"""A bisection with measurements that are not valid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from perftrend.builds import Builds
from perftrend.model import NOT_VALID, BuildMeasurement
from tests.unit.cli.bisect.conftest import Place


def disturbed(monkeypatch: pytest.MonkeyPatch, is_disturbed: Callable[[list[str], str], bool]) -> None:
    """Let a measurement's result be one that cannot be trusted, by those before it and its commit."""
    usual, before = Builds.measure, []  # type: ignore[var-annotated]

    def measure(self: Builds, built: Any, number: int) -> BuildMeasurement:
        measured = usual(self, built, number)
        bad = is_disturbed(before, built.commit)
        before.append(built.commit)
        return (
            replace(measured, values={}, failed={"command": f"{NOT_VALID}the generator was slow"})
            if bad
            else measured
        )

    monkeypatch.setattr(Builds, "measure", measure)


def test_result_that_cannot_be_trusted_is_measured_again_and_no_failure(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.product.range(100, 100, 100, 90, 90)
    disturbed(monkeypatch, lambda before, commit: before.count(commit) == 0)

    ended = place.search()

    assert (1, [[3]]) == (ended.exit_code, place.culprits())
    assert "1 of the tests cannot be trusted (command: " in ended.out
    assert all(each["tests"] and not each["failed"] for each in place.report()["measurements"])
    told = [each["archive"] for each in place.report()["measurements"]]
    assert "1/parent/2" == told[0]
    assert len(told) == len(set(told))


def test_testbed_that_cannot_be_trusted_ends_it_and_it_can_go_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.product.range(100, 100, 100, 90, 90)
    middle = place.product.hashes[2]
    with monkeypatch.context() as patch:
        disturbed(patch, lambda _, commit: commit == middle)
        ended = place.search()

    assert 4 == ended.exit_code
    assert f"{middle[:12]} gave no valid result in 3 attempts (command: " in ended.err
    assert (1, [[3]]) == (place.search().exit_code, place.culprits())

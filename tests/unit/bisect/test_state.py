"""The state of a bisection if a command fails as a whole, or tests appear and disappear."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from perftrend.bisect.state import BisectState, CommitRange, RangeCommit
from perftrend.model import BuildMeasurement, MetricSamples

MOMENT = datetime(2026, 3, 2, tzinfo=UTC)
RANGE = CommitRange("0" * 40, (RangeCommit("1" * 40, ("0" * 40,)), RangeCommit("2" * 40, ("1" * 40,))))


def measured(commit: int, *tests: str, failed: Mapping[str, str] | None = None) -> BuildMeasurement:
    values = {test: MetricSamples((100.0, 101.0)) for test in tests}
    return BuildMeasurement(str(commit) * 40, MOMENT, MOMENT, values, failed or {})


def state(*all_of_them: BuildMeasurement) -> BisectState:
    known = BisectState(RANGE)
    for each in all_of_them:
        known = known.with_measured(each)
    return known


def failures(known: BisectState) -> list[Mapping[str, str]]:
    return [each.failed for each in known.measured]


def test_command_that_fails_as_a_whole_fails_each_test_whichever_was_measured_first() -> None:
    works, fails = measured(0, "one", "two"), measured(2, failed={"command": "exit 2"})
    each = {"one": "exit 2", "two": "exit 2"}

    assert [{}, each] == failures(state(works, fails))
    assert [each, {}] == failures(state(fails, works))
    assert {"one", "two"} == state(fails, works).compared


def test_failure_of_a_known_test_stays_its_own() -> None:
    known = state(measured(0, "one", "two"), measured(2, failed={"two": "no route"}))

    assert [{}, {"two": "no route"}] == failures(known)


def test_command_that_never_worked_keeps_its_name() -> None:
    known = state(measured(0, failed={"command": "exit 2"}), measured(2, failed={"command": "exit 2"}))

    assert 2 * [{"command": "exit 2"}] == failures(known)
    assert {"command"} == known.compared


def test_only_tests_that_were_tried_at_both_ends_are_compared() -> None:
    known = state(measured(0, "one", "gone"), measured(1, "one", "gone", "new"), measured(2, "one", "new"))

    assert {"one"} == known.compared
    assert frozenset() == state(measured(0, "one")).compared

"""Traces are evaluated the same wherever it happens, and whatever happens to the processes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from datetime import UTC, datetime, timedelta
from multiprocessing import parent_process

import numpy as np
import pytest

from perftrend.analysis import Criteria, evaluate_all
from perftrend.analysis.mdl.batch import LOT, map_lots
from perftrend.errors import ServiceError, SettingsError, UsageError
from perftrend.execution import workers
from perftrend.execution.workers import FEWEST_ITEMS, EvaluationWorkers
from perftrend.model import Better, Result, Run, Series, Status, TraceKey, Verdict

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
RUNS = tuple(
    Run(
        "2n-clx",
        "nightly",
        build + 1,
        MOMENT + timedelta(days=build),
        MOMENT + timedelta(days=build, hours=1),
    )
    for build in range(20)
)


def made_series(count: int) -> Iterator[Series]:
    generator = np.random.default_rng(4)
    for number in range(count):
        samples = 1e6 * (1 + 0.01 * generator.standard_normal(len(RUNS)))
        samples[generator.integers(5, len(RUNS)) :] *= 1 - 0.1 * (number % 3 == 0)
        key = TraceKey.of(testbed="2n-clx", test=f"t{number}")
        results = [Result(key, "pps", Better.HIGHER, Status.PASS, (x, x), x) for x in samples.tolist()]
        yield Series(key, "pps", Better.HIGHER, RUNS, samples, tuple(results))


def facts(verdicts: tuple[Verdict, ...]) -> list[str]:
    """Return everything that a verdict says; NaN is equal to NaN as a text."""
    return [repr(verdict) for verdict in verdicts]


def killed(number: int) -> int:
    """Return the square of a number; the process of 70 is killed, unless it is this one."""
    if number == 70 and parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2


def square(number: int) -> int:
    if number < 0:
        raise SettingsError("negative")
    return number**2


@pytest.mark.parametrize("trials", [False, True])
def test_processes_give_what_this_one_gives(*, trials: bool) -> None:
    criteria = Criteria(trials=trials, outliers=not trials)
    series = list(made_series(LOT + 3))
    alone = evaluate_all(series, run=RUNS[-1], criteria=criteria)

    with EvaluationWorkers(2) as two:
        found = evaluate_all(series, run=RUNS[-1], criteria=criteria, mapped=two.map)

    assert facts(alone) == facts(found)
    assert all(one is verdict.series for one, verdict in zip(series, found, strict=True))


def test_killed_process_changes_nothing() -> None:
    with EvaluationWorkers(2) as two:
        assert [number**2 for number in range(3 * LOT)] == list(two.map(killed, range(3 * LOT)))
        assert [4, 9] == list(two.map(square, [2, 3]))


def test_error_of_a_call_is_raised_here() -> None:
    with EvaluationWorkers(2) as two, pytest.raises(SettingsError, match="negative"):
        list(two.map(square, [1, -1]))


class Gone(Executor):
    """A pool that accepts calls and never answers."""

    def submit(self, *_: object, **__: object) -> Future:  # type: ignore[override,type-arg]
        return Future()


def test_pool_that_never_answers_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perftrend.analysis.mdl.batch._CHECK_S", 0.01)

    found = map_lots(square, range(LOT + 1), Gone(), 1, is_alive=lambda: False)

    assert [number**2 for number in range(LOT + 1)] == list(found)


def test_few_traces_are_evaluated_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    monkeypatch.setattr(workers, "_cores", lambda: 3)
    monkeypatch.setattr(workers, "open_processes", lambda count: opened.append(count) or Gone())
    with EvaluationWorkers() as automatic:
        assert isinstance(automatic.map(square, range(FEWEST_ITEMS - 1)), map)
        automatic.map(square, range(FEWEST_ITEMS))
        automatic.map(square, range(FEWEST_ITEMS))
    with EvaluationWorkers(1) as one:
        one.map(square, range(FEWEST_ITEMS))

    assert [3] == opened


def test_cluster_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(workers, "_CONNECT_S", 0.2)
    for address in ("tcp://127.0.0.1:1", "nonsense://", "tcp://"):
        with EvaluationWorkers(cluster=address) as far, pytest.raises(ServiceError, match="cannot be used"):
            far.map(square, [1])


def test_package_for_a_cluster_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)

    with (
        EvaluationWorkers(cluster="tcp://127.0.0.1:1") as far,
        pytest.raises(UsageError, match="install them with"),
    ):
        far.map(square, [1])


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({}, "it has no workers"),
        ({"tcp://b": {"numpy": "1.0"}}, "worker tcp://b has numpy 1.0, and this process"),
    ],
)
def test_other_versions_are_refused(found: dict[str, dict[str, str]], message: str) -> None:
    given = {worker: workers._versions() | other for worker, other in found.items()}

    with pytest.raises(ServiceError, match=message):
        workers._require_same("tcp://a", given)

    workers._require_same("tcp://a", {"tcp://b": workers._versions()})

from __future__ import annotations

import errno
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from perftrend.analysis import partition, partition_all
from perftrend.analysis.mdl import batch
from perftrend.analysis.mdl.batch import LOT, LOTS_AHEAD
from perftrend.errors import SettingsError
from perftrend.model import Samples


def many(count: int) -> Iterator[Samples]:
    generator = np.random.default_rng(6)
    for _ in range(count):
        levels = np.repeat(generator.uniform(0.8, 1.0, 10), 6)[: generator.integers(2, 60)]
        yield 1e7 * levels * generator.normal(1.0, 0.01, levels.size)


def forbidden(*_: object, **__: object) -> None:
    raise PermissionError(errno.EACCES, "Permission denied")


@pytest.mark.parametrize("count", [0, 1, LOT, 3 * LOT + 5])
def test_batch_gives_what_each_series_gives_alone_in_their_order(count: int) -> None:
    assert [partition(samples) for samples in many(count)] == list(partition_all(many(count)))


def test_numpy_works_in_processes_of_its_own() -> None:
    found = list(partition_all(many(LOT + 1), engine="numpy"))

    assert [partition(samples, engine="numpy") for samples in many(LOT + 1)] == found


def test_numpy_works_in_threads_if_processes_may_not_share_semaphores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch, "ProcessPoolExecutor", forbidden)

    found = list(partition_all(many(LOT + 1), engine="numpy"))

    assert [partition(samples, engine="numpy") for samples in many(LOT + 1)] == found


def test_options_are_those_of_a_single_partition() -> None:
    found = list(partition_all(many(5), formula="jumpavg-0.1", outliers=True))

    assert [partition(samples, formula="jumpavg-0.1", outliers=True) for samples in many(5)] == found


def test_progress_tells_how_many_series_are_done() -> None:
    told: list[int] = []
    list(partition_all(many(2 * LOT + 1), progress=told.append))

    assert [LOT, 2 * LOT, 2 * LOT + 1] == told


def test_no_more_series_are_read_than_are_worked_on() -> None:
    read = 0

    def source() -> Iterator[Samples]:
        nonlocal read
        for samples in many(100 * LOT):
            read += 1
            yield samples

    with ThreadPoolExecutor(1) as pool:
        found = partition_all(source(), client=pool, workers=1)
        next(found)
        found.close()

    assert LOTS_AHEAD * LOT == read


def test_option_without_meaning_is_refused() -> None:
    with pytest.raises(SettingsError, match="no description length formula"):
        list(partition_all(many(3), formula="jumpavg"))

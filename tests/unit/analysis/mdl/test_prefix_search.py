from __future__ import annotations

import numpy as np
import pytest

from perftrend.analysis.description import Floats
from perftrend.analysis.mdl import RepeatedSearch, partition, partition_after
from perftrend.analysis.mdl.numpy_search import PlainSearch
from perftrend.model import Samples

SIZES = range(40, 71)


def stepped(seed: int) -> Samples:
    samples = 1e7 * np.random.default_rng(seed).normal(1.0, 0.005, 70)
    samples[30:] *= 0.95
    samples[55:] *= 1.04
    samples[[20, 45, 60]] *= 0.8, 100.0, 1.3
    return samples


@pytest.mark.parametrize("seed", range(4))
def test_repeated_partitions_are_those_of_each_series_alone(seed: int) -> None:
    samples, search = stepped(seed), RepeatedSearch()
    found = [partition_after(search, samples[:size], outliers=True, engine="numpy") for size in SIZES]

    assert [partition(samples[:size], outliers=True, engine="numpy") for size in SIZES] == found


def test_further_analyses_search_only_the_newest_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """29 analyses more of some 60 runs each would search 1,700 runs."""
    searched: list[int] = []
    extend = PlainSearch.extend

    def counted(self: PlainSearch, lots: Floats) -> None:
        searched.append(lots.shape[1])
        extend(self, lots)

    monkeypatch.setattr(PlainSearch, "extend", counted)
    samples, search = 1e7 * np.random.default_rng(1).normal(1.0, 0.005, 70), RepeatedSearch()
    partition_after(search, samples[:41], outliers=True, engine="numpy")
    before = sum(searched)
    for size in range(42, 71):
        partition_after(search, samples[:size], outliers=True, engine="numpy")

    assert sum(searched) - before < 29 * 10

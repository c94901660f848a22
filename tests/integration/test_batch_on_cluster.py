"""The batch call on a real scheduler with two worker processes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from perftrend.analysis import partition, partition_all

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client(shared_memory: None) -> Iterator[object]:
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.mark.filterwarnings("default")  # dask's, not ours
def test_cluster_gives_what_this_process_gives(client: object) -> None:
    generator = np.random.default_rng(3)
    many = [1e7 * generator.normal(1.0, 0.01, 60) for _ in range(200)]
    done: list[int] = []
    found = list(partition_all(many, client=client, progress=done.append))  # type: ignore[arg-type]

    assert [partition(samples) for samples in many] == found
    assert 200 == done[-1]

"""Partitions and evaluations on a real scheduler with two worker processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perftrend.analysis import evaluate_all, partition, partition_all
from perftrend.execution.workers import EvaluationWorkers
from perftrend.store import Store
from tests.unit.execution.test_workers import RUNS, facts, made_series

distributed = pytest.importorskip("distributed")


@contextmanager
def two_workers() -> Iterator[Any]:
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster(shared_memory: None) -> Iterator[Any]:
    with two_workers() as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Any) -> Iterator[object]:
    with distributed.Client(cluster) as client:
        yield client


@pytest.mark.filterwarnings("default")  # dask's, not ours
def test_cluster_gives_what_this_process_gives(client: object) -> None:
    generator = np.random.default_rng(3)
    many = [1e7 * generator.normal(1.0, 0.01, 60) for _ in range(200)]
    done: list[int] = []
    found = list(partition_all(many, client=client, progress=done.append))  # type: ignore[arg-type]

    assert [partition(samples) for samples in many] == found
    assert 200 == done[-1]


def evaluate_during(workers: EvaluationWorkers, harm: Callable[[], object]) -> list[str]:
    """Return what an evaluation says if something happens to the cluster after its first verdict."""

    def mapped(call: Any, items: Any) -> Iterator[Any]:
        found = iter(workers.map(call, items))
        yield next(found)
        harm()
        yield from found

    return facts(evaluate_all(made_series(300), run=RUNS[-1], mapped=mapped))


@pytest.mark.filterwarnings("default")
def test_killed_worker_changes_nothing(cluster: Any) -> None:
    alone = facts(evaluate_all(made_series(300), run=RUNS[-1]))

    with EvaluationWorkers(cluster=cluster.scheduler_address) as workers:
        found = evaluate_during(workers, lambda: os.kill(cluster.workers[0].pid, signal.SIGKILL))

    assert alone == found


@pytest.mark.filterwarnings("default")
def test_cluster_that_ends_changes_nothing(shared_memory: None) -> None:
    alone = facts(evaluate_all(made_series(300), run=RUNS[-1]))

    with two_workers() as ending, EvaluationWorkers(cluster=ending.scheduler_address) as workers:
        assert alone == evaluate_during(workers, ending.close)


def test_job_reports_the_same_from_a_cluster(cluster: Any, tmp_path: Path) -> None:
    series = list(made_series(130))
    place = tmp_path / "store.sqlite"
    with Store.open(place) as store:
        for number, run in enumerate(RUNS):
            store.add(run, [one.results[number] for one in series])

    def judged(*options: str) -> object:
        command = [
            sys.executable,
            "-m",
            "perftrend.cli.analysis",
            "--store",
            str(place),
            "--testbed",
            "2n-clx",
        ]
        ran = subprocess.run(
            [*command, "--report", str(tmp_path / "report"), "--json", "-", *options],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode in {0, 1}, ran.stderr
        return ran.returncode, json.loads(ran.stdout)

    assert judged() == judged("--cluster", cluster.scheduler_address) == judged("--workers", "2")

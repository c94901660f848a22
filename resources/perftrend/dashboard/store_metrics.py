"""Metrics of the store and of the background workers; figures of the store are cached for some seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from perftrend.dashboard.workers import Workers
from perftrend.errors import StoreError
from perftrend.store import Store
from perftrend.store.connection import patience
from perftrend.store.statistics import StoreFigures

CACHE_S = 15.0
"""How long the figures of the store are reused: several servers may collect them, and users read them."""
_PATIENCE_S = 5.0


class StoreMetrics(Collector):
    """Collects the figures of a store; yields none of them while it cannot be read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._cached: StoreFigures | None = None
        self._read_at = 0.0

    @override
    def collect(self) -> Iterator[Metric]:
        pool = self._store.statistics.pool
        connections = GaugeMetricFamily(
            "perftrend_store_connections", "Connections to the database.", labels=["state"]
        )
        connections.add_metric(["in_use"], pool.in_use)
        connections.add_metric(["idle"], pool.idle)
        yield connections
        try:
            figures = self._figures()
        except StoreError:
            # The other metrics matter most while the store is unavailable, which /healthz reports.
            return
        yield from _queues(figures)
        yield from _testbeds(figures)

    def _figures(self) -> StoreFigures:
        with self._lock:
            now = time.monotonic()
            if self._cached is None or now - self._read_at >= CACHE_S:
                with patience(_PATIENCE_S):
                    self._cached = self._store.statistics.read()
                self._read_at = now
            return self._cached


class WorkerMetrics(Collector):
    """Collects which background workers run."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    @override
    def collect(self) -> Iterator[Metric]:
        healthy = GaugeMetricFamily(
            "perftrend_dashboard_worker_healthy",
            "Whether a background worker is alive and makes progress.",
            labels=["worker"],
        )
        for name, problem in self._workers.problems().items():
            healthy.add_metric([name], float(not problem))
        yield healthy


def _queues(figures: StoreFigures) -> Iterator[Metric]:
    length = GaugeMetricFamily("perftrend_queue_length", "Entries of a queue.", labels=["queue"])
    age = GaugeMetricFamily(
        "perftrend_queue_oldest_age_seconds", "Age of the oldest entry of a queue.", labels=["queue"]
    )
    for queue in figures.queues:
        length.add_metric([queue.name], queue.length)
        since = queue.oldest.timestamp() if queue.oldest else time.time()
        age.add_metric([queue.name], max(0.0, time.time() - since))
    yield length
    yield age
    yield GaugeMetricFamily(
        "perftrend_outbox_failed", "Messages of alerts that are no longer retried.", value=figures.given_up
    )


def _testbeds(figures: StoreFigures) -> Iterator[Metric]:
    measured = CounterMetricFamily(
        "perftrend_testbed_seconds", "Duration of all stored runs of a testbed.", labels=["testbed"]
    )
    lag = GaugeMetricFamily(
        "perftrend_evaluation_lag_seconds",
        "Time between the newest run of a testbed and the newest one that the alerts have evaluated.",
        labels=["testbed"],
    )
    for each in figures.testbeds:
        measured.add_metric([each.testbed], each.measured_s)
        if each.lag_s is not None:
            lag.add_metric([each.testbed], each.lag_s)
    yield measured
    yield lag

"""Prometheus metrics of the dashboard, its workers and the store.

Counters are reset when the process restarts. Figures of the store are cached for some seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from time import monotonic
from time import time as now_s

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from perftrend.dashboard.workers import Workers
from perftrend.errors import StoreError
from perftrend.store import Store
from perftrend.store.connection import patience
from perftrend.store.statistics import StoreFigures

TEXT = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.5, 5.0, 10.0)
CACHE_S = 15.0
"""How long the figures of the store are reused: several servers may collect them, and users read them."""
_PATIENCE_S = 5.0


class Metrics:
    """The metrics of one dashboard in a separate registry, to which pages can add their own."""

    def __init__(self, store: Store) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_Runs(store))
        self.registry.register(StoreMetrics(store))
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._requests = Counter(
            "perftrend_dashboard_requests",
            "Requests by route and status.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self._durations = Histogram(
            "perftrend_dashboard_request_seconds",
            "How long requests took, by route.",
            ["route"],
            buckets=_BOUNDS_S,
            registry=self.registry,
        )

        self.ignored_user_headers = Counter(
            "perftrend_dashboard_ignored_user_headers",
            "Requests whose proxy header is ignored, for example because they come from elsewhere.",
            registry=self.registry,
        )

        self.ingestions = Counter(
            "perftrend_ingestions",
            "Attempts to ingest a reported build, by the kind of its source.",
            ["source", "outcome"],
            registry=self.registry,
        )

        self.cacheable_responses = Counter(
            "perftrend_dashboard_cacheable_responses",
            "Cacheable responses of pages: from the cache, or computed.",
            ["origin"],
            registry=self.registry,
        )
        self.cached_bytes = Gauge(
            "perftrend_dashboard_cached_bytes", "Memory used by cached responses.", registry=self.registry
        )

    def count(self, method: str, route: str, status: int, duration_s: float) -> None:
        """Count a request.

        :param route: path template of the route; labels of actual paths would be unlimited in number.
        """
        known = method if method in _METHODS else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._durations.labels(route).observe(duration_s)

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self.registry)


class _Runs(Collector):
    """Collects the age of the newest run of each testbed, to detect missing results."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def describe(self) -> Iterator[Metric]:
        """Yield the collected metrics without values."""
        yield _ages()

    @override
    def collect(self) -> Iterator[Metric]:
        ages = _ages()
        try:
            for testbed in self._store.tiles.testbeds():
                for run in self._store.runs(testbed, last=1):
                    ages.add_metric([testbed], now_s() - run.finished.timestamp())
        except StoreError:
            # The other metrics matter most while the store is unavailable, which /healthz reports.
            return
        yield ages


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
            now = monotonic()
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


def _ages() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "perftrend_newest_run_age_seconds",
        "Time since the newest run of a testbed ended.",
        labels=["testbed"],
    )


def _queues(figures: StoreFigures) -> Iterator[Metric]:
    length = GaugeMetricFamily("perftrend_queue_length", "Entries of a queue.", labels=["queue"])
    age = GaugeMetricFamily(
        "perftrend_queue_oldest_age_seconds", "Age of the oldest entry of a queue.", labels=["queue"]
    )
    for queue in figures.queues:
        length.add_metric([queue.name], queue.length)
        since = queue.oldest.timestamp() if queue.oldest else now_s()
        age.add_metric([queue.name], max(0.0, now_s() - since))
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

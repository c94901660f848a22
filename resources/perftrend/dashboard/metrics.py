"""Prometheus metrics of the dashboard; they are reset when the process restarts."""

from __future__ import annotations

from collections.abc import Iterator
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
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from perftrend.dashboard.store_metrics import StoreMetrics
from perftrend.errors import StoreError
from perftrend.store import Store

TEXT = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.5, 5.0, 10.0)


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
            "perftrend_dashboard_kept_answers",
            "Cacheable responses of pages: from the cache, or computed.",
            ["origin"],
            registry=self.registry,
        )
        self.cached_bytes = Gauge(
            "perftrend_dashboard_kept_bytes", "Memory used by cached responses.", registry=self.registry
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


def _ages() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "perftrend_newest_run_age_seconds",
        "Time since the newest run of a testbed ended.",
        labels=["testbed"],
    )

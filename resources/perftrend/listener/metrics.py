"""Prometheus metrics of the listener."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest


class Metrics:
    """The metrics of one listener."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.comments = self._counter("comments", "Comments that were read, each counted once.")
        self.requests = self._counter("requests", "Steps of requests.", "job", "outcome")
        self.answers = self._counter("answers", "Answers that were posted.")
        self.failures = self._counter("failures", "Failures by service.", "service")
        self.connected = self._gauge("connected", "Whether events of Gerrit are received.")
        self.seconds_behind = self._gauge("seconds_behind", "Seconds since all comments were last read.")
        self.queue_length = self._gauge(
            "queue_length", "Requests that wait for a decision, a start or an answer."
        )

    def _counter(self, name: str, documentation: str, *labels: str) -> Counter:
        return Counter(f"perftrend_listener_{name}", documentation, labels, registry=self._registry)

    def _gauge(self, name: str, documentation: str) -> Gauge:
        return Gauge(f"perftrend_listener_{name}", documentation, registry=self._registry)

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)

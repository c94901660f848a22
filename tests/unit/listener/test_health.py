"""Health and metrics over HTTP."""

from __future__ import annotations

import json

import pytest
import requests

from perftrend.errors import ServiceError, SettingsError
from perftrend.listener.health import Health, Metrics, serve

WELL = Health(is_connected=True, seconds_behind=1.25, problems=())
STANDING_BY = Health(is_connected=True, seconds_behind=0, problems=(), is_standby=True)
ILL = Health(is_connected=False, seconds_behind=900, problems=("no connection",))


@pytest.mark.parametrize(("health", "status"), [(WELL, 200), (ILL, 503), (STANDING_BY, 200)])
def test_health_is_told_by_status_and_page(health: Health, status: int) -> None:
    with serve("127.0.0.1:0", health=lambda: health, metrics=bytes) as address:
        answer = requests.get(f"http://{address}/healthz?x=1", timeout=10)

    assert (status, "application/json") == (answer.status_code, answer.headers["Content-Type"])
    assert {
        "healthy": status == 200,
        "serving": not health.is_standby,
        "connected": health.is_connected,
        "seconds_behind": pytest.approx(health.seconds_behind, abs=0.1),
        "problems": list(health.problems),
    } == json.loads(answer.content)


def test_metrics_are_as_prometheus_reads_them() -> None:
    metrics = Metrics()
    metrics.answers.inc()
    metrics.failures.labels("gerrit").inc()
    with serve("127.0.0.1:0", health=lambda: WELL, metrics=metrics.text) as address:
        answer = requests.get(f"http://{address}/metrics", timeout=10)

    assert (200, "text/plain; version=0.0.4; charset=utf-8") == (
        answer.status_code, answer.headers["Content-Type"]
    )  # fmt: skip
    assert "perftrend_listener_answers_total 1.0" in answer.text
    assert 'perftrend_listener_failures_total{service="gerrit"} 1.0' in answer.text


def test_other_pages_are_not_there() -> None:
    with serve("127.0.0.1:0", health=lambda: WELL, metrics=bytes) as address:
        assert 404 == requests.get(f"http://{address}/../etc/passwd", timeout=10).status_code


def test_address_that_is_in_use_is_told() -> None:
    with (
        serve("127.0.0.1:0", health=lambda: WELL, metrics=bytes) as address,
        pytest.raises(ServiceError, match=rf"listener.address is {address}; .*\(Address already in use\)"),
        serve(address, health=lambda: WELL, metrics=bytes),
    ):
        pass


@pytest.mark.parametrize(
    ("address", "kind"), [("127.0.0.1:70000", SettingsError), ("no-such.invalid:0", ServiceError)]
)
def test_address_that_cannot_be_is_told(address: str, kind: type[Exception]) -> None:
    with (
        pytest.raises(kind, match=r"listener\.address is"),
        serve(address, health=lambda: WELL, metrics=bytes),
    ):
        pass


def test_address_of_version_6_is_served() -> None:
    try:
        with serve("[::1]:0", health=lambda: WELL, metrics=bytes) as address:
            assert 200 == requests.get(f"http://{address}/healthz", timeout=10).status_code
    except ServiceError:
        pytest.skip("this machine has no IPv6")

"""The listener as a service: its start, health, stop and kill, with a double of Gerrit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from perftrend.store import Store
from tests.doubles.gerrit import GerritDouble
from tests.unit.cli.conftest import bench
from tests.unit.cli.test_listener import LINE, commented, gerrit, run, settings, states

__all__ = ("bench", "gerrit", "settings")  # fixtures

PATIENCE_S = 300


class Service:
    """A listener that runs."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "perftrend.cli.listener", "--settings", "settings.yaml"],
            stderr=subprocess.PIPE, text=True, env={**os.environ},
        )  # fmt: skip
        assert self.process.stderr
        self.first = self.process.stderr.readline()

    def page(self, name: str) -> requests.Response:
        address = self.first.split("health at ")[1].strip().removesuffix("/healthz")
        return requests.get(f"{address}/{name}", timeout=PATIENCE_S)

    def ended(self, number: signal.Signals) -> tuple[int, str]:
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, said


@pytest.fixture
def service(settings: Path) -> Iterator[Service]:
    running = Service()
    yield running
    if running.process.poll() is None:
        running.process.kill()
    running.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_service_that_is_stopped_ends_well(service: Service, number: signal.Signals) -> None:
    code, said = service.ended(number)

    assert 0 == code
    assert "perftrend: stopped; unfinished requests continue at the next start" == said.splitlines()[-1]


def test_service_tells_how_it_is(service: Service) -> None:
    health = service.page("healthz")

    assert (200, True) == (health.status_code, json.loads(health.content)["healthy"])
    assert "perftrend_listener_connected 0.0" in service.page("metrics").text
    assert 404 == service.page("").status_code


def test_second_listener_of_a_store_is_refused(service: Service) -> None:
    assert "listening to" in service.first

    second = Service()
    second.process.communicate(timeout=60)

    assert 2 == second.process.returncode
    assert (
        "perftrend: store perftrend.sqlite: another listener uses it; stop that one first\n" == second.first
    )


def test_service_serves_what_is_asked_while_it_runs(
    bench: Any, gerrit: GerritDouble, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFTREND_LISTENER_POLL_S", "0.2")
    service = Service()
    try:
        commented(gerrit, "bisecttest-simulated mrr")
        end = time.monotonic() + PATIENCE_S
        while not gerrit.posted and time.monotonic() < end:
            time.sleep(0.02)
    finally:
        ended = service.ended(signal.SIGTERM)

    assert (0, 1) == (ended[0], len(gerrit.posted))
    assert "the hash of the older commit is missing" in gerrit.posted[0]["message"]


def test_listener_killed_between_claim_and_start_runs_the_job_once(
    bench: Any, gerrit: GerritDouble, settings: Path
) -> None:
    """Killed as hard as can be, in the very moment after the claim."""
    commented(gerrit, LINE)
    dies = (
        "import os, sys\n"
        "from perftrend.cli import listener\n"
        "from perftrend.listener.runner import LocalRunner\n"
        "LocalRunner.begin = lambda *_, **__: os.kill(os.getpid(), 9)\n"
        "listener.main(['--settings', 'settings.yaml', '--once'])\n"
    )
    killed = subprocess.run([sys.executable, "-c", dies], check=False, capture_output=True)
    assert (-9, ["claimed"], 0) == (killed.returncode, states(bench), len(gerrit.posted))

    run(bench, "--once")

    with Store.open(bench.folder / "perftrend.sqlite") as store:
        assert 1 == len(store.runs("simulated"))
    assert (["ended"], 1) == (states(bench), len(gerrit.posted))

"""The environment of this machine, read as a job reads it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

import pytest

from perftrend.errors import TestbedError
from perftrend.measure import specification
from perftrend.measure.environment import read_environment
from perftrend.measure.wiring import Loopback, NoWiring


class Nodes(NoWiring):
    """Nodes that are this machine, reached as if they were others."""

    is_remote = True
    fails = False

    def at_node(self, node: str, command: Sequence[str]) -> list[str]:
        return ["false"] if self.fails else ["env", f"NODE={node}", *command]


def test_machine_of_the_job_is_described_once() -> None:
    found = read_environment(specification.load("1n-loopback"), Loopback())

    assert found["kernel"].startswith(platform.release())
    assert platform.python_version() == found["python"]
    assert {"cores", "numpy"} <= set(found)
    assert "host" not in found
    assert all(text and text.isprintable() and len(text) <= 200 for text in found.values())


def test_each_other_machine_is_described_by_its_node() -> None:
    found = read_environment(specification.load("1n-loopback"), Nodes())

    assert {f"{node}: {name}" for node in ("tg", "dut") for name in ("host", "kernel")} <= set(found)
    assert {"tg", "dut"} == {name.partition(":")[0] for name in found}


def test_only_parameters_of_the_kernel_that_influence_the_speed_are_recorded() -> None:
    found = read_environment(specification.load("1n-loopback"), Loopback())

    words = {word.partition("=")[0] for word in Path("/proc/cmdline").read_text().split()}
    recorded = {name.removeprefix("kernel parameter ") for name in found if "parameter" in name}
    assert recorded <= words - {"console", "root", "init", "rdinit", "quiet", "panic"}


def test_simulated_testbed_has_no_machines() -> None:
    assert {} == read_environment(specification.load("simulated"), NoWiring())


def test_machine_that_cannot_be_reached_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Nodes, "fails", True)

    with pytest.raises(TestbedError):
        read_environment(specification.load("1n-loopback"), Nodes())

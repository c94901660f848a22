"""The rules about skipping and not running: what a person reads, and what CI accepts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perftrend.measure.trial_validity import two_cores
from tests.integration.quiet import find_busy_core

Require = Callable[[object, str], None]

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"

ASKING = "def test_it(require):\n    require(False, 'needs a moon')\n"
MARKED = "import pytest\n@pytest.mark.skipif(True, reason='needs a moon')\ndef test_it(): pass\n"
WHOLE = "import pytest\npytest.skip('needs a moon', allow_module_level=True)\n"

every_way_of_skipping = pytest.mark.parametrize(
    "test", [ASKING, MARKED, WHOLE], ids=["asking", "marked", "whole"]
)


def run_pytest(folder: Path, test: str, *options: str, **environment: str) -> tuple[bool, str]:
    """Run pytest on a test in a folder of its own; return whether it was content, and its output."""
    (folder / "conftest.py").write_text(CONFTEST.read_text())
    (folder / "test_it.py").write_text(test)
    inherited = {name: value for name, value in os.environ.items() if name != "CI"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        f"--rootdir={folder}",
        *options,
        folder,
    ]
    run = subprocess.run(
        command,
        cwd=folder,
        env={**inherited, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return run.returncode in (0, 5), run.stdout


@every_way_of_skipping
def test_a_person_reads_the_reason(tmp_path: Path, test: str) -> None:
    content, told = run_pytest(tmp_path, test)

    assert content
    assert "1 skipped" in told
    assert "needs a moon" in told


@every_way_of_skipping
def test_ci_does_not_accept_a_skip(tmp_path: Path, test: str) -> None:
    content, told = run_pytest(tmp_path, test, CI="true")

    assert not content
    assert "CI does not accept" in told
    assert "needs a moon" in told


BUSY = """
def test_it(require_quiet):
    require_quiet('')
    require_quiet('another process used the cores')
    assert False, 'it went on'
"""


@pytest.mark.parametrize("environment", [{}, {"CI": "true"}])
def test_busy_cores_are_counted_and_fail_nothing(tmp_path: Path, environment: dict[str, str]) -> None:
    content, summary = run_pytest(tmp_path, BUSY, **environment)

    assert content
    assert "1 not run" in summary
    assert "NOT RUN test_it.py::test_it: another process used the cores" in summary


@pytest.mark.parametrize(("share", "reason"), [(0.5, "another process used the cores: "), (1.0, "")])
def test_core_with_other_work_is_noticed_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, require: Require, share: float, reason: str
) -> None:
    """By a clock of the test: how much of a core it really gets depends on the machine."""
    require(None not in two_cores(), "needs two cores")
    now_s = 0.0

    def tick() -> float:
        nonlocal now_s
        now_s += 0.001
        return now_s

    monkeypatch.setattr(time, "perf_counter", tick)
    monkeypatch.setattr(time, "thread_time", lambda: share * now_s)

    found = find_busy_core()

    assert bool(reason) == bool(found)
    assert found.startswith(reason)


MEASURED = """
import pytest

@pytest.mark.measure
def test_story(record_property):
    record_property("measured", "10000 pps")

def test_other(record_property):
    record_property("measured", "20000 pps")
"""


def test_stories_show_what_they_measured(tmp_path: Path) -> None:
    _, output = run_pytest(tmp_path, MEASURED, "-W", "ignore")

    assert "test_it.py::test_story:\n10000 pps" in output
    assert "20000 pps" not in output


EXAMPLES = """
from hypothesis import given, settings, strategies as st

seen = []

@given(st.floats())
def test_it(number):
    seen.append(number)

def test_what_was_tried():
    print(settings.default.max_examples, len(seen), hash(tuple(map(repr, seen))))
    assert False
"""


def tried(folder: Path, *options: str) -> list[str]:
    """Return what a run tried: the examples that were wanted and given, and the hash of all of them."""
    _, summary = run_pytest(folder, EXAMPLES, *options, PYTHONHASHSEED="0")
    found = re.search(r"^(\d+) (\d+) (-?\d+)$", summary, re.MULTILINE)
    assert found, summary
    return list(found.groups())


def test_the_gate_tries_the_same_examples_each_time(tmp_path: Path) -> None:
    assert tried(tmp_path) == tried(tmp_path)


def test_thorough_runs_try_more_examples_and_others_each_time(tmp_path: Path) -> None:
    gate, first, second = tried(tmp_path), tried(tmp_path, "--thorough"), tried(tmp_path, "--thorough")

    assert int(gate[0]) < int(first[0])
    assert first[2] != second[2]

"""A device or a generator starts without importing the search, because it starts many times in a run."""

from __future__ import annotations

import subprocess
import sys

import pytest

from perftrend import measure


@pytest.mark.parametrize("module", ["embedded.router", "embedded.generator", "xdp.generator"])
def test_processes_of_a_testbed_do_not_import_the_searches(module: str) -> None:
    script = f"import perftrend.measure.{module}, sys; print('perftrend.measure.search' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert "False" == done.stdout.strip()


def test_searches_are_there_when_they_are_asked_for() -> None:
    assert all(callable(getattr(measure, name)) for name in measure.__all__)
    with pytest.raises(AttributeError, match="no attribute 'bisect'"):
        measure.bisect  # noqa: B018 - to ask for it is all

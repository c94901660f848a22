"""A command of a profile is measured without the libraries for suites and databases, which load slowly."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("job", ["bisect", "bisectrun"])
def test_jobs_start_without_robot_framework_and_the_database(job: str) -> None:
    script = f"import perftrend.cli.{job}, sys; print({{'robot', 'sqlalchemy'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert "set()" == done.stdout.strip()

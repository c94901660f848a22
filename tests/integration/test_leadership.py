"""Which of two processes serves a store if the machine of one vanishes, on a real PostgreSQL."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.usefixtures("postgresql_server")
def test_standby_takes_over_from_a_machine_that_vanishes(require: Callable[[object, str], None]) -> None:
    """By a limit of TCP; without it, that takes a quarter of an hour."""
    for program in ("unshare", "ip", "nft"):
        require(shutil.which(program), f"needs {program}")
    path = os.pathsep.join(map(str, (CHECKOUT, CHECKOUT / "resources")))

    ran = subprocess.run(
        ["unshare", "--net", sys.executable, "-m", "tests.integration.servers.vanishing_leader"],
        cwd=CHECKOUT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip

    assert (0, "") == (ran.returncode, ran.stderr)

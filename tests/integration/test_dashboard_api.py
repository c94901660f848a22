"""Whatever is sent to the dashboard, it answers, and never by a fault of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.servers.dashboard import Dashboard

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
"""It answers, and with what ``/openapi.json`` says."""


@pytest.mark.slow
def test_every_request_is_answered_as_it_is_described(dashboard: Dashboard, tmp_path: Path) -> None:
    """Send some thousand requests that schemathesis makes up from ``/openapi.json``."""
    token = dashboard.new_token("schemathesis", role="admin")
    ended = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "run", f"{dashboard.url}/openapi.json",
         "--header", f"Authorization: Bearer {token}", "--header", "Accept: application/json",
         "--checks", CHECKS, "--phases", "coverage,fuzzing", "--max-examples", "5",
         "--generation-deterministic", "--no-color"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert 0 == ended.returncode, ended.stdout[ended.stdout.find("= FAILURES =") :] + ended.stderr

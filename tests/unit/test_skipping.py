"""The rule about skipping: a skip for a person, a failure in CI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"

ASKING = "def test_it(require):\n    require(False, 'needs a moon')\n"
MARKED = "import pytest\n@pytest.mark.skipif(True, reason='needs a moon')\ndef test_it(): pass\n"
WHOLE = "import pytest\npytest.skip('needs a moon', allow_module_level=True)\n"

every_way_of_skipping = pytest.mark.parametrize(
    "test", [ASKING, MARKED, WHOLE], ids=["asking", "marked", "whole"]
)


def last_words(folder: Path, test: str, **environment: str) -> tuple[bool, str]:
    """Run pytest on a test in a folder of its own; return whether it was content, and its last words."""
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
    return run.returncode in (0, 5), "\n".join(run.stdout.splitlines()[-4:])


@every_way_of_skipping
def test_a_person_reads_the_reason(tmp_path: Path, test: str) -> None:
    content, told = last_words(tmp_path, test)

    assert content
    assert "1 skipped" in told
    assert "needs a moon" in told


@every_way_of_skipping
def test_ci_does_not_accept_a_skip(tmp_path: Path, test: str) -> None:
    content, told = last_words(tmp_path, test, CI="true")

    assert not content
    assert "CI does not accept" in told
    assert "needs a moon" in told

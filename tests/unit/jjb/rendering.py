"""Renders the XML of the jobs from ``jjb/``, and rewrites the golden files.

``.venv/bin/python tests/unit/jjb/rendering.py`` writes ``golden/NAME.xml`` for each
``golden/NAME.yaml``. Read what it changes before you commit it: that is what Jenkins will run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
JJB = CHECKOUT / "jjb"
PROJECTS = JJB / "projects.yaml"
"""The testbeds of this checkout; all other files serve any."""
GOLDEN = Path(__file__).resolve().parent / "golden"

# Nothing is asked of a server: without the versions of its plugins, the newest are taken for given.
CONFIGURATION = """
[job_builder]
ignore_cache = True
[jenkins]
url = http://127.0.0.1:1/
query_plugins_info = False
"""


def render(projects: Iterable[Path]) -> dict[str, str]:
    """Return the XML of each job that Jenkins Job Builder makes, by the job's name.

    :param projects: YAML files with projects, beside the templates of ``jjb/``.
    """
    templates = sorted(file for file in JJB.glob("*.yaml") if file != PROJECTS)
    with tempfile.TemporaryDirectory() as folder:
        configuration = Path(folder, "jenkins_jobs.ini")
        configuration.write_text(CONFIGURATION)
        output = Path(folder, "output")
        subprocess.run(
            [
                sys.executable, "-W", "ignore", "-m", "jenkins_jobs", "--conf", configuration,
                "test", "--config-xml", "-o", output, os.pathsep.join(map(str, [*templates, *projects])),
            ],
            env={**os.environ, "XDG_CACHE_HOME": folder}, check=True, capture_output=True, text=True,
        )  # fmt: skip
        files = sorted(output.rglob("config.xml"))
        return {str(file.parent.relative_to(output)): file.read_text(encoding="utf-8") for file in files}


def main() -> None:
    """Write the golden files."""
    rendered = render(sorted(GOLDEN.glob("*.yaml")))
    for old in GOLDEN.glob("*.xml"):
        old.unlink()
    for name, xml in rendered.items():
        (GOLDEN / f"{name}.xml").write_text(xml, encoding="utf-8")


if __name__ == "__main__":
    main()

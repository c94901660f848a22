"""Write what each job prints for ``--help`` into a file, so that ``./run`` can show it without Python.

After a change of a job's options::

    .venv/bin/python docs/help/generate.py
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
CHECKOUT = FOLDER.parents[1]
WIDTH = 100


def helps() -> Iterator[tuple[Path, str]]:
    """Yield each job's file and what belongs into it."""
    os.environ["COLUMNS"] = str(WIDTH)
    for module in sorted(file.stem for file in (CHECKOUT / "jobs").glob("[a-z]*.py")):
        job = module.replace("_", "-")
        yield FOLDER / f"{job}.txt", importlib.import_module(f"jobs.{module}").parser().format_help()


def main() -> None:
    """Write all of them, and remove those of jobs that are gone."""
    written = dict(helps())
    for old in set(FOLDER.glob("*.txt")) - set(written):
        old.unlink()
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "resources")]
    main()

"""The program ``perftrend JOB``: what ``./run JOB`` is in a checkout."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from perftrend import COMMAND, __version__
from perftrend.errors import EXIT_PASS, EXIT_USAGE, nearest
from perftrend.trigger import FORMER_JOBS

JOBS = (
    "analysis",
    "bisect",
    "bisectrun",
    "dashboard",
    "doctor",
    "ingest",
    "listener",
    "perftest",
    "rebuild-tiles",
    "store",
    "trending",
)
_FORMER_NAMES = {**FORMER_JOBS, "tiles": "rebuild-tiles"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a job and return its exit code."""
    job, *rest = (sys.argv[1:] if argv is None else argv) or ["help"]
    if job == "--version":
        print(f"perftrend {__version__}")
        return EXIT_PASS
    if job in ("help", "-h", "--help"):
        if not rest:
            print(_usage())
            return EXIT_PASS
        job, rest = rest[0], ["--help"]
    job = _FORMER_NAMES.get(job, job)
    if job not in JOBS:
        print(f"perftrend: no job is named {job!r}{nearest(job, JOBS)}", file=sys.stderr)
        return EXIT_USAGE
    # Debian keeps ip and nft where the PATH of a user or of cron does not look.
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    try:
        exit_code: int = importlib.import_module(f"perftrend.cli.{_module_of(job)}").main(rest)
    except ImportError:
        if job != "bisectrun":
            raise
        # git would interpret 1, with which Python ends, as the verdict that the commit is bad.
        traceback.print_exc()
        return 201
    return exit_code


def _usage() -> str:
    lines = [
        f"usage: {COMMAND} JOB [options]",
        f"       {COMMAND} help JOB",
        f"       {COMMAND} --version",
        "",
        "Jobs:",
    ]
    return "\n".join([*lines, *(f"  {job:<13} {_summary(job)}" for job in JOBS)])


def _module_of(job: str) -> str:
    return job.replace("-", "_")


def _summary(job: str) -> str:
    """Return the first line of a job's module, which takes a second to import."""
    source = Path(__file__).with_name(f"{_module_of(job)}.py").read_text(encoding="utf-8")
    return source.partition("\n")[0].strip('"')


if __name__ == "__main__":
    sys.exit(main())

"""Cost of a run outside its trials: ``python -m benchmarks.overhead [--json]``.

Runs the job, sums the time of all its trials from the messages of its tests, and shows the rest. The time
that the job waited for a machine that others used, before it repeated a trial, is shown separately: an
exclusive testbed has no such time. Run it with the Python of ``.venv``, which has the packages of users.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from perftrend import archive
from perftrend.measure import trial_validity
from perftrend.settings import TrialSettings

ROOT = Path(__file__).resolve().parent.parent


def main(argv: Sequence[str] | None = None) -> int:
    """Print the seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--testbed", default="1n-veth")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        command = [sys.executable, "-P", "-m", "perftrend.cli.trending", "--testbed", given.testbed]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        whole_s = time.perf_counter() - begin
        outputs = list(Path(folder).glob("archives/*/*/output.xml"))
        if not outputs:
            sys.stderr.write(done.stderr)
            return done.returncode
        trials = [
            trial for result in archive.read_output(outputs[0]) for trial in result.details.get("trials", [])
        ]
    spent_s = sum(trial["elapsed_s"] for trial in trials)
    waited_s = sum_pauses_s([bool(trial["invalid"]) for trial in trials])
    row = {
        "exit_code": done.returncode,
        "whole_s": whole_s,
        "trials": len(trials),
        "repeated": sum(bool(trial["invalid"]) for trial in trials),
        "trials_s": spent_s,
        "waited_s": waited_s,
        "overhead_s": whole_s - spent_s - waited_s,
    }
    text = "  ".join(f"{name} {value:.1f}" for name, value in row.items())
    print(json.dumps(row) if given.json else text)
    return 0


def sum_pauses_s(invalid: Sequence[bool]) -> float:
    """Return the pauses of the job before trials that it repeated.

    :param invalid: whether each trial was not valid, in their order.
    """
    waited_s, attempt = 0.0, 0
    for is_invalid in invalid:
        waited_s += trial_validity.pause_s(attempt)
        attempt = (attempt + 1) % TrialSettings().attempts if is_invalid else 0
    return waited_s


if __name__ == "__main__":
    sys.exit(main())

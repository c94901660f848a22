"""What busy cores do to measurements on real packets, as opposed to defects."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from perftrend.measure.embedded.drivers import EmbeddedGenerator
from perftrend.measure.trial_validity import two_cores

_REASONS = ("another process used the cores", "the host withheld the cores", "the generator reached ")
"""How the reasons begin for which a trial is invalid on a machine that has other work."""
_ATTEMPTS = 5
_PROBE_S = 0.1
_ENOUGH = 0.75
"""Of a core that it has to itself, a process gets more, and of one that it shares less."""


def find_busy_core() -> str:
    """Return the reason why no trial can be valid now, or nothing: a core that a testbed uses is shared."""
    allowed = os.sched_getaffinity(0)
    try:
        for core in two_cores():
            if core is not None and (share := _share_of(core)) < _ENOUGH:
                return f"another process used the cores: {share:.0%} of core {core} was free"
    finally:
        os.sched_setaffinity(0, allowed)
    return ""


def _share_of(core: int) -> float:
    """Return how much of a core this thread gets if it takes what it can."""
    os.sched_setaffinity(0, {core})
    begun, ran = time.perf_counter(), time.thread_time()
    while time.perf_counter() - begun < _PROBE_S:
        pass
    return (time.thread_time() - ran) / (time.perf_counter() - begun)


def interference(invalid: str) -> str:
    """Return the reason for which a trial is invalid if it is that the cores were not quiet, or nothing."""
    return invalid if any(reason in invalid for reason in _REASONS) else ""


def count_received(generator: EmbeddedGenerator, expected: int) -> int:
    """Return how many frames of 1000 come back, in the first attempt in which it is the expected number.

    On shared cores, frames of the flood that measured the generator remain in the rings for a while, and the
    last ones of an attempt may come too late.
    """
    received = -1
    for _ in range(_ATTEMPTS):
        received = generator.count(10_000, 0.1).received
        if received == expected:
            break
    return received


def interference_in(report: Path) -> str:
    """Return the first such reason for which a test of a report has no valid result, or nothing."""
    tests = json.loads(report.read_text())["tests"]
    return next(filter(None, (interference(test["reason"]) for test in tests)), "")

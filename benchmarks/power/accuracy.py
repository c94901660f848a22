"""Precision, recall and F1 of every detector on every scenario.

A reported change is right if it is within two runs of a real one, each real one being found at
most once. Changes in the last five runs are not scored: there a detector may still wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.power.detectors import Detector
from benchmarks.power.series import SCENARIOS, generate_trace

TOLERANCE_RUNS = 2
UNSCORED_RUNS = 5


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The results of a detector in one scenario."""

    scenario: str
    detector: str
    found: int
    """Real changes that were reported."""
    reported: int
    real: int

    @property
    def precision(self) -> float:
        """The fraction of the reported changes that are real; 1 if none was reported."""
        return self.found / self.reported if self.reported else 1.0

    @property
    def recall(self) -> float:
        """The fraction of the real changes that were reported."""
        return self.found / self.real if self.real else 1.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        total = self.reported + self.real
        return 2 * self.found / total if total else 1.0


def measure(
    detectors: dict[str, Detector], *, series: int, size: int, advance: Callable[[], None]
) -> list[Accuracy]:
    """Return one accuracy for every scenario and detector, on the same traces for all detectors."""
    results = []
    for index, (name, scenario) in enumerate(SCENARIOS.items()):
        rng = np.random.default_rng(index)
        traces = [generate_trace(scenario, rng, size) for _ in range(series)]
        for detector_name, detector in detectors.items():
            found = reported = real = 0
            for samples, starts in traces:
                positions = [at for at, _ in detector(samples) if at < size - UNSCORED_RUNS]
                found += matches(positions, starts)
                reported += len(positions)
                real += len(starts)
            results.append(Accuracy(name, detector_name, found, reported, real))
            advance()
    return results


def matches(reported: list[int], real: list[int]) -> int:
    """Count the real changes with a reported one nearby, each reported one used once."""
    free = sorted(reported)
    count = 0
    for position in sorted(real):
        near = next((each for each in free if abs(each - position) <= TOLERANCE_RUNS), None)
        if near is not None:
            free.remove(near)
            count += 1
    return count

"""A drop of one sigma after 60 runs: the evidence of each step that is looked for, over its limit."""

import matplotlib.pyplot as plt
import numpy as np

from perftrend.analysis import DetectorState, Vigilance, monitor, partition
from perftrend.analysis.change_evidence import STEPS, limit, scores
from perftrend.model import Better, Direction

generator = np.random.default_rng(5)
samples = 10.0 * generator.normal(1.0, 0.01, 110)
samples[60:] *= 0.99
rate = Vigilance().rates(Vigilance().false_alarms_per_1000)[Direction.REGRESSION]


def evidence(stop: int, step: float) -> float:
    """Return the likelihood ratio of a step among the runs before a stop, in nats."""
    found = scores(samples[:stop], Better.HIGHER)
    return float(np.max(step * np.sqrt(found.weight) * found.worse - step**2 / 2 * found.weight))


stops = range(20, samples.size + 1)
told = next(
    stop
    for stop in stops
    if stop > 60 and monitor(samples[:stop], better=Better.HIGHER).state is DetectorState.CHANGED
)
cut = next((stop for stop in stops if len(partition(samples[:stop]).groups) > 1), None)

figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(8, 4.4), layout="constrained")
above.plot(samples, ".", color="0.55")
above.axvline(59.5, color="0.7", linestyle=":")
above.set_ylabel("Mpps")
verb = f"after {cut - 60}" if cut else "not within these"
above.set_title(f"told after {told - 60} new runs; by the partition alone {verb}", fontsize=10)
for (step, share), style in zip(STEPS, ("-", "--", ":"), strict=True):
    ratio = [evidence(stop, step) / limit(rate * share, step) for stop in stops]
    below.plot([stop - 1 for stop in stops], ratio, style, label=f"step of {step:g} sigmas")
below.axhline(1.0, color="C3", linewidth=1)
below.axvline(told - 1, color="C3", linewidth=1)
below.set_ylabel("evidence / limit")
below.set_xlabel("run")
below.legend(loc="upper left")

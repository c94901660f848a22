"""One example of each common pattern, named by the code."""

import matplotlib.pyplot as plt
import numpy as np

from perftrend.analysis import name_patterns, partition
from perftrend.model import Better

generator = np.random.default_rng(21)
noise = generator.normal(1.0, 0.01, 60)


def trace(*levels: tuple[float, int]) -> np.ndarray:
    """Make a trace of levels, each with its number of runs, in Mpps."""
    values = np.concatenate([np.full(runs, level) for level, runs in levels])
    return 10 * values * noise[: values.size]


examples = {
    "a large step": trace((1.0, 40), (0.9, 20)),
    "a step of two sigmas": trace((1.0, 35), (0.98, 25)),
    "a bad run": trace((1.0, 40), (0.85, 1), (1.0, 19)),
}

figure, axes = plt.subplots(1, 3, sharey=True, figsize=(8, 2.6), layout="constrained")
for axis, (title, samples) in zip(axes, examples.items(), strict=True):
    axis.plot(samples, ".", color="0.55", markersize=4)
    for group in partition(samples).groups:
        axis.plot([group.start - 0.4, group.stop - 0.6], [group.mean] * 2, color="C0", linewidth=2)
    names = {named.pattern.value for named in name_patterns(samples, better=Better.HIGHER)}
    axis.set_title(f"{title}:\n{', '.join(sorted(names))}", fontsize=9)
    axis.set_xlabel("run")
axes[0].set_ylabel("Mpps")

"""Two changes, with the interval of their position and of their step."""

import itertools

import matplotlib.pyplot as plt
import numpy as np

from perftrend.analysis import certainty, partition

generator = np.random.default_rng(12)
samples = 10.0 * np.repeat([1.0, 0.97, 0.99], [40, 40, 40]) * generator.normal(1.0, 0.01, 120)
groups = partition(samples, deviation="shared").groups

figure, axis = plt.subplots(figsize=(8, 3.2), layout="constrained")
axis.plot(samples, ".", color="0.55")
for group in groups:
    axis.plot([group.start - 0.4, group.stop - 0.6], [group.mean] * 2, color="C0", linewidth=2)
for index, (before, after) in enumerate(itertools.pairwise(groups), 1):
    known = certainty(samples, groups, index)
    axis.axvspan(known.last_before, known.first_after, color="C1", alpha=0.25)
    axis.errorbar(
        after.start + 12,
        after.mean,
        [[after.mean - before.mean - known.low], [known.high - (after.mean - before.mean)]],
        color="C0",
        capsize=4,
    )
    axis.annotate(
        f"between run {known.last_before} and {known.first_after}\n"
        f"{after.mean - before.mean:+.2f} ({known.low:+.2f} to {known.high:+.2f}) Mpps\n"
        f"confidence {known.confidence:.4f}, effect {known.effect_size:+.1f}",
        (after.start + 2, 10.22),
        fontsize=8,
    )
axis.set_ylim(top=10.5)
axis.set_xlabel("run")
axis.set_ylabel("Mpps")

"""The reference of the Long-Term Change: the best trend between three months and one week ago."""

import matplotlib.pyplot as plt
import numpy as np

from perftrend.analysis import partition

generator = np.random.default_rng(6)
samples = np.repeat([12.0, 9.0, 10.8], [20, 20, 3]) * generator.normal(1.0, 0.004, 43)
groups = partition(samples).groups
reference = max(group.mean for group in groups[:-1])

figure, axis = plt.subplots(figsize=(8, 3), layout="constrained")
axis.axvspan(0, 32, color="C0", alpha=0.08)
axis.text(1, 9.15, "three months … one week ago", fontsize=9)
axis.plot(samples, ".", color="0.55")
for group in groups:
    axis.plot([group.start - 0.4, group.stop - 0.6], [group.mean] * 2, color="C0", linewidth=2)
axis.axhline(reference, color="C1", linestyle=":")
change = (groups[-1].mean - reference) / reference
axis.annotate(
    "",
    (42.6, groups[-1].mean),
    (42.6, reference),
    arrowprops={"arrowstyle": "->", "color": "C3"},
)
axis.text(34, 11.4, f"Long-Term Change\n{change:+.0%}", color="C3", fontsize=9)
axis.set_xlabel("run")
axis.set_ylabel("Mpps")

"""Every tenth run lies 3 % lower: groups of their own deviation, and groups of one deviation."""

import matplotlib.pyplot as plt
import numpy as np

from perftrend.analysis import partition

generator = np.random.default_rng(8)
lower = generator.random(150) < 0.1
samples = 10.0 * np.repeat([1.0, 1.04, 0.99], 50) * (1 - 0.03 * lower) * generator.normal(1.0, 0.005, 150)

figure, axes = plt.subplots(2, 1, sharex=True, figsize=(8, 4.4), layout="constrained")
for axis, deviation in zip(axes, ("own", "shared"), strict=True):
    found = partition(samples, outliers=True, deviation=deviation)
    axis.plot(samples, ".", color="0.55")
    axis.plot(found.outliers, samples[list(found.outliers)], "x", color="C3")
    for group in found.groups:
        axis.plot([group.start - 0.4, group.stop - 0.6], [group.mean] * 2, color="C0", linewidth=2)
    axis.set_title(
        f'deviation="{deviation}": {len(found.groups)} groups, {len(found.outliers)} outliers, '
        f"{found.bits:.0f} bits",
        fontsize=10,
    )
    axis.set_ylabel("Mpps")
axes[-1].set_xlabel("run")

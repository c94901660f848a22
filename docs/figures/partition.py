"""A step, a bad run and a bad newest run: what the partition makes of them, without and with outliers."""

import matplotlib.pyplot as plt
import numpy as np

from perftrend.analysis import partition

generator = np.random.default_rng(11)
samples = np.repeat([10.0, 9.6], [40, 35]) * generator.normal(1.0, 0.005, 75)
samples[[22, 74]] = 9.0

figure, axes = plt.subplots(2, 1, sharex=True, figsize=(8, 4.4), layout="constrained")
for axis, outliers in zip(axes, (False, True), strict=True):
    found = partition(samples, outliers=outliers)
    axis.plot(samples, ".", color="0.55")
    for group in found.groups:
        axis.plot([group.start - 0.4, group.stop - 0.6], [group.mean] * 2, color="C0", linewidth=2)
    if found.outliers:
        axis.plot(found.outliers, samples[list(found.outliers)], "x", color="C3", label="outlier")
    if found.suspected:
        ring = {"markersize": 11, "markerfacecolor": "none", "color": "C1", "linestyle": "none"}
        axis.plot(found.suspected, samples[list(found.suspected)], "o", label="suspected", **ring)
        axis.legend(loc="lower left")
    axis.set_title(f"outliers={outliers}: {len(found.groups)} groups, {found.bits:.0f} bits", fontsize=10)
    axis.set_ylabel("Mpps")
axes[-1].set_xlabel("run")

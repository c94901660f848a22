"""The moving median, and the range that three deviations about the trimmed average span."""

import matplotlib.pyplot as plt
import numpy as np

from perftrend.analysis import moving_statistics

generator = np.random.default_rng(2)
samples = np.repeat([10.0, 9.5], [60, 40]) * generator.normal(1.0, 0.01, 100)
samples[[30, 47]] = [8.9, 10.9]
moving = moving_statistics(samples, window=30)
off = (samples < moving.low) | (samples > moving.high)

figure, axis = plt.subplots(figsize=(8, 3.2), layout="constrained")
axis.fill_between(range(100), moving.low, moving.high, color="C0", alpha=0.15, label="TMA ± 3 TMSD")
axis.plot(moving.trimmed_average, color="C0", label="TMA")
axis.plot(moving.moving_median, color="0.4", linewidth=1, linestyle="--", label="MM")
axis.plot(samples, ".", color="0.55")
low, high = off & (samples < moving.low), off & (samples > moving.high)
for marked, colour in ((low, "C3"), (high, "C2")):
    axis.plot(
        np.flatnonzero(marked), samples[marked], "o", color=colour, markerfacecolor="none", markersize=9
    )
axis.legend(loc="lower left", ncols=3)
axis.set_xlabel("run")
axis.set_ylabel("Mpps")

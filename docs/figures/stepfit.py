"""The step fits of a trace with a step of two sigmas and a bad run, at each commit."""

import matplotlib.pyplot as plt
import numpy as np

from perftrend.analysis import StepMethod, step_fits
from perftrend.model import Better

generator = np.random.default_rng(3)
samples = 10.0 * np.repeat([1.0, 0.98], 50) * generator.normal(1.0, 0.01, 100)
samples[25] = 9.3
shown = (StepMethod.ORIGINAL, StepMethod.CORRECTED, StepMethod.COHEN, StepMethod.MANN_WHITNEY)

figure, axes = plt.subplots(5, 1, sharex=True, figsize=(8, 6.4), layout="constrained")
axes[0].plot(samples, ".", color="0.55")
axes[0].set_ylabel("Mpps")
for axis, method in zip(axes[1:], shown, strict=True):
    fits = step_fits(samples, radius=10, better=Better.HIGHER, method=method)
    axis.plot(fits.statistic, color="C0")
    axis.axvline(50, color="0.7", linestyle=":")
    axis.set_ylabel(method.value, fontsize=8)
axes[-1].set_yscale("log")
axes[-1].set_xlabel("commit")

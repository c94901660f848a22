"""A patch that is 5 % slower, block after block: the measurements, and what is known of the difference."""

import matplotlib.pyplot as plt
import numpy as np

from perftrend.analysis.comparison import Conclusion, Design, Observation, compare

generator = np.random.default_rng(5)
design = Design(maximum_rounds=12)
builds = [build for block in range(len(design.blocks)) for build in design.order("figure", block)]
observations = []
for index, build in enumerate(builds):
    start = 2.0 * generator.standard_normal() - 5.0 * build - 30.0 * (index == 9)
    samples = 0.32 * np.exp((start + generator.standard_normal(5)) / 100)
    observations.append(Observation(build, index / 48, tuple(samples)))

looks = design.looks
known = [compare(observations[: 2 * count], design=design) for count in looks]
shown = next(
    (count for count, each in zip(looks, known, strict=True) if each.outcome is Conclusion.REGRESSION),
    None,
)

figure, (above, below) = plt.subplots(2, 1, figsize=(8, 5), layout="constrained")
for build, color, name in ((0, "C0", "parent"), (1, "C1", "patch")):
    chosen = [index for index, each in enumerate(observations) if each.build == build]
    places = [index / 2 + 0.75 for index in chosen for _ in range(5)]
    values = [value for index in chosen for value in observations[index].samples]
    above.plot(places, values, ".", color=color, label=name)
for index in known[-1].outliers:
    above.annotate("far off", (index / 2 + 0.9, min(observations[index].samples)), fontsize=8)
above.set_xticks(range(1, 13))
above.set_ylabel("Mpps")
above.legend(loc="center left")

medians = np.array([100 * each.relative for each in known])
reach = np.abs(np.array([[100 * each.low, 100 * each.high] for each in known]).T - medians)
below.errorbar(looks, medians, reach, fmt="o", color="C0", capsize=4, label="median and 99 %")
below.plot(looks, [100 * each.estimate for each in known], "x", color="0.5", label="without the prior")
below.axhspan(-1, 1, color="0.9")
below.axhline(-5, color="C1", linewidth=1, linestyle=":")
if shown:
    below.axvline(shown, color="C3", linewidth=1)
    below.set_title(f"a regression after {shown} rounds", fontsize=10)
below.set_xlim(above.get_xlim())
below.set_xticks(range(1, 13))
below.set_ylim(-14, 6)
below.set_xlabel("round")
below.set_ylabel("difference in %")
below.legend(loc="lower right")

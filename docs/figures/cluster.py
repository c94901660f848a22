"""A window of 400 traces in which two groups changed: the centroids of the clusters with their steps."""

import matplotlib.pyplot as plt
import numpy as np

from perftrend.analysis.cluster import find_clusters
from perftrend.model import TraceKey

generator = np.random.default_rng(1)
traces = generator.normal(size=(400, 40))
traces[:60, 14:] -= 4.0
traces[60:100, 26:] += 4.0
keys = [TraceKey.of(test=f"{number:03}") for number in range(len(traces))]
clusters = find_clusters(traces, keys, k=6).clusters
shown = (clusters[0], min(clusters, key=lambda cluster: abs(cluster.regression)), clusters[-1])

figure, axes = plt.subplots(1, 3, sharey=True, figsize=(9, 2.8), layout="constrained")
for axis, cluster in zip(axes, shown, strict=True):
    rows = traces[[int(key["test"]) for key in cluster.members]]
    rows = (rows - rows.mean(axis=1, keepdims=True)) / rows.std(axis=1, keepdims=True)
    axis.plot(rows[:20].T, color="0.85", linewidth=0.7)
    axis.plot(cluster.centroid, color="C0")
    axis.axvline(cluster.step.position, color="0.5", linestyle=":")
    title = f"{len(cluster.members)} traces\nRegression {cluster.regression:.0f}, t {cluster.corrected:.0f}"
    axis.set_title(title, fontsize=9)
    axis.set_xlabel("commit")
axes[0].set_ylabel("normalised")

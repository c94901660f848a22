"""Clusters of traces that changed alike, and their triage; no input or output.

``find_clusters`` normalises the traces of a window, groups them by their shape and fits a step to each
group. ``merge`` finds the clusters of one clustering again among those of the next, so that their triage is
retained.

Source: "Skia Perf: Design", sections Clustering and Alerting.
"""

from perftrend.analysis.cluster.clustering import (
    CORRECTED_CUTOFF,
    CUTOFF,
    DEFAULT_K,
    FINGERPRINT_SIZE,
    MINIMUM_SIDE,
    SMALLEST_DEVIATION,
    Cluster,
    ClusterDecision,
    Clustering,
    KnownCluster,
    LeftOut,
    NormalisedTraces,
    TriageStatus,
    Unusable,
    ValueCount,
    as_known_cluster,
    centroid_step,
    find_clusters,
    merge,
    normalise,
    parameter_summary,
    reset,
    t_statistic,
)
from perftrend.analysis.cluster.kmeans import KMeans, Seeding, automatic_k, k_means

__all__ = [
    "CORRECTED_CUTOFF",
    "CUTOFF",
    "DEFAULT_K",
    "FINGERPRINT_SIZE",
    "MINIMUM_SIDE",
    "SMALLEST_DEVIATION",
    "Cluster",
    "ClusterDecision",
    "Clustering",
    "KMeans",
    "KnownCluster",
    "LeftOut",
    "NormalisedTraces",
    "Seeding",
    "TriageStatus",
    "Unusable",
    "ValueCount",
    "as_known_cluster",
    "automatic_k",
    "centroid_step",
    "find_clusters",
    "k_means",
    "merge",
    "normalise",
    "parameter_summary",
    "reset",
    "t_statistic",
]

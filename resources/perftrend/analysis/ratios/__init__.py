"""Ratios of many pairs of traces: pairing, comparison, and layout as a table.

:func:`across` pairs traces that agree in all parameters but one, :func:`ratios` compares the values of all
pairs, :class:`Layout` puts them into a table whose rows are tests, and :func:`levels` assigns shades.

Source: "Skia Perf: Design", section Comparing bench results across verticals.
"""

from perftrend.analysis.ratios.layout import (
    AGGREGATES,
    LEVELS,
    Layout,
    RatioColumn,
    aggregate,
    build_layout,
    levels,
    rank_rows,
    robust_range,
)
from perftrend.analysis.ratios.pairs import (
    WITHOUT,
    Pairs,
    Ratios,
    Values,
    across,
    noise_of_history,
    noise_of_samples,
    of_named,
    ratios,
    with_themselves,
)

__all__ = [
    "AGGREGATES",
    "LEVELS",
    "WITHOUT",
    "Layout",
    "Pairs",
    "RatioColumn",
    "Ratios",
    "Values",
    "across",
    "aggregate",
    "build_layout",
    "levels",
    "noise_of_history",
    "noise_of_samples",
    "of_named",
    "rank_rows",
    "ratios",
    "robust_range",
    "with_themselves",
]

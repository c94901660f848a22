"""The comparison of two builds by repeated measurements: the model of their noise, and the verdict.

``compare`` returns what is known of the difference between a patch and its parent, ``is_settled`` whether
more rounds can change that, and ``compare_by_mdl`` returns the result of the CSIT method: two groups or one.
The model under ``compare`` also serves ranges of commits: ``levels`` converts observations to its scale,
``Model`` gives the evidence of no step and of one, ``two_steps`` that of two, ``fit_without_outliers``
excludes far-off observations, and ``predict`` predicts one more observation.
"""

from perftrend.analysis.comparison.decision import (
    Comparison,
    Conclusion,
    DecisionRule,
    compare,
    decision_probability,
    detection_probability,
    is_settled,
)
from perftrend.analysis.comparison.distributions import FarOff, Mixture, NoiseGrid, Sizes
from perftrend.analysis.comparison.estimation import Layouts, fit_without_outliers
from perftrend.analysis.comparison.model import Model, Prediction, best_point, predict, two_steps
from perftrend.analysis.comparison.observations import PARENT, PATCH, Levels, Observation, levels
from perftrend.analysis.comparison.randomization import Design, RandomizationTest, randomization_test
from perftrend.analysis.comparison.two_group_mdl import CsitComparison, CsitGroup, compare_by_mdl

__all__ = [
    "PARENT",
    "PATCH",
    "Comparison",
    "Conclusion",
    "CsitComparison",
    "CsitGroup",
    "DecisionRule",
    "Design",
    "FarOff",
    "Layouts",
    "Levels",
    "Mixture",
    "Model",
    "NoiseGrid",
    "Observation",
    "Prediction",
    "RandomizationTest",
    "Sizes",
    "best_point",
    "compare",
    "compare_by_mdl",
    "decision_probability",
    "detection_probability",
    "fit_without_outliers",
    "is_settled",
    "levels",
    "predict",
    "randomization_test",
    "two_steps",
]

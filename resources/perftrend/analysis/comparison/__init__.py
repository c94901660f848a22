"""The comparison of two builds by repeated measurements: the model of their noise, and the verdict.

``compare`` returns what is known of the difference between a patch and its parent, ``is_settled`` whether
more rounds can change that, and ``documented`` the result of the CSIT method: two groups or one. The model
under ``compare`` also serves ranges of commits: ``levels`` converts observations to its scale, ``Model``
gives the evidence of no step and of one, ``two_steps`` that of two, ``fitted`` excludes far-off observations,
and ``predict`` predicts one more observation.
"""

from perftrend.analysis.comparison.decide import Comparison, Conclusion, Rule, compare
from perftrend.analysis.comparison.documented import Described, Documented, documented
from perftrend.analysis.comparison.layouts import Layouts
from perftrend.analysis.comparison.mixture import Mixture
from perftrend.analysis.comparison.model import Model
from perftrend.analysis.comparison.observations import PARENT, PATCH, Levels, Observation, levels
from perftrend.analysis.comparison.outliers import fitted
from perftrend.analysis.comparison.pairs import two_steps
from perftrend.analysis.comparison.prediction import Prediction, best_point, predict
from perftrend.analysis.comparison.priors import FarOff, Noise, Sizes
from perftrend.analysis.comparison.randomization import Design, RandomizationTest, randomization_test
from perftrend.analysis.comparison.settled import deciding, is_settled, showing

__all__ = [
    "PARENT",
    "PATCH",
    "Comparison",
    "Conclusion",
    "Described",
    "Design",
    "Documented",
    "FarOff",
    "Layouts",
    "Levels",
    "Mixture",
    "Model",
    "Noise",
    "Observation",
    "Prediction",
    "RandomizationTest",
    "Rule",
    "Sizes",
    "best_point",
    "compare",
    "deciding",
    "documented",
    "fitted",
    "is_settled",
    "levels",
    "predict",
    "randomization_test",
    "showing",
    "two_steps",
]

"""What some traces have in common and others do not: a contrast set.

Values of parameters are compared, and the words of test names, which tests of suites are made of:
``64b-1c-ethip4-ip4base-iacl50-mrr`` has the word ``iacl50``. Of all sets of up to three such features that
all of the traces have, the one that the fewest others have is found.

Source: Bay and Pazzani, Detecting group differences: mining contrast sets, 2001, for the term.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.query.columns import Mask, ParameterCodes
from perftrend.analysis.query.table import TraceTable

MOST_FEATURES = 3
"""Maximum number of features in a set; more describe single traces."""
FEWEST_TRACES = 2
_NAMED_BY_WORDS = "test"
_SEPARATOR = "-"
_SAME_FOR_ALL = ("testbed", "experiment")


@dataclass(frozen=True, slots=True, order=True)
class Feature:
    """A value of a parameter, or a word of it."""

    parameter: str
    value: str
    is_word: bool = False

    def __str__(self) -> str:
        return f"{self.value} in {self.parameter}" if self.is_word else f"{self.parameter}={self.value}"


@dataclass(frozen=True, slots=True)
class Contrast:
    """What some traces have in common."""

    features: tuple[Feature, ...]
    others: int
    """Number of other traces that have all of these features."""
    of_others: int
    """Number of other traces that were compared."""


def find_contrast(table: TraceTable, chosen: NDArray[np.intp], others: NDArray[np.intp]) -> Contrast | None:
    """Return what all chosen traces have in common and the fewest others have.

    :param chosen: rows of the table, shape (n,).
    :param others: rows to compare with, shape (m,), none of them chosen.
    :returns: None for a single trace, without others, or if nothing that the traces have in common
        distinguishes them from any other.
    """
    if len(chosen) < FEWEST_TRACES or not len(others):
        return None
    has = dict(sorted(_common_features(table.own, chosen, others)))
    distinguishing = [each for each, mask in has.items() if not mask.all()]
    best: Contrast | None = None
    for count in range(1, MOST_FEATURES + 1):
        for features in combinations(distinguishing, count):
            number = int(np.logical_and.reduce([has[each] for each in features]).sum())
            if best is None or number < best.others:
                best = Contrast(features, number, len(others))
        if best and not best.others:
            break
    return best


def _common_features(
    own: Mapping[str, ParameterCodes], chosen: NDArray[np.intp], others: NDArray[np.intp]
) -> Iterator[tuple[Feature, Mask]]:
    """Yield each feature that all chosen traces have, and which of the others have it."""
    for name, column in own.items():
        if name in _SAME_FOR_ALL:
            continue
        codes = np.unique(column.codes[chosen])
        if codes[0] < 0:
            continue
        there = column.codes[others]
        if len(codes) == 1:
            yield Feature(name, column.values[codes[0]]), there == codes[0]
        elif name == _NAMED_BY_WORDS:
            words_of = [set(value.split(_SEPARATOR)) for value in column.values]
            for word in set.intersection(*(words_of[code] for code in codes.tolist())):
                # The last place is for traces without the parameter.
                fits = np.array([*(word in words for words in words_of), False])
                yield Feature(name, word, is_word=True), fits[there]

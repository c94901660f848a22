"""Pairs: two traces that agree in all parameters but one, in which they have the two chosen values.

Names of tests often repeat parameters: ``64b-1c-ip4-mrr`` has the frame ``64B``. Frames could then never be
compared, because no two traces agree in the test. Traces without a partner are therefore paired once more,
with every word that repeats the value of the vertical removed from the other parameters: both sides are then
``*-1c-ip4-mrr``.

Traces are places in a table, whose parameters are numbers (:mod:`perftrend.analysis.query.columns`).

Source: "Skia Perf: Design", section Comparing bench results across verticals.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.query.columns import (
    MISSING,
    ParameterCodes,
    Parameters,
    combine_codes,
    of_rows,
)

LEFT_OUT = "*"
"""The replacement of a word that repeats the value of the vertical."""

WITHOUT = "(without)"
"""The value of the traces that lack the vertical: nightly traces have no experiment."""

_WORD = re.compile(r"[^\W_]+")

Places: TypeAlias = NDArray[np.intp]


def _none() -> Places:
    return np.array([], dtype=np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """n pairs, and the traces that have no partner."""

    left: Places
    """Shape (n,); so is ``right``."""
    right: Places
    parameters: Parameters
    """The parameters in which both sides of each pair agree."""
    left_alone: Places = field(default_factory=_none)
    right_alone: Places = field(default_factory=_none)

    def __len__(self) -> int:
        return len(self.left)

    def only(self, mask: NDArray[np.bool_]) -> Pairs:
        """Return some of the pairs; the traces of the others are alone."""
        return Pairs(
            self.left[mask],
            self.right[mask],
            of_rows(self.parameters, np.flatnonzero(mask)),
            np.concatenate([self.left_alone, self.left[~mask]]),
            np.concatenate([self.right_alone, self.right[~mask]]),
        )


def across(parameters: Parameters, places: Places, vertical: str, left: str, right: str) -> Pairs:
    """Pair the traces that have the left value of a vertical with those that have the right one.

    :param parameters: the parameters of all traces of the table.
    :param places: the places of the traces to pair, ascending; those with neither value do not count.
    :param vertical: a parameter.
    :param left: one of its values, or :data:`WITHOUT`; so is ``right``.
    """
    rest = dict(parameters)
    of_vertical = rest.pop(vertical, None)
    lefts, rights = (_with_value(of_vertical, places, value) for value in (left, right))
    if left == right:
        return Pairs(_none(), _none(), {}, lefts, lefts)
    one, other = _partners(of_rows(rest, lefts), of_rows(rest, rights), len(lefts), len(rights))
    left_alone, right_alone = np.delete(lefts, one), np.delete(rights, other)
    # First the pairs that agree exactly, then those that agree without the words.
    agreed = of_rows(rest, lefts[one])
    left_found, right_found = [lefts[one]], [rights[other]]
    if len(left_alone) and len(right_alone):
        without = {
            name: _without(each, ((left_alone, left), (right_alone, right))) for name, each in rest.items()
        }
        ours, theirs = ({name: each[side] for name, each in without.items()} for side in (0, 1))
        one, other = _partners(ours, theirs, len(left_alone), len(right_alone))
        agreed = {
            name: ParameterCodes(each.values, np.concatenate([agreed[name].codes, each.codes[one]]))
            for name, each in ours.items()
        }
        left_found.append(left_alone[one])
        right_found.append(right_alone[other])
        left_alone, right_alone = np.delete(left_alone, one), np.delete(right_alone, other)
    found = np.concatenate(left_found)
    order = np.argsort(found)
    return Pairs(
        found[order], np.concatenate(right_found)[order], of_rows(agreed, order), left_alone, right_alone
    )


def with_themselves(parameters: Parameters, places: Places) -> Pairs:
    """Pair each trace with itself, to compare two moments of it."""
    return Pairs(places, places, of_rows(parameters, places))


def of_named(named: Sequence[int | None], parameters: Parameters) -> Pairs:
    """Pair external values with the traces that they belong to.

    :param named: the place of the trace that each of the values belongs to; None if there is none.
    :returns: pairs whose left side is a place in ``named``.
    """
    places = np.array([MISSING if place is None else place for place in named], dtype=np.intp)
    known = np.flatnonzero(places != MISSING)
    alone = np.flatnonzero(places == MISSING)
    return Pairs(known, places[known], of_rows(parameters, places[known]), left_alone=alone)


def _with_value(parameter: ParameterCodes | None, places: Places, value: str) -> Places:
    """Return the places of the traces that have a value; for :data:`WITHOUT`, of those that have none."""
    if parameter is None or (value not in parameter.values and value != WITHOUT):
        return _none()
    code = MISSING if value == WITHOUT else parameter.values.index(value)
    found: Places = places[parameter.codes[places] == code]
    return found


def _partners(left: Parameters, right: Parameters, lefts: int, rights: int) -> tuple[Places, Places]:
    """Return the numbers of the traces of both sides that agree in all parameters.

    Each has at most one partner: of several equal ones the first.

    :param left: the parameters of ``lefts`` traces, with the same names and the same values as ``right``.
    """
    both = [
        ParameterCodes(each.values, np.concatenate([each.codes, right[name].codes]))
        for name, each in left.items()
    ]
    numbers = combine_codes(both, lefts + rights)
    ones, first_one = np.unique(numbers[:lefts], return_index=True)
    others, first_other = np.unique(numbers[lefts:], return_index=True)
    _, one, other = np.intersect1d(ones, others, assume_unique=True, return_indices=True)
    return first_one[one], first_other[other]


def _without(parameter: ParameterCodes, sides: Sequence[tuple[Places, str]]) -> list[ParameterCodes]:
    """Remove the words that repeat a value from a parameter.

    :param sides: the traces of each side, and their value of the vertical.
    """
    known = {text: code for code, text in enumerate(parameter.values)}
    found = []
    for places, value in sides:
        own = parameter.of(places)
        # The last place is that of traces without the parameter.
        codes = np.append(np.arange(len(parameter.values), dtype=np.int32), np.int32(MISSING))
        for code in own.unique_codes():
            if code != MISSING:
                text = _replace_word(parameter.values[code], value.casefold())
                codes[code] = known.setdefault(text, len(known))
        found.append(codes[own.codes])
    return [ParameterCodes(tuple(known), codes) for codes in found]


def _replace_word(text: str, word: str) -> str:
    # A value of several words stays: its end within a name is unknown.
    if word not in text.casefold() or not _WORD.fullmatch(word):
        return text
    return _WORD.sub(lambda found: LEFT_OUT if found[0].casefold() == word else found[0], text)

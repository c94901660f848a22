"""Conditions that were written before the value of a parameter changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from perftrend.analysis.formula.query import Term
from perftrend.analysis.query.patterns import found


def with_current(terms: Sequence[Term], former: Mapping[str, str]) -> list[Term]:
    """Return the conditions on a parameter, and for each matching former value one on the current value.

    :param former: from former values to current ones.
    """
    return [
        *terms,
        *(
            replace(term, value=current, pattern=False)
            for term in terms
            for current in _current(term, former)
        ),
    ]


def _current(term: Term, former: Mapping[str, str]) -> set[str]:
    if not former:
        return set()
    if not term.pattern:
        return {former[term.value]} if term.value in former else set()
    fits = found(term.value, tuple(former))
    return {current for current, fit in zip(former.values(), fits.tolist(), strict=True) if fit}

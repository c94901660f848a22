"""Addresses of pages, with shortcuts that fit into the store."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from perftrend.links import (
    EXPLORE,
    MOST_IDS,
    external,
    of_change,
    of_column,
    of_commit,
    of_plot,
    of_query,
    of_run,
)
from perftrend.store.shortcuts import LONGEST_SHORTCUT, MOST_TRACES

__all__ = [
    "EXPLORE",
    "MOST_IDS",
    "external",
    "fit_shortcut",
    "of_change",
    "of_column",
    "of_commit",
    "of_plot",
    "of_query",
    "of_run",
]


def fit_shortcut(ids: Sequence[str]) -> list[str]:
    """Return the first ids, as many as fit into a shortcut."""
    first = ids[:MOST_TRACES]
    lengths = accumulate(len(each) + 3 for each in first)
    return [each for each, length in zip(first, lengths, strict=True) if length < LONGEST_SHORTCUT]

"""Addresses of the plot of traces, in addition to those that reports have as well."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from urllib.parse import urlencode

from perftrend.links import external, of_change, of_commit, of_run
from perftrend.store.shortcuts import LONGEST_SHORTCUT, MOST_TRACES

__all__ = ["EXPLORE", "MOST_IDS", "external", "fit_shortcut", "of_change", "of_commit", "of_plot", "of_run"]

EXPLORE = "/explore"
"""The path of Explore."""
MOST_IDS = 50
"""Maximum number of traces in one address; use a shortcut for more."""


def fit_shortcut(ids: Sequence[str]) -> list[str]:
    """Return the first ids, as many as fit into a shortcut."""
    first = ids[:MOST_TRACES]
    lengths = accumulate(len(each) + 3 for each in first)
    return [each for each, length in zip(first, lengths, strict=True) if length < LONGEST_SHORTCUT]


def of_plot(*, testbed: str = "", ids: Sequence[str] = (), shortcut: str = "") -> str:
    """Return the address of the plot of traces, on this dashboard.

    :param testbed: testbed whose commits are the points; empty: the one of the settings.
    :param ids: ids of traces, at most :data:`MOST_IDS`.
    :param shortcut: id of a shortcut; empty: none.
    """
    chosen = [("testbed", testbed), *(("id", each) for each in ids), ("shortcut", shortcut)]
    return f"{EXPLORE}?{urlencode([pair for pair in chosen if pair[1]])}"

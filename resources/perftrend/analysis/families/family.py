"""Families: sets of traces that have one or two values of parameters in common.

They are found from the parameters of the traces, without any configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

FEWEST_TRACES = 5
"""A smaller family is hardly more evidence than its traces one by one."""

Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Traces with the same values of some parameters."""

    parameters: tuple[tuple[str, str], ...]
    """The names and values that the traces have in common; empty: all traces."""
    members: Places
    """The places of the traces, ascending."""

    def __str__(self) -> str:
        return "&".join(f"{name}={value}" for name, value in self.parameters) or "all traces"


def find_families(parameters: Sequence[Mapping[str, str]]) -> list[Family]:
    """Return the families of traces, those of one parameter first.

    A family has at least :data:`FEWEST_TRACES` traces and at most half of all: a change of more traces than
    that cannot be distinguished from the opposite change of the others. Of several descriptions of the same
    traces, the first and shortest one is used.

    :param parameters: names and values of the parameters of each trace.
    """
    found: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for place, each in enumerate(parameters):
        pairs = sorted(each.items())
        for pair in pairs:
            found.setdefault((pair,), []).append(place)
    # Pairs of values of which one is rare are rare, too, so most pairs need not be counted.
    frequent = {pair for (pair,), members in found.items() if len(members) >= FEWEST_TRACES}
    for place, each in enumerate(parameters):
        pairs = sorted(pair for pair in each.items() if pair in frequent)
        for two in combinations(pairs, 2):
            found.setdefault(two, []).append(place)
    families: dict[bytes, Family] = {}
    for names, members in found.items():
        if FEWEST_TRACES <= len(members) <= len(parameters) // 2:
            family = Family(names, np.array(members, dtype=np.intp))
            families.setdefault(family.members.tobytes(), family)
    return list(families.values())

"""The search for the shortest description, compiled.

The rules, their proofs and the terms (state, start, predecessor, block) are in
docs/method/partition-formulas.rst. A *chain* is a start that is still alive, with the group from it to the
current run:

* ``chains``, shape (8, capacity): for each chain the rows ``BITS`` to ``SCRATCH``;
* ``least`` and ``reach``, shape (n,) and (n+1,): for each start the cost of the best predecessor,
  and where its predecessors begin in
* ``before``, shape (3, room): weight, average and start of each predecessor.
"""

# ruff: noqa: PLR0917 - compiled functions take their arguments by position.

from __future__ import annotations

import math

import numpy as np

from perftrend.analysis.description import Floats
from perftrend.analysis.mdl import level_path
from perftrend.analysis.mdl import trim as plain_trim
from perftrend.analysis.mdl.cost_terms import Constants
from perftrend.analysis.mdl.pruning import bury, most_promising, refer, screen_chains
from perftrend.analysis.mdl.simd_kernel import (
    BASE,
    BITS,
    CENTRE,
    LANES,
    MEAN,
    NEAR,
    ORIGIN,
    SCRATCH,
    SIZE,
    SQUARE,
    START,
    WEIGHT,
    Indices,
    Table,
    advance,
    cheapest,
    describe,
    gather,
    inline,
    jit,
    join,
    log2,
    useless,
)

_NEVER = 1e300

trim = jit(plain_trim.trim)
cheapest_course = jit(level_path.cheapest_course)


@inline
def offer(
    row: Table, low: int, high: int, start: int, bound: Table, slope: float, found: Floats, count: Indices
) -> None:
    """Add the states of a start that the reference does not dominate, for the ends in a block."""
    for i in range(low, high):
        if not useless(row[BITS, i], row[MEAN, i], bound[0, i], bound[1, i], slope):
            k = count[i]
            found[i, BITS, k] = row[BITS, i]
            found[i, MEAN, k] = row[MEAN, i]
            found[i, START, k] = start
            count[i] = k + 1


@jit
def predecessors(
    states: Table, count: int, constants: Constants, costs: Floats, chosen: Indices
) -> tuple[int, float]:
    """Select the states that the cheapest one does not dominate: ``chosen``, their ``costs`` as weights.

    :returns: the number of selected states, and the least cost.
    """
    best = cheapest(states[BITS], count)
    best_bits = states[BITS, best]
    best_mean = states[MEAN, best]
    left = 0
    for i in range(count):
        if not useless(states[BITS, i], states[MEAN, i], best_bits, best_mean, constants.slope):
            chosen[left] = i
            left += 1
    for i in range(left):
        m = states[MEAN, chosen[i]]
        norm = (constants.square * m + constants.linear) * m + constants.constant
        costs[i] = states[BITS, chosen[i]] + log2(norm)
    best = cheapest(costs, left)
    least = costs[best]
    best_mean = states[MEAN, chosen[best]]
    selected = 0
    for i in range(left):
        weight = 2.0 ** (least - costs[i])
        if i == best or weight * (abs(states[MEAN, chosen[i]] - best_mean) + 1.0) > 1.0:
            costs[selected] = weight
            chosen[selected] = chosen[i]
            selected += 1
    return selected, least


@jit
def record(states: Table, costs: Floats, chosen: Indices, selected: int, before: Table, first: int) -> int:
    """Write the chosen states that no other chosen state dominates to ``before``; return where they end."""
    last = first
    for i in range(selected):
        mean = states[MEAN, chosen[i]]
        weight = costs[i]
        useful = True
        for j in range(selected):
            if j != i:
                reached = weight * (abs(mean - states[MEAN, chosen[j]]) + 1.0)
                if reached < costs[j] or (reached == costs[j] and j < i):
                    useful = False
                    break
        if useful:
            before[WEIGHT, last] = weight
            before[CENTRE, last] = mean
            before[ORIGIN, last] = states[START, chosen[i]]
            last += 1
    return last


@jit
def enlarge(before: Table, used: int, room: int) -> Table:
    """Return a copy of the predecessors with room for at least ``room`` more."""
    larger = np.empty((3, 2 * (used + room)))
    for i in range(used):
        for field in range(3):
            larger[field, i] = before[field, i]
    return larger


@jit
def follow(
    chains: Table,
    live: int,
    margin: Floats,
    inside: Table,
    block: int,
    sizes: Floats,
    constants: Constants,
    least: Floats,
    reach: Indices,
    before: Table,
    row: Table,
    bound: Table,
    found: Floats,
    count: Indices,
) -> None:
    """Add the states of the chains that are not screened, for the ends inside a block."""
    for c in range(live):
        if margin[c] <= 0.0:
            start = int(chains[START, c])
            join(chains, c, inside, sizes, row, block)
            describe(row, 1, block, constants.tail, least[start], before, reach[start], reach[start + 1])
            offer(row, 1, block, start, bound, constants.slope, found, count)


@jit
def settle(
    states: Table,
    count: int,
    start: int,
    constants: Constants,
    least: Floats,
    reach: Indices,
    before: Table,
    costs: Floats,
    chosen: Indices,
) -> Table:
    """Choose the predecessors of a start among the states that end there; return ``before``."""
    selected, least[start] = predecessors(states, count, constants, costs, chosen)
    if reach[start] + selected > before.shape[1]:
        before = enlarge(before, reach[start], selected)
    reach[start + 1] = record(states, costs, chosen, selected, before, reach[start])
    return before


@jit
def grow(runs: Table, first: int, stop: int, row: Table, here: int, sizes: Floats) -> None:
    """Fill ``row`` with the groups from run ``first`` to each end up to ``stop``; ``here`` is at index 0."""
    n = m = q = 0.0
    for i in range(first, stop):
        size = runs[0, i]
        distance = runs[1, i] - m
        step = distance * size / (n + size)
        q += runs[2, i] + distance * step * n
        m += step
        n += size
        row[SIZE, i + 1 - here] = n
        row[MEAN, i + 1 - here] = m
        row[SQUARE, i + 1 - here] = q
        row[SCRATCH, i + 1 - here] = sizes[int(n)]


@jit
def store(row: Table, i: int, tail: float, chains: Table, c: int, start: int) -> None:
    """Store the state in a column of ``row`` as a chain."""
    for field in (BITS, MEAN, SIZE, SQUARE, NEAR):
        chains[field, c] = row[field, i]
    s = math.sqrt(row[SQUARE, i] / row[SIZE, i])
    chains[BASE, c] = row[BITS, i] - log2(tail * s + 1.0 + tail) + tail * log2(s + 1.0)
    chains[START, c] = start


@jit
def extend(
    runs: Table,
    here: int,
    live: int,
    stop: int,
    sizes: Floats,
    excess: Floats,
    constants: Constants,
    chains: Table,
    least: Floats,
    reach: Indices,
    before: Table,
    width: int,
) -> tuple[int, Table]:
    """Continue the search from run ``here`` to run ``stop``, block by block.

    :param runs: sizes, averages and sums of squared deviations, shape (3, n).
    :param live: number of chains.
    :param sizes: with ``excess`` and ``constants``, the terms of the formula.
    :param chains: room for ``live + stop - here`` chains; changed, as are ``least`` and ``reach``.
    :param before: changed, or copied to a larger array.
    :param width: the longest block, in runs.
    :returns: the number of chains, and ``before``.
    """
    width = min(width, stop - here)
    capacity = live + stop - here
    tail = constants.tail
    inside = np.ones((3, width + 2 * LANES))
    row = np.ones((8, width + 2 * LANES))
    bound = np.zeros((2, width + 1))
    screen = np.empty(8)
    margin = np.empty(capacity)
    costs = np.empty(capacity)
    chosen = np.empty(capacity, np.int64)
    found = np.empty((width, 3, capacity))
    count = np.zeros(width, np.int64)
    while here < stop:
        block = min(width, stop - here)
        gather(runs, here, block, inside)
        for i in range(block):
            count[i] = 0
            bound[0, i] = _NEVER
        # The groups that began before the block, at the ends inside it.
        if live and block > 1:
            best = most_promising(chains, live, excess)
            start = int(chains[START, best])
            join(chains, best, inside, sizes, row, block + 1)
            describe(row, 1, block + 1, tail, least[start], before, reach[start], reach[start + 1])
            block = refer(chains, best, inside, block, row, bound, constants, screen)
            screen_chains(chains, live, inside[0, block], screen, margin)
            margin[best] = 0.0
            follow(
                chains,
                live,
                margin,
                inside,
                block,
                sizes,
                constants,
                least,
                reach,
                before,
                row,
                bound,
                found,
                count,
            )
        # The groups that begin in the block, each after those that end where it begins.
        for o in range(block):
            start = here + o
            if start == 0:
                reach[0] = reach[1] = 0
                least[0] = constants.first
            elif o == 0:
                before = settle(chains, live, start, constants, least, reach, before, costs, chosen)
            else:
                before = settle(found[o], count[o], start, constants, least, reach, before, costs, chosen)
            if o == 0:
                # Only now: ``settle`` reads the chains as they are at the start of the block.
                advance(chains, live, inside[:, block], sizes, tail, least, reach, before)
            grow(runs, start, here + block, row, here, sizes)
            describe(row, o + 1, block + 1, tail, least[start], before, reach[start], reach[start + 1])
            offer(row, o + 1, block, start, bound, constants.slope, found, count)
            store(row, block, tail, chains, live + o, start)
        live += block
        here += block
        live = bury(chains, live, constants, excess)
    return live, before


@jit
def bounds(runs: Table, stop: int, chains: Table, live: int, reach: Indices, before: Table) -> Indices:
    """Trace back from the best state; return where the groups begin and where the last one ends."""
    found = np.empty(stop + 1, np.int64)
    left = stop
    found[left] = stop
    start = int(chains[START, cheapest(chains[BITS], live)])
    while start > 0:
        n = m = 0.0
        for i in range(start, stop):
            n += runs[0, i]
            m += (runs[1, i] - m) * runs[0, i] / n
        nearest = reach[start]
        near = 0.0
        for p in range(reach[start], reach[start + 1]):
            candidate = (abs(m - before[CENTRE, p]) + 1.0) * before[WEIGHT, p]
            if candidate > near:
                near = candidate
                nearest = p
        left -= 1
        found[left] = start
        stop = start
        start = int(before[ORIGIN, nearest])
    found[left - 1] = 0
    return found[left - 1 :]

"""Pruning of the compiled search: bounds for a block of ends, and dead starts.

The proofs are in docs/method/partition-formulas.rst, section Pruning, with proofs.
"""

# ruff: noqa: PLR0917 - compiled functions take their arguments by position.

from __future__ import annotations

import math

from perftrend.analysis.description import Floats
from perftrend.analysis.mdl.cost_terms import GROWTH, Constants
from perftrend.analysis.mdl.simd_kernel import (
    BASE,
    BITS,
    MEAN,
    NEAR,
    SIZE,
    SQUARE,
    Table,
    cheapest,
    jit,
    log2,
)

_ALARM = 14.0
"""Bits that a block's reference may fall behind its own bound before the block is ended."""
_EARLY = 8
"""Minimum length of a block in runs, if that many are left."""
_QUIET, _NOISY = 0.4, 0.85
"""Fractions of the reference's variance: chains with at least that variance have sharper bounds."""
_NEVER = 1e300


@jit
def gain(n: float, v: float, m: float, w: float, spared: float) -> float:
    """Return the bits that m samples add at least to a group of n or more with variance v or more.

    :param w: the sum of the m samples' squared deviations from their own average.
    """
    if v * m <= w:
        return (m - spared) * log2(math.sqrt(w / m) + 1.0) if m > spared else 0.0
    return (n + m) * log2(math.sqrt((n * v + w) / (n + m)) + 1.0) - n * log2(math.sqrt(v) + 1.0)


@jit
def most_promising(chains: Table, live: int, excess: Floats) -> int:
    """Return the chain to use as reference: one of few samples may be the cheapest, but not for long."""
    best = 0
    least = _NEVER
    for c in range(live):
        bits = chains[BITS, c] - excess[int(chains[SIZE, c])]
        if bits < least:
            best = c
            least = bits
    return best


@jit
def refer(
    chains: Table,
    best: int,
    inside: Table,
    block: int,
    row: Table,
    bound: Table,
    constants: Constants,
    screen: Floats,
) -> int:
    """Use the best chain as the reference of a block: bound what every other chain must beat.

    :param bound: filled with the reference's bits and averages.
    :param screen: filled with three margins, and with the values that decide which one a chain may use.
    :returns: the block's length, shorter if the reference becomes too poor to screen any chain.
    """
    centre = chains[MEAN, best]
    bits = chains[BITS, best]
    spared = 2.0 * (1.0 - constants.tail)
    many = min(inside[0, block], chains[SIZE, best])
    variance = chains[SQUARE, best] / chains[SIZE, best]
    plain = quiet = noisy = _NEVER
    walk = 0.0
    for i in range(1, block + 1):
        m = inside[0, i]
        w = inside[2, i]
        ahead = GROWTH * m - row[BITS, i] - log2(abs(row[MEAN, i] - centre) + 1.0)
        any_gain = gain(0.0, 0.0, m, w, spared)
        noisy_gain = max(any_gain, gain(many, _NOISY * variance, m, w, spared))
        if i > _EARLY and bits + ahead + noisy_gain < -_ALARM:
            block = i - 1
            break
        bound[0, i] = row[BITS, i]
        bound[1, i] = row[MEAN, i]
        plain = min(plain, ahead + any_gain)
        quiet = min(quiet, ahead + max(any_gain, gain(many, _QUIET * variance, m, w, spared)))
        noisy = min(noisy, ahead + noisy_gain)
        walk = max(walk, m * abs(inside[1, i] - centre))
    screen[0] = plain - constants.span
    screen[1] = quiet - constants.span
    screen[2] = noisy - constants.span
    screen[3] = many
    screen[4] = _QUIET * variance
    screen[5] = _NOISY * variance
    screen[6] = walk
    screen[7] = centre
    return block


@jit
def screen_chains(chains: Table, live: int, total: float, screen: Floats, margin: Floats) -> None:
    """Bound how far each chain stays behind the reference throughout a block; ``margin``, shape (live,)."""
    plain, quiet, noisy, many = screen[0], screen[1], screen[2], screen[3]
    quiet_variance, noisy_variance, walk, centre = screen[4], screen[5], screen[6], screen[7]
    for c in range(live):
        n = chains[SIZE, c]
        variance = chains[SQUARE, c] / n
        away = abs(chains[MEAN, c] - centre)
        moved = (walk + total * away) / (n + 1.0)
        ahead = plain
        ahead = quiet if n >= many and variance >= quiet_variance else ahead
        ahead = noisy if n >= many and variance >= noisy_variance else ahead
        slack = log2((1.0 + moved / chains[NEAR, c]) * (away + moved + 1.0))
        margin[c] = chains[BASE, c] + ahead - slack


@jit
def bury(chains: Table, live: int, constants: Constants, excess: Floats) -> int:
    """Drop the starts that no later end can need; return how many chains are left."""
    best = cheapest(chains[BITS], live)
    centre = chains[MEAN, best]
    far = max(constants.high - centre, centre - constants.low)
    norm = log2((constants.square * centre + constants.linear) * centre + constants.constant)
    fixed = chains[BITS, best] + norm + constants.span + constants.tail + constants.deviation
    least = fixed + log2(max(1.0, (far / 2 + 1) ** 2 / (far + 1)))
    remaining = 0
    for c in range(live):
        bits = chains[BASE, c] - excess[int(chains[SIZE, c])]
        dead = False
        if bits > least and c != best:
            away = abs(chains[MEAN, c] - centre)
            detour = max((away / 2 + 1) ** 2, ((away + far) / 2 + 1) ** 2 / (far + 1))
            dead = bits > fixed + log2(detour)
        if not dead:
            if remaining != c:
                for field in range(8):
                    chains[field, remaining] = chains[field, c]
            remaining += 1
    return remaining

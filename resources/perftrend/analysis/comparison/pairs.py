r"""Two steps at once: the formulas of :mod:`.model` with two by two matrices.

With aᵀPa, bᵀPb, aᵀPb = c, the pulls e = aᵀPy and f = bᵀPy, and the variances v, w of the two sizes,

    D = (aᵀPa + 1/v) (bᵀPb + 1/w) - c²,
    log L = log L(no step) + ½ ((bᵀPb + 1/w) e² - 2 c e f + (aᵀPa + 1/v) f²) / D - ½ log(v w D).
"""

from __future__ import annotations

import itertools

import numpy as np

from perftrend.analysis.comparison.mixture import log_sum
from perftrend.analysis.comparison.model import NEGLIGIBLE, Model, Steps
from perftrend.analysis.comparison.observations import Floats, Indices

_BLOCK = 128
"""Pairs that are computed at once, in some megabytes."""


def two_steps(model: Model, steps: Steps, first: Indices, second: Indices) -> Floats:
    """Return the evidence of two steps of independent sizes, for each of m pairs, shape (m,).

    One observation may be far off, as in :meth:`.Model.one`. This takes about 0.3 ms per pair for 40
    observations: for a long range, pass promising pairs only.

    :param steps: shape (j, n).
    :param first: index of one step of each pair, shape (m,).
    :param second: index of the other step, which must differ.
    """
    blocks = range(0, len(first), _BLOCK)
    parts = [_block(model, steps, first[i : i + _BLOCK], second[i : i + _BLOCK]) for i in blocks]
    return np.concatenate([np.empty(0), *parts])


def _block(model: Model, steps: Steps, first: Indices, second: Indices) -> Floats:
    design = steps.astype(np.float64)
    pulled = model.precision @ design.T
    inner = design @ pulled
    pull = model.pulled @ design.T
    own = np.einsum("gjj->gj", inner)
    cross = inner[:, first, second]
    e, f = pull[:, first], pull[:, second]
    sizes = list(zip(model.sizes.variances(model.of_one).T, np.log(model.sizes.weights), strict=True))
    solved = []
    for (v, log_v), (w, log_w) in itertools.product(sizes, repeat=2):
        a, b = own[:, first] + 1 / v[:, np.newaxis], own[:, second] + 1 / w[:, np.newaxis]
        inverse = np.stack([b, a, -cross]) / (a * b - cross**2)
        moved = np.stack([inverse[0] * e + inverse[2] * f, inverse[1] * f + inverse[2] * e])
        spread = np.log((v * w)[:, np.newaxis] * (a * b - cross**2))
        evidence = model.base[:, np.newaxis] + log_v + log_w + 0.5 * (e * moved[0] + f * moved[1] - spread)
        solved.append((evidence, moved, inverse))
    best = np.max([evidence.max(axis=0) for evidence, _, _ in solved], axis=0)
    one = np.swapaxes(pulled[:, :, first], 1, 2)
    other = np.swapaxes(pulled[:, :, second], 1, 2)
    for evidence, moved, inverse in solved:
        of_one, of_other = moved[..., np.newaxis]
        alpha = model.pulled[:, np.newaxis] - one * of_one - other * of_other
        of_one, of_other, of_both = inverse[..., np.newaxis]
        explained = one**2 * of_one + other**2 * of_other + 2 * one * other * of_both
        precision = model.diagonal[:, np.newaxis] - explained
        where = evidence + model.far_off.log_bound(alpha, precision) > best - NEGLIGIBLE
        evidence[where] += model.gain(alpha[where], precision[where])
    return log_sum(np.stack([evidence for evidence, _, _ in solved]), axis=(0, 1))

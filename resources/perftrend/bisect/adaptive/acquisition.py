r"""Choice of the run with the most information about the location of the change for its cost.

For each commit that could be measured, the model predicts the level of the next run under every
hypothesis: a normal distribution whose average is the old level or one with the change. The
information of a run is the expected reduction of entropy,

    I = H(Σ w p) - Σ w H(p) ≈ - Σᵢ wᵢ log Σⱼ wⱼ exp(-Dᵢⱼ),

with the weights w of the hypotheses and a distance D of two normal distributions with variances v,

    D = ½ (μ - μ')² / (v + v') + ½ log((v + v') / (2 √(v v'))).

The approximation is exact if all distributions are close together or far apart, and at most an eighth off for
two in between. With the duration M of a run and the cost B of a build, a run of a built commit gives I / M
per second; r runs of one that was not give P(builds) I\ :sub:`r` / (B + r M). B is less than the duration of
a build: a build is also useful for later steps, which this rule does not consider.

Source of the form: Kolchinsky and Tracey, Estimating mixture entropy with pairwise distances, 2017; its
bounds have half and twice this D between close averages.

With k the covariance of the new run with the old ones, κ its own variance, and a* 1 if its commit contains
the change, the expected level is kᵀPy + (a* - kᵀPa) Δ, with the variance κ - kᵀPk + (a* - kᵀPa)² var Δ.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.comparison.observations import Floats, Indices
from perftrend.bisect.adaptive.evidence import ValueEvidence, View
from perftrend.bisect.adaptive.noise_model import FLAT_VARIANCE, SIZE_WEIGHTS, SIZES, Field
from perftrend.bisect.adaptive.posterior import Belief, TestBelief
from perftrend.bisect.state import BisectState

_RUNS = (1, 2, 4)
_BALANCED = 3
"""If one side of a change has this many times the runs of the other, the other is measured."""
_LEAST_PROBABILITY = 0.005
_NEGLIGIBLE = 1e-4
_UNLIKELY = 0.05
"""Layouts of a lower probability are ignored."""

_MOST_RUNS = 6
"""Maximum number of runs of a build in a layout before another commit is built."""

_MOST_PAIRS = 20
_NEGLIGIBLE_PAIR = 1e-3


@dataclass(frozen=True, slots=True)
class Costs:
    """Durations of steps, in seconds."""

    build_s: float = 600.0
    measure_s: float = 50.0

    @classmethod
    def of(cls, state: BisectState, assumed: Costs) -> Costs:
        """Return the median durations of the steps so far."""
        built = state.built.values()
        measured = [(each.finished - each.started).total_seconds() for each in state.measured]
        return cls(
            median(built) if built else assumed.build_s,
            max(median(measured) if measured else assumed.measure_s, 1e-3),
        )

    @property
    def considered_build_s(self) -> float:
        """B: a quarter of a build, but at most a run."""
        return min(self.build_s / 4, self.measure_s)


@dataclass(frozen=True, slots=True)
class CommitChoice:
    """A commit to measure."""

    commit: str
    information: float
    """Expected information of one run, in bits."""


def choose(state: BisectState, belief: Belief, costs: Costs) -> CommitChoice:
    """Choose the commit whose next run has the most information for its cost."""
    suspects = belief.suspects
    ready = [commit for commit in suspects.measured if commit not in state.broken]
    fresh = [
        commit
        for chosen, held in zip(suspects.classes, belief.held, strict=True)
        if held >= _LEAST_PROBABILITY
        for commit in (*suspects.candidates(chosen), *_unmeasured_builds(state, belief, chosen))
        if commit not in ready
    ]
    commits = [*ready, *dict.fromkeys(fresh)]
    new = np.array([commit not in state.built for commit in commits])
    inside = np.array([suspects.inside(commit) for commit in commits])
    if any(test.density is not None for test in belief.tests):
        return _choose_undersampled_side(state, belief) or _choose_halving_commit(belief, commits, inside)
    last = state.measured[-1]
    waits = np.where(new, costs.build_s, 0.0) + costs.measure_s / 2
    elapsed = last.finished - state.measured[0].started
    at_h = (elapsed.total_seconds() + waits) / 3600
    layouts = 1 + max(each.variant for each in state.measured)
    runs_so_far = Counter(each.commit for each in state.measured)
    variants = np.array([runs_so_far[commit] % layouts for commit in commits])
    plan = MeasurementPlan(commits, inside, at_h, new, variants)
    gains = sum(
        (_information(belief, test, plan) for test in belief.tests),
        np.zeros((len(commits), len(_RUNS))),
    )
    runs = np.array(_RUNS, dtype=np.float64)
    rates = gains / (np.where(new, costs.considered_build_s, 0.0)[:, np.newaxis] + runs * costs.measure_s)
    # Runs of a built commit are chosen one by one.
    rates[~new, 1:] = 0.0
    rates[len(ready) :] *= np.array([_builds(state, commit) for commit in commits[len(ready) :]])[
        :, np.newaxis
    ]
    best = int(np.argmax(rates.max(axis=1)))
    return CommitChoice(commits[best], float(gains[best, 0]) / math.log(2))


def choose_for_layouts(state: BisectState, belief: Belief, suspected: int) -> str | None:
    """Choose the commit that shows best how much builds differ by their layouts.

    The deviation of layouts is learned from the averages of builds in each layout. A run shows most of it
    if the average of each has an error as large as this deviation: with fewer runs, the averages show
    noise, and with more of them, another build would show more.

    :param suspected: the class of which pairs have confirmed that builds with and without it differ.
    :returns: the commit that was measured least, or an unmeasured one if all have enough runs; None if
        there is none.
    """
    suspects = belief.suspects
    layouts = 1 + max(each.variant for each in state.measured)
    runs = Counter(each.commit for each in state.measured)
    least = min((commit for commit in suspects.measured if commit not in state.broken), key=runs.__getitem__)
    if runs[least] < layouts * max(map(partial(_useful_runs, suspected), belief.tests)):
        return least
    order = np.argsort(-belief.held, kind="stable")
    fresh = (suspects.candidates(suspects.classes[each]) for each in order)
    return next((commits[len(commits) // 2] for commits in fresh if commits), None)


def _useful_runs(suspected: int, test: TestBelief) -> int:
    """Return in how many runs of a build in a layout its average has the error of the layouts' deviation."""
    if test.evidence is None or test.density is not None:
        return 1
    field = test.evidence.field
    expected = sum(
        float(view.one[suspected])
        * float(field.grid.layout[view.point] ** 2 + field.grid.variant[view.point] ** 2)
        for view in test.evidence.views
    )
    return max(1, min(round(field.run_variance(test.evidence.best) / expected), _MOST_RUNS))


def _choose_undersampled_side(state: BisectState, belief: Belief) -> CommitChoice | None:
    """Choose the commit next to the most suspected class on the side with far fewer runs, if there is one.

    However often one side is measured, a single run of the other side may be an outlier.
    """
    suspects = belief.suspects
    most = int(np.argmax(belief.held))
    runs = np.array([state.times_measured(commit) for commit in suspects.measured], np.float64)
    after = float(runs @ suspects.after[most])
    before = float(runs.sum()) - after
    if min(before, after) * _BALANCED > max(before, after):
        return None
    parent, candidate = suspects.sides(most, belief.held)
    share = np.clip(belief.held[[most]], 1e-9, 1 - 1e-9)
    return CommitChoice(candidate if after < before else parent, float(_binary(share)[0]) / math.log(2))


def _choose_halving_commit(belief: Belief, commits: Sequence[str], inside: Floats) -> CommitChoice:
    """Choose the commit before and after which a change is equally probable.

    The information of a run cannot be predicted without a model of the noise.

    :param inside: the fraction of each class that a commit contains, (commits, j).
    """
    share = inside @ (belief.held / belief.held.sum())
    best = int(np.argmin(np.abs(share - 0.5)))
    return CommitChoice(
        commits[best], float(_binary(np.clip(share[[best]], 1e-9, 1 - 1e-9))[0]) / math.log(2)
    )


def _unmeasured_builds(state: BisectState, belief: Belief, chosen: int) -> Sequence[str]:
    """Return the commits of a class that are built but not yet measured: they cost less."""
    fresh = set(state.built).difference(belief.suspects.measured)
    if not fresh:
        return ()
    known = belief.suspects.history.commits
    return [known[at] for at in belief.suspects.split_points(chosen) if known[at] in fresh]


def _builds(state: BisectState, commit: str) -> float:
    """Return the probability that a commit builds; those that do not come in stretches."""
    if commit in state.built:
        return 1.0
    if not state.broken:
        return 0.97
    index = state.history.index(commit)
    distance = min(abs(index - state.history.index(each)) for each in state.broken)
    return 1 - max(0.05, 0.75 * 0.7 ** (distance - 1))


def _information(belief: Belief, test: TestBelief, plan: MeasurementPlan) -> Floats:
    """Return the information of runs at commits from one test, in nats, shape (commits, runs)."""
    inside = plan.inside
    information = np.zeros((plan.at_h.size, len(_RUNS)))
    if test.evidence is not None:
        information += _by_values(belief, test, test.evidence, plan)
    if test.failures is not None:
        affected = belief.effect_probability(test)
        none, before, after = test.failures.rates(test.failures.steps)
        split = np.concatenate([belief.one * affected * inside, belief.one * affected * (1 - inside)], axis=1)
        rest = np.maximum(1 - split.sum(axis=1, keepdims=True), 0.0)
        weights = np.concatenate([rest, split], axis=1)
        rates = np.concatenate([[none], after, before])
        once = _binary(weights @ rates) - weights @ _binary(rates)
        information += once[:, np.newaxis]
    return information


def _binary(rates: Floats) -> Floats:
    entropy: Floats = -rates * np.log(rates) - (1 - rates) * np.log1p(-rates)
    return entropy


def _by_values(belief: Belief, test: TestBelief, evidence: ValueEvidence, plan: MeasurementPlan) -> Floats:
    information = np.zeros((plan.at_h.size, len(_RUNS)))
    for view in evidence.views:
        if belief.none * view.none + (1 - belief.none) * view.one.max() < _UNLIKELY:
            continue
        parts = predict(belief, test, view, plan)
        share = parts.weights.sum(axis=1)
        weights = parts.weights / share[:, np.newaxis]
        relevant = np.flatnonzero(weights.max(axis=0) > _NEGLIGIBLE)
        chosen = weights[:, relevant], parts.means[:, relevant], parts.variances[:, relevant]
        information[:, 0] += share * _gain(*chosen, noise=parts.noise)
        for column, runs in enumerate(_RUNS[1:], start=1):
            of_new = _gain(*(each[plan.new] for each in chosen), noise=parts.noise / runs)
            information[plan.new, column] += share[plan.new] * of_new
    return information


def _gain(weights: Floats, means: Floats, variances: Floats, *, noise: float) -> Floats:
    """Return the approximate information of each row of a mixture of normal distributions, in nats.

    :param weights: shape (m, p), as are means and variances.
    :param noise: variance in addition to all of these.
    """
    variances = variances + noise
    # exp(-D), without the factors that depend on only one of the two distributions.
    close = variances[:, :, np.newaxis] + variances[:, np.newaxis]
    far = means[:, :, np.newaxis] - means[:, np.newaxis]
    far *= far
    far /= close
    far *= -0.5
    np.exp(far, out=far)
    np.divide(2.0, close, out=close)
    far *= np.sqrt(close, out=close)
    own = variances**0.25
    overlap = own * np.einsum("mij,mj->mi", far, weights * own)
    gain: Floats = -(weights * np.log(np.maximum(overlap, 1e-300))).sum(axis=1)
    return np.maximum(gain, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class MeasurementPlan:
    """Commits that could be measured, m of them."""

    commits: Sequence[str]
    inside: Floats
    """The fraction of each class that they contain, (m, j)."""
    at_h: Floats
    """Time of the run, in hours since the first measurement, (m,)."""
    new: NDArray[np.bool_]
    """Whether they have to be built, (m,)."""
    variants: Indices
    """The layouts in which the runs would be, (m,)."""


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The level under p hypotheses; a class that a commit splits counts as two."""

    weights: Floats
    """(m, p); they sum up to the probability of the view."""
    means: Floats
    variances: Floats
    """Without the noise of the run itself, (m, p)."""
    noise: float
    """Variance of one run."""


def predict(belief: Belief, test: TestBelief, view: View, plan: MeasurementPlan) -> Parts:
    """Predict the next run of each commit, for one test, at one point of the grid."""
    assert test.evidence is not None  # noqa: S101 - for the reader
    field, g = test.evidence.field, view.point
    _, q, c, v, _ = (each[g] for each in field.grid)
    at = plan.at_h - test.begin_h
    found = list(belief.found)
    known = plan.inside[:, found]
    index = np.array([belief.suspects.history.index(commit) for commit in plan.commits])
    same = np.equal.outer(index, field.levels.builds)
    same_variant = same & np.equal.outer(plan.variants, field.levels.variants)
    cross = (
        FLAT_VARIANCE * (1 + known @ field.steps[found])
        + q**2 * np.minimum(at[:, np.newaxis], field.levels.at_h)
        + c**2 * same
        + v**2 * same_variant
    )
    own = FLAT_VARIANCE * (1 + (known**2).sum(axis=1)) + q**2 * at + c**2 + v**2
    mean = cross @ field.pulled[g]
    variance = own - np.einsum("mn,mn->m", cross @ field.precision[g], cross)
    reach = cross @ field.moved[g].T
    sizes, spreads = _sizes(field, g)

    weights, means, variances = [], [mean[:, np.newaxis]], [variance[:, np.newaxis]]
    held = belief.one * belief.effect_probability(test)
    for stepped, share in ((1.0, plan.inside), (0.0, 1 - plan.inside)):
        means.append(mean[:, np.newaxis] + (stepped - reach) * sizes)
        variances.append(variance[:, np.newaxis] + (stepped - reach) ** 2 * spreads)
        weights.append(held * view.one * share)
    left = np.full(mean.size, 1 - held.sum())
    of_pairs = float(held @ view.one / held.sum()) if held.any() else view.none
    pairs = _heavy(belief)
    first, second = belief.prior.first[pairs], belief.prior.second[pairs]
    covariance, both = _two_sizes(field, g, first, second)
    outside = 1 - plan.inside[:, first], 1 - plan.inside[:, second]
    for both_stepped in np.ndindex(2, 2):
        step = np.array(both_stepped) - np.stack([reach[:, first], reach[:, second]], axis=2)
        means.append(mean[:, np.newaxis] + (step * both).sum(axis=2))
        variances.append(variance[:, np.newaxis] + np.einsum("mki,kij,mkj->mk", step, covariance, step))
        share = np.abs(outside[0] - both_stepped[0]) * np.abs(outside[1] - both_stepped[1])
        weights.append(belief.two[pairs] * of_pairs * share)
    left -= belief.two[pairs].sum()
    rest = np.maximum(left, 0.0)[:, np.newaxis] * view.none
    return Parts(
        np.concatenate([rest, *weights], axis=1),
        np.concatenate(means, axis=1),
        np.concatenate(variances, axis=1),
        field.run_variance(g),
    )


def _sizes(field: Field, g: int) -> tuple[Floats, Floats]:
    """Return mean and variance of the size of a change in each class, at a point, (j,)."""
    own = np.diagonal(field.weight[g])[:, np.newaxis] + 1 / SIZES
    mean = field.pull[g][:, np.newaxis] / own
    logs = SIZE_WEIGHTS + 0.5 * (field.pull[g][:, np.newaxis] * mean - np.log(own * SIZES))
    share = np.exp(logs - logs.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    average = (share * mean).sum(axis=1)
    return average, (share * (1 / own + mean**2)).sum(axis=1) - average**2


def _two_sizes(field: Field, g: int, first: Indices, second: Indices) -> tuple[Floats, Floats]:
    """Return covariance, (k, 2, 2), and means, (k, 2), of the sizes of two changes, for each pair."""
    chosen = np.stack([first, second], axis=1)
    weight = field.weight[g][chosen[:, :, np.newaxis], chosen[:, np.newaxis]]
    covariance = np.asarray(np.linalg.inv(weight + np.eye(2) / SIZES[1]), np.float64)
    return covariance, np.einsum("kij,kj->ki", covariance, field.pull[g][chosen])


def _heavy(belief: Belief) -> Indices:
    order = np.argsort(-belief.two, kind="stable")[:_MOST_PAIRS]
    return order[belief.two[order] > _NEGLIGIBLE_PAIR]

r"""The posterior of changes in the range, from all tests and all measurements so far.

Each class of commits (see :mod:`.candidates`) holds a change with a probability that grows with its number
of commits; so do two classes together. With the likelihood ratios B\ :sub:`t` = L\ :sub:`t`\ (change) /
L\ :sub:`t`\ (none) of the tests, each of which is affected with the probability g, and at least one for sure,

    weight(j)    = prior(j) (Π ((1-g) + g Bₜ(j)) - (1-g)ᵀ) / (1 - (1-g)ᵀ),

and two changes the same with each test affected by both, by one, or by none. With one test, weight(j) is
prior(j) B(j).

A class that cannot be split further and whose change was confirmed (see :mod:`.confirmation`) is *found*.
Its effect then becomes part of the covariance, whatever its size, and the prior of the rest of the range is
that of no further change, one or two. A class whose change was refuted is *cleared*: it holds none.

A failure of a test that begins with a commit is a change, too. A test fails with a probability that is the
same for all commits at one level. Its prior is a beta distribution that expects few failures; integrated
over it, f failures and s successes have the probability B(a+f, b+s) / B(a, b). One change makes two levels,
two changes make up to four.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.comparison.distributions import NoiseGrid, log_sum
from perftrend.analysis.comparison.observations import Floats, Levels, Observation, levels
from perftrend.bisect.adaptive.candidates import Suspects
from perftrend.bisect.adaptive.evidence import Hypotheses, Likelihood, ValueEvidence, average
from perftrend.bisect.adaptive.noise_model import Density
from perftrend.bisect.state import BisectState
from perftrend.model import Better

AFFECTED = 0.3
"""g: the probability that a change affects a test, if there are several tests."""
FIRST = (0.3, 0.65, 0.05)
"""Prior probabilities of no change, of one and of two."""
FURTHER = (0.93, 0.065, 0.005)
"""The same for further changes, in addition to those that were found."""
ANY_NOISE = 0.02
"""Prior probability that the noise is not normally distributed."""
_LEARNED = 8
"""Minimum number of measurements for learning another distribution."""
_SHOWN_POWER = 0.5
"""Power of the likelihoods for the suspects that are shown. The noise of a machine is known from the same few
measurements, so the likelihoods differ too much: on recorded machines, suspects with 90 to 95 % were right in
71 to 83 % of the steps, and are with this power in 92 to 100 %."""
_LOG_2 = math.log(2)
_IMPOSSIBLE = -1e9
"""Logarithm of a probability of practically zero, finite for arithmetic."""
DRIFTS, DRIFT_WEIGHTS = (0.05, 0.7, 2.5), (0.5, 0.3, 0.2)
"""In per cent per square root of an hour."""
DEVIATIONS = (0.1, 0.3, 0.6, 1.0, 1.6, 2.6, 5.0, 10.0, 22.0)
"""Deviations between runs, in per cent, for tests without a history."""
_FAILS, _WORKS = 0.02, 0.08
"""a and b: a fifth of all levels fails, and most levels always or never fail."""


@dataclass(frozen=True, slots=True, eq=False)
class TestData:
    """The measurements of one test."""

    __test__ = False

    name: str
    positions: tuple[int, ...]
    """Positions of the n measurements that include the test."""
    observations: tuple[Observation, ...]
    """Without samples if the test failed."""
    levels: Levels
    """Levels of the averages of the samples."""
    best: Levels | None
    """Levels of the best sample of each measurement; None if they add no information."""
    noise: NoiseGrid

    @property
    def failed(self) -> Floats:
        """1 for measurements in which it failed, else 0, (n,)."""
        return np.array([not each.usable for each in self.observations], np.float64)


def test_data(state: BisectState, known: Mapping[str, float]) -> tuple[TestData, ...]:
    """Return the measurements, grouped by test.

    A measurement without a sample above zero is a failure: nothing was received.

    :param known: the deviation between runs by test, in per cent, for tests with a history.
    """
    start = state.measured[0].started
    found = []
    for test in dict.fromkeys(name for each in state.measured for name in (*each.values, *each.failed)):
        positions, observations = [], []
        higher = all(
            each.values[test].better is Better.HIGHER for each in state.measured if test in each.values
        )
        for position, each in enumerate(state.measured):
            if test in each.values or test in each.failed:
                middle = each.started + (each.finished - each.started) / 2
                samples = each.values[test].samples if test in each.values else ()
                if not any(sample > 0 for sample in samples):
                    samples = ()
                at_h = (middle - start).total_seconds() / 3600
                positions.append(position)
                build = state.history.index(each.commit)
                observations.append(Observation(build, at_h, samples, each.variant))
        noise = NoiseGrid(
            deviations=DEVIATIONS,
            known_deviation=known.get(test),
            drifts=DRIFTS,
            drift_weights=DRIFT_WEIGHTS,
        )
        by_average = levels(observations)
        by_best = by_average.by_best(observations, higher=higher)
        found.append(TestData(test, tuple(positions), tuple(observations), by_average, by_best, noise))
    return tuple(found)


test_data.__test__ = False  # type: ignore[attr-defined]  # pytest would collect it by its name


class TestBelief:
    """The evidence of one test about the classes."""

    __test__ = False

    def __init__(self, data: TestData, suspects: Suspects, prior: Hypotheses, found: Sequence[int]) -> None:
        self.data = data
        self.found = tuple(found)
        columns = [suspects.measured.index(_commit(suspects, each)) for each in data.observations]
        tried = suspects.after[:, columns]
        self.failures = Failures(data.failed, tried, tuple(found)) if data.failed.any() else None
        self.evidence: ValueEvidence | None = None
        parts = []
        steps = tried[:, data.levels.positions]
        self.compared = steps.any(axis=1) & ~steps.all(axis=1)
        """Whether there are values with and without each class, (j,)."""
        self.density: Density | None = None
        """Evidence for noise of any distribution, if that predicts the values better than normal noise."""
        if len(data.levels):
            self.evidence = ValueEvidence(data.levels, steps, steps[list(found)], prior, noise=data.noise)
            parts.append(self._by_values(steps, prior))
        self.failing = np.zeros(len(tried), np.bool_)
        """Whether failures are evidence for a change in each class, (j,)."""
        if self.failures:
            by_failures = self.failures.likelihood(prior)
            self.failing = by_failures.one > by_failures.none
            parts.append(by_failures)
        self.ratios = _ratios(parts, prior)
        self.affected: Floats = _share(self.ratios.one)
        """The probability that a change in each class affects this test, if there are several, (j,)."""

    def _by_values(self, steps: Floats, prior: Hypotheses) -> Likelihood:
        """Return the likelihood averaged over two models of the noise: a normal one, and any distribution."""
        assert self.evidence is not None  # noqa: S101 - for the reader
        normal = self.evidence.of_all
        if len(self.data.levels) < _LEARNED:
            return normal
        density = Density(self.data.levels, steps, steps[list(self.found)])
        anyhow = _of_density(density, prior)
        preferred = math.log(ANY_NOISE / (1 - ANY_NOISE))
        if anyhow.total(prior) + preferred > normal.total(prior):
            self.density = density
        if self.density is not None and self.data.best is not None:
            best = Density(self.data.best, steps, steps[list(self.found)])
            if _of_density(best, prior).total(prior) > anyhow.total(prior):
                # A sharper distribution shows smaller changes. The two densities are of different values,
                # so only the gain by a change can be compared with the normal noise.
                self.density = best
                anyhow = _of_density(best, prior, none=anyhow.none)
        return average(normal, anyhow, ANY_NOISE)

    @property
    def begin_h(self) -> float:
        """The time of the first measurement with a value."""
        observations = self.data.observations
        return min(observations[int(at)].at_h for at in self.data.levels.positions)

    @property
    def retained(self) -> tuple[int, ...]:
        """The positions of the measurements with a value that are not excluded."""
        if self.evidence is None:
            return ()
        return tuple(self.data.positions[at] for at in self.data.levels.positions[self.evidence.retained])

    @property
    def outliers(self) -> tuple[int, ...]:
        """The positions of excluded outliers; empty if the noise may have any distribution."""
        if self.density is not None:
            return ()
        retained = self.retained
        tried = (self.data.positions[at] for at in self.data.levels.positions)
        return tuple(position for position in tried if position not in retained)


class Belief:
    """The posterior of the classes, given the changes that were found before.

    :param cleared: classes that hold no change, according to pairs of measurements.
    """

    def __init__(
        self,
        data: Sequence[TestData],
        suspects: Suspects,
        found: Sequence[int] = (),
        cleared: Collection[int] = (),
    ) -> None:
        self.suspects = suspects
        self.found = tuple(found)
        """Classes that certainly hold a change."""
        self.cleared = frozenset(cleared)
        self.prior = _prior(suspects, found, self.cleared)
        self.tests = tuple(TestBelief(each, suspects, self.prior, found) for each in data)
        ratios = [test.ratios for test in self.tests]
        self._ratios = (_one(ratios), _two(ratios, self.prior))
        self.none, self.one, self.two = self._weigh()
        """The probabilities of no further change, of a single one by class, (j,), and of two for each pair of
        the prior, (k,)."""
        self.held: Floats = self.one + self._in_pairs(self.two)
        """The probability of a change in each class, alone or with another one, (j,)."""

    def _weigh(self, power: float = 1.0) -> tuple[float, Floats, Floats]:
        """Return the posterior of no change, of one and of two, with a power of the likelihood."""
        one, two = self._ratios
        logs = np.concatenate([[self.prior.none], self.prior.one + power * one, self.prior.two + power * two])
        weights = np.exp(logs - log_sum(logs))
        return float(weights[0]), weights[1 : 1 + one.size], weights[1 + one.size :]

    def _in_pairs(self, two: Floats) -> Floats:
        """Return the probability of a change in each class together with another one, (j,)."""
        held = np.zeros(self.prior.one.size)
        np.add.at(held, self.prior.first, two)
        np.add.at(held, self.prior.second, two)
        return held

    def effect_probability(self, test: TestBelief) -> Floats:
        """Return the probability that a change in each class affects a test, (j,)."""
        return test.affected if len(self.tests) > 1 else np.ones_like(test.affected)

    def by_all_builds(self, chosen: int) -> float:
        """Return the probability that a class holds a change, and not only builds of different layout.

        Two builds measured in pairs cannot distinguish these; all builds together can. If the noise of a test
        that the change affects may have any distribution, they cannot either: then it is 1, and pairs alone
        decide.
        """
        affected = [test for test in self.tests if self.effect_probability(test)[chosen] > 0.5]  # noqa: PLR2004 - probably
        return 1.0 if any(test.density is not None for test in affected) else float(self.held[chosen])

    @property
    def shares(self) -> Floats:
        """The probability of a change in each class; each of two changes counts half, (j,)."""
        return (self.one + self.held) / 2

    @property
    def shown_shares(self) -> Floats:
        """The same as users see it, (j,): less sure of where the change is, and as sure that there is one.

        The search may follow a suspicion that is too strong, since pairs confirm or refute it. Users see it
        before.
        """
        _, one, two = self._weigh(_SHOWN_POWER)
        shares = one + self._in_pairs(two) / 2
        return (1 - self.none) * shares / max(float(shares.sum()), 1e-300)

    @property
    def hides_large_change(self) -> bool:
        """Whether a large change of a test is possible, although smaller ones are excluded."""
        densities = (test.density for test in self.tests if test.density is not None)
        return any(each.hides_large_change(self.held) for each in densities)

    def find_suspect(self, least: float) -> int | None:
        """Return the most probable class of those that cannot be split further; None if there is none.

        :param least: the minimum probability.
        """
        order = (int(each) for each in np.argsort(-self.held, kind="stable") if self.held[each] >= least)
        return next(
            (each for each in order if not self.suspects.split_points(self.suspects.classes[each])), None
        )


def _of_density(density: Density, prior: Hypotheses, none: float | None = None) -> Likelihood:
    """Return the likelihood by a density.

    :param none: its value without a change, if not that of the density.
    """
    shift = 0.0 if none is None else none - density.none
    two = np.logaddexp(density.one[prior.first], density.one[prior.second]) - _LOG_2
    return Likelihood(density.none + shift, density.one + shift, two + shift)


def _commit(suspects: Suspects, observation: Observation) -> str:
    index = observation.build
    return suspects.history.commits[index] if index >= 0 else suspects.history.old


def _prior(suspects: Suspects, found: Sequence[int], cleared: Collection[int]) -> Hypotheses:
    none, one, two = FURTHER if found else FIRST
    shares = suspects.shares
    open_classes = np.setdiff1d(np.arange(shares.size), np.array([*found, *cleared], dtype=np.int64))
    singles = np.full(shares.size, _IMPOSSIBLE)
    singles[open_classes] = np.log(one * shares[open_classes])
    at = np.triu_indices(open_classes.size, 1)
    first, second = open_classes[at[0]], open_classes[at[1]]
    return Hypotheses(
        math.log(none), singles, np.log(2 * two * shares[first] * shares[second]), first, second
    )


def _ratios(parts: Sequence[Likelihood], prior: Hypotheses) -> Likelihood:
    one, two = np.zeros(prior.one.size), np.zeros(prior.two.size)
    for part in parts:
        one = one + part.one - part.none
        two = two + part.two - part.none
    return Likelihood(0.0, one, two)


def _share(ratio: Floats) -> Floats:
    """Return g B / ((1-g) + g B), given log B."""
    odds = np.clip(math.log((1 - AFFECTED) / AFFECTED) - ratio, -700, 700)
    share: Floats = 1 / (1 + np.exp(odds))
    return share


def _some(ratio: Floats) -> Floats:
    """Return log((1-g) + g B), given log B."""
    some: Floats = np.logaddexp(math.log(1 - AFFECTED), math.log(AFFECTED) + ratio)
    return some


def _less(larger: Floats, smaller: Floats) -> Floats:
    """Return log(exp(larger) - exp(smaller)); a very small value if they are equal."""
    less: Floats = larger + np.log(np.maximum(-np.expm1(np.minimum(smaller - larger, 0.0)), 1e-300))
    return less


def _one(ratios: Sequence[Likelihood]) -> Floats:
    if len(ratios) == 1:
        return ratios[0].one
    none_affected = len(ratios) * math.log(1 - AFFECTED)
    total = np.sum([_some(each.one) for each in ratios], axis=0)
    return _less(total, np.array(none_affected)) - math.log(-math.expm1(none_affected))


def _two(ratios: Sequence[Likelihood], prior: Hypotheses) -> Floats:
    if len(ratios) == 1:
        return ratios[0].two
    no, yes = math.log(1 - AFFECTED), math.log(AFFECTED)
    none_affected = len(ratios) * no
    total = np.zeros(prior.two.size)
    alone = np.zeros(prior.one.size)
    for each in ratios:
        either = np.logaddexp(each.one[prior.first], each.one[prior.second]) + no + yes
        total = total + np.logaddexp(np.logaddexp(2 * no, either), 2 * yes + each.two)
        alone = alone + _some(each.one)
    lacking = np.logaddexp(alone[prior.first], alone[prior.second]) + none_affected
    return _less(np.logaddexp(total, 2 * none_affected), lacking) - 2 * math.log(-math.expm1(none_affected))


@dataclass(frozen=True, slots=True, eq=False)
class Failures:
    """The failures in n measurements of one test."""

    failed: Floats
    """1 for a failure, else 0, (n,)."""
    steps: Floats
    """1 for measurements of commits that contain the class, (j, n)."""

    found: tuple[int, ...] = ()
    """Classes that certainly hold a change: each makes levels of its own."""

    def likelihood(self, prior: Hypotheses) -> Likelihood:
        """Return the evidence of the hypotheses, in nats."""
        table = _table(self.failed.size)
        _, level = np.unique(self.steps[list(self.found)], axis=1, return_inverse=True)
        parts = [self._of_level(level == each, table, prior) for each in range(int(level.max()) + 1)]
        return Likelihood(
            sum(part.none for part in parts),
            np.sum([part.one for part in parts], axis=0),
            np.sum([part.two for part in parts], axis=0),
        )

    def _of_level(self, chosen: NDArray[np.bool_], table: Floats, prior: Hypotheses) -> Likelihood:
        steps = self.steps[:, chosen]
        both = np.stack([self.failed[chosen], 1 - self.failed[chosen]])

        def counted(measurements: Floats) -> Floats:
            failed, worked = (measurements @ both.T).round().astype(int).T
            counts: Floats = table[failed, worked]
            return counts

        first, second = steps[prior.first], steps[prior.second]
        one = counted(steps) + counted(1 - steps)
        two = (
            counted(first * second)
            + counted(first * (1 - second))
            + counted((1 - first) * second)
            + counted((1 - first) * (1 - second))
        )
        return Likelihood(float(counted(np.ones((1, steps.shape[1])))[0]), one, two)

    def rates(self, levels: Floats) -> tuple[float, Floats, Floats]:
        """Return the probability that the next run fails: without a change, before one, and after it.

        :param levels: the classes, as 1 for each measurement after the change, (j, n).
        """
        after, after_failed = levels.sum(axis=1), levels @ self.failed
        total, total_failed = float(self.failed.size), float(self.failed.sum())
        return (
            float(_rate(np.array(total_failed), np.array(total))),
            _rate(total_failed - after_failed, total - after),
            _rate(after_failed, after),
        )


def _rate(failed: Floats, measured: Floats) -> Floats:
    rate: Floats = (failed + _FAILS) / (measured + _FAILS + _WORKS)
    return rate


def _table(size: int) -> Floats:
    """Return log B(a+f, b+s) / B(a, b) at index f, s."""
    count = np.arange(size + 1)
    fails = np.array([math.lgamma(_FAILS + each) for each in count]) - math.lgamma(_FAILS)
    works = np.array([math.lgamma(_WORKS + each) for each in count]) - math.lgamma(_WORKS)
    both = np.array([math.lgamma(_FAILS + _WORKS + each) for each in range(2 * size + 1)])
    table: Floats = fails[:, np.newaxis] + works - both[np.add.outer(count, count)] + both[0]
    return table

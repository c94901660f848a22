"""Posterior distribution of a critical load, given trials, by a sum over a grid.

The critical load is the rate whose long-run average loss ratio is a target. The grid spans it and the spread
of the device's capacity, both logarithmic, with a uniform prior. The models of ``lossmodel`` share the grid,
and the trials determine the weight of each model by its likelihood. In each model one trial in a hundred may
lose any number of frames, so that no single trial decides.

No device is exactly one of the models. This matters more with more trials, because they would single out one
of the wrong models. The likelihood is therefore raised to the power T / (T + n) for n trials: their weight
grows with n, but never beyond that of T trials.

For each spread the cells are closest together at the onset of loss that the trials suggest, and their
distances grow in geometric sequence away from it: a knee may be a millionth wide, and may be anywhere.
Nothing is random: the same trials give the same result.

Source: the tempered likelihood is the coarsened posterior of Miller and Dunson, "Robust Bayesian
inference via coarsening" (2019).
"""

from __future__ import annotations

import math

import numpy as np

from perftrend.measure.search.soaking.lossmodel import (
    MODELS,
    SHAPES,
    Array,
    Devices,
    log_likelihoods,
    log_outlying,
)
from perftrend.measure.search.trials import passes
from perftrend.measurement import Trial

_OVERLOAD = 0.01
_OVERLOAD_TARGETS = 10.0
# At least ten times the target, so that loss near the target always counts in full.
_SPREAD = np.geomspace(1e-6, 10.0, 36)
_CELLS_EACH_SIDE = 48
_FINEST_SPREADS = 0.05
_BEYOND = 4.0
# The grid extends beyond the rates that can be offered, so that a critical load outside them is possible.
_NEGLIGIBLE = 1e-9
_TRUST = 100.0
# T: all trials together weigh less than this number of trials.
_CENTRE_EVERY = 1.5
_CENTRE_ALWAYS = 16


class Posterior:
    """The posterior of the critical load, given trials.

    :param minimum_pps: lowest rate that is offered.
    :param maximum_pps: highest rate that is offered.
    :param target_loss_ratio: the average loss ratio at the critical load, above 0 and below 1.
    """

    def __init__(self, *, minimum_pps: float, maximum_pps: float, target_loss_ratio: float) -> None:
        self._target = target_loss_ratio
        self._overload = min(1.0, max(_OVERLOAD, _OVERLOAD_TARGETS * target_loss_ratio))
        self._limits = math.log(minimum_pps / _BEYOND), math.log(maximum_pps * _BEYOND)
        knees = np.stack([shape.rate_of_loss(np.log(target_loss_ratio / _SPREAD)) for shape in SHAPES])
        self._knees = _SPREAD * knees
        """Critical load minus centre of the capacity, relative to the former, shape (shapes, spreads)."""
        self._trials: list[Trial] = []
        self._next_centring = 0.0
        self._place_grid(self._log_onset())

    def add(self, trial: Trial) -> None:
        """Add a trial; a trial that sent nothing is ignored."""
        if not trial.sent > 0:
            return
        self._trials.append(trial)
        if len(self._trials) > self._next_centring:
            self.centre()
        else:
            self._log_likelihood += self._log_likelihoods(trial)

    def centre(self) -> None:
        """Place the finest cells at the onset of loss that the trials so far suggest."""
        grown = _CENTRE_EVERY * len(self._trials)
        self._next_centring = grown if grown > _CENTRE_ALWAYS else 0.0
        self._place_grid(self._log_onset())

    def onset(self) -> float:
        """Return the rate, in pps, that best separates the trials that meet the target from the others."""
        return math.exp(self._log_onset())

    def quantile(self, share: float) -> float:
        """Return the rate, in pps, below which the critical load is with the probability ``share``."""
        mass = self._weights().sum(axis=0)
        held = mass > _NEGLIGIBLE
        edges = np.concatenate([self._edges[..., :-1][held], self._edges[..., 1:][held]])
        density = mass[held] / np.diff(self._edges, axis=-1)[held]
        order = np.argsort(edges)
        # Cells of different spreads overlap; the probability of each is spread evenly over it.
        height = np.cumsum(np.concatenate([density, -density])[order])
        below = np.append(0.0, np.cumsum(height[:-1] * np.diff(edges[order])))
        return float(np.exp(np.interp(share * below[-1], below, edges[order])))

    def outlier_probability(self, trial: Trial) -> float:
        """Return the probability that a trial is one of those that lose any number of frames."""
        return float(np.sum(self._weights() * np.exp(log_outlying(trial) - self._log_likelihoods(trial))))

    def _place_grid(self, onset: float) -> None:
        span = self._limits[1] - self._limits[0]
        away = np.geomspace(_FINEST_SPREADS * _SPREAD, span, _CELLS_EACH_SIDE, axis=-1)
        edges = np.concatenate([-away[:, ::-1], away], axis=-1)
        centred = onset - np.log1p(-self._knees)[..., np.newaxis] + edges
        self._edges = np.clip(centred, *self._limits)
        self._log_rates = (self._edges[..., 1:] + self._edges[..., :-1]) / 2.0
        self._log_likelihood = np.zeros((MODELS, *self._log_rates.shape))
        for trial in self._trials:
            self._log_likelihood += self._log_likelihoods(trial)

    def _weights(self) -> Array:
        """Return the probability of each cell, shape (models, shapes, spreads, cells)."""
        widths = np.diff(self._edges, axis=-1)
        tempered = self._log_likelihood * (_TRUST / (_TRUST + len(self._trials)))
        possible = np.where(widths > 0.0, tempered, -np.inf)
        weights = widths * np.exp(possible - possible.max())
        return np.asarray(weights / weights.sum(), dtype=np.float64)

    def _log_likelihoods(self, trial: Trial) -> Array:
        spread = _SPREAD[:, np.newaxis]
        of_shapes = []
        for number, shape in enumerate(SHAPES):
            load = trial.rate_pps * np.exp(-self._log_rates[number])
            above_centre = load - 1.0 + self._knees[number][:, np.newaxis]
            devices = Devices(shape, load, above_centre, spread)
            of_shapes.append(log_likelihoods(trial, devices, overload=self._overload))
        return np.stack(of_shapes, axis=1)

    def _log_onset(self) -> float:
        if not self._trials:
            return sum(self._limits) / 2.0
        ordered = sorted(self._trials, key=lambda trial: trial.rate_pps)
        passed = np.array([passes(trial, self._target) for trial in ordered])
        rates = np.log([trial.rate_pps for trial in ordered])
        gaps = np.concatenate([rates[:1], (rates[1:] + rates[:-1]) / 2.0, rates[-1:]])
        wrong = np.append(0, np.cumsum(~passed)) + np.append(np.cumsum(passed[::-1])[::-1], 0)
        best = np.flatnonzero(wrong == wrong.min())
        return float(gaps[best[best.size // 2]])

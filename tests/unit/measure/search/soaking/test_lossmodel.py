from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.measure.search.soaking.lossmodel import MODELS, SHAPES, CapacityShape, Devices, log_likelihoods
from perftrend.measurement import Trial

EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=["logistic", "normal", "uniform"])


def trial(lost: int, sent: int = 10_000) -> Trial:
    return Trial(1000.0, 10.0, 10.0, sent, sent - lost)


@EVERY_SHAPE
@pytest.mark.parametrize("rate", [-3.0, -1.0, 0.5, 2.0, 60.0])
def test_average_loss_is_the_excess_over_the_capacity(shape: CapacityShape, rate: float) -> None:
    """Summed over the distribution of the capacity, in steps of a thousandth."""
    capacities = np.arange(-30.0, 30.0, 1e-3) + 5e-4

    excess = np.sum(np.maximum(0.0, rate - capacities) * np.exp(shape.density(capacities))) * 1e-3
    assert excess == pytest.approx(np.exp(shape.log_loss(np.array(rate))), rel=1e-3, abs=1e-9)


@EVERY_SHAPE
@pytest.mark.parametrize("rate", [-1.5, 0.0, 1.5])
def test_survival_is_the_share_of_capacities_above(shape: CapacityShape, rate: float) -> None:
    capacities = np.arange(rate, 30.0, 1e-3) + 5e-4

    share = np.sum(np.exp(shape.density(capacities))) * 1e-3
    assert share == pytest.approx(np.exp(shape.log_survival(np.array(rate))), rel=2e-3)


@EVERY_SHAPE
@given(log_loss=st.floats(math.log(1e-9), math.log(1e4)))
def test_rate_of_loss_undoes_loss(shape: CapacityShape, log_loss: float) -> None:
    rate = shape.rate_of_loss(np.array(log_loss))

    assert log_loss == pytest.approx(float(shape.log_loss(rate)), abs=1e-3)


@EVERY_SHAPE
def test_probabilities_of_all_counts_are_one(shape: CapacityShape) -> None:
    """Fast models of a device that loses 20 frames of 10000 on average; overload begins nowhere."""
    spread = 0.01
    rate = shape.rate_of_loss(np.log(np.array([0.002 / spread])))
    devices = Devices(shape, np.array([1.0]), spread * rate, np.array([spread]))

    counts = [np.exp(log_likelihoods(trial(lost), devices, overload=1.0)) for lost in range(1001)]

    assert [1.0, 1.0] == pytest.approx(np.sum(counts, axis=0)[1:-1, 0].tolist(), abs=0.01)


def test_slow_device_shows_its_own_capacity() -> None:
    """It lost a tenth of the load, so the capacity was 0.9 of it."""
    centres = np.array([0.85, 0.9, 0.95])
    devices = Devices(SHAPES[1], np.ones(3), 1.0 - centres, np.full(3, 0.01))

    slow = log_likelihoods(trial(1000), devices, overload=1.0)[MODELS - 1]

    assert 1 == np.argmax(slow)


def test_overload_does_not_tell_how_much() -> None:
    """Twice the capacity and ten times the capacity are the same to a trial that lost half."""
    loads = np.array([2.0, 10.0])
    devices = Devices(SHAPES[0], loads, loads - 1.0, np.full(2, 1e-3))

    likelihoods = log_likelihoods(trial(5000), devices, overload=0.01)

    assert likelihoods[:, 0] == pytest.approx(likelihoods[:, 1])

"""A simulated device: it answers trials from a formula, so a search can be judged by the truth.

No packet is sent and no time passes: an hour of trials takes milliseconds. With the same seed
and the same trials the answers are the same.

Below, c is the critical rate of the trial, r the offered rate; the share lost is

============  ==========================================================================
knee          loss ratio
============  ==========================================================================
``hard``      0 up to c, then 1 - c/r: the device forwards c and not more
``soft``      0 up to 0.9 c, then 0.02 (r/c - 0.9)² and the loss of the hard knee
``gentle``    0 up to c, then 0.005 ((r/c - 1)/0.12)², at most the loss of the hard knee
``collapse``  0 up to c, then 1 - (c/r)²: the more is offered, the less is forwarded
============  ==========================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from perftrend.errors import SettingsError, nearest
from perftrend.model import Trial


def _hard(load: float) -> float:
    return max(0.0, 1.0 - 1.0 / load)


def _soft(load: float) -> float:
    return 0.02 * max(0.0, load - 0.9) ** 2 + _hard(load)


def _gentle(load: float) -> float:
    return min(_hard(load), 0.005 * ((load - 1.0) / 0.12) ** 2)


def _collapse(load: float) -> float:
    return max(0.0, 1.0 - 1.0 / load**2)


KNEES: Mapping[str, Callable[[float], float]] = MappingProxyType(
    {"hard": _hard, "soft": _soft, "gentle": _gentle, "collapse": _collapse}
)
"""Loss ratio over the load r/c, by name."""

KINDS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "hard": {"knee": "hard"},
        "soft": {"knee": "soft"},
        "gentle": {"knee": "gentle"},
        "collapse": {"knee": "collapse"},
        "jitter": {"jitter": 0.003},
        "drift": {"drift_per_s": -0.005 / 90},
        "two-mode": {"slow_share": 0.1},
        "inconsistent": {"jitter": 0.01, "hiccup_share": 0.1, "restart_spread": 0.02},
    }
)
"""Arguments of ``DeviceModel`` for devices as they are met, by name."""

_SLOW_MODE = 0.03
_WORST_HICCUP = 0.01
_MOST_DRIFT = 10.0
_ROUNDING = 1e-6


class DeviceModel:
    """A device that forwards up to a critical rate, usable as the ``measure`` of any search.

    :param critical_pps: the rate up to which a hard knee loses nothing, both directions together.
    :param knee: how loss grows with the load, a name of ``KNEES``.
    :param slowdown: share of the critical rate that is missing, from 0 to below 1.
    :param jitter: standard deviation of the critical rate from trial to trial, relative.
    :param drift_per_s: relative change of the critical rate per second of trials.
    :param slow_share: share of trials in the slow mode, whose critical rate is 3 % lower.
    :param hiccup_share: share of trials that lose up to 1 % more, at any rate.
    :param restart_spread: standard deviation of the critical rate from start to start, relative.
    :param poisson: whether the number of lost frames is random; else it is the ratio, rounded down.
    :param seed: of all that is random.
    :raises SettingsError: naming the argument that cannot be used.
    """

    def __init__(
        self,
        critical_pps: float,
        *,
        knee: str = "hard",
        slowdown: float = 0.0,
        jitter: float = 0.0,
        drift_per_s: float = 0.0,
        slow_share: float = 0.0,
        hiccup_share: float = 0.0,
        restart_spread: float = 0.0,
        poisson: bool = False,
        seed: int = 0,
    ) -> None:
        if knee not in KNEES:
            raise SettingsError(f"simulated device: knee {knee!r} is unknown{nearest(knee, KNEES)}")
        _require(0.0 < critical_pps < math.inf, "critical_pps", critical_pps, "a finite number above 0")
        _require(0.0 <= slowdown < 1.0, "slowdown", slowdown, "a share from 0 to below 1")
        _require(math.isfinite(drift_per_s), "drift_per_s", drift_per_s, "a finite number")
        for name, spread in (("jitter", jitter), ("restart_spread", restart_spread)):
            _require(0.0 <= spread <= 1.0, name, spread, "a relative deviation from 0 to 1")
        for name, share in (("slow_share", slow_share), ("hiccup_share", hiccup_share)):
            _require(0.0 <= share <= 1.0, name, share, "a share from 0 to 1")
        self.critical_pps = critical_pps
        self.slowdown = slowdown
        self.elapsed_s = 0.0
        """Seconds of trials so far: the clock of the drift."""
        self._knee = KNEES[knee]
        self._jitter = jitter
        self._drift_per_s = drift_per_s
        self._slow_share = slow_share
        self._hiccup_share = hiccup_share
        self._restart_spread = restart_spread
        self._poisson = poisson
        self._random = np.random.default_rng(seed)
        self._start_factor = 1.0
        self.restart()

    @classmethod
    def of_kind(cls, kind: str, critical_pps: float, **arguments: Any) -> DeviceModel:  # noqa: ANN401 - those of __init__
        """Make a device of a kind in ``KINDS``; further arguments go before the kind's own."""
        if kind not in KINDS:
            raise SettingsError(f"simulated device: kind {kind!r} is unknown{nearest(kind, KINDS)}")
        return cls(critical_pps, **{**KINDS[kind], **arguments})

    def restart(self) -> None:
        """Start the device anew: it settles a little differently each time."""
        self._start_factor = self._spread(self._restart_spread)

    def loss_ratio(self, rate_pps: float) -> float:
        """Return the share that is lost at a rate at this moment, nothing random included."""
        return self._loss_ratio(rate_pps, self._critical_now())

    def __call__(self, rate_pps: float, duration_s: float, fail_above: float | None = None) -> Trial:
        """Answer a trial; end it early as soon as the whole of it is certain to lose too much."""
        intended = round(rate_pps * duration_s)
        lost = self._lost(intended, rate_pps)
        sent, elapsed_s = intended, duration_s
        if fail_above is not None and lost > fail_above * intended:
            # Loss is spread evenly, so the frame that decides comes at its share of the time.
            decisive = math.floor(fail_above * intended) + 1
            sent = -(-intended * decisive // lost)
            elapsed_s = duration_s * sent / intended
            lost = decisive
        self.elapsed_s += elapsed_s
        return Trial(rate_pps, duration_s, elapsed_s, sent, sent - lost)

    def _lost(self, intended: int, rate_pps: float) -> int:
        critical = self._critical_now() * self._spread(self._jitter)
        if self._happens(self._slow_share):
            critical *= 1.0 - _SLOW_MODE
        ratio = self._loss_ratio(rate_pps, critical)
        if self._happens(self._hiccup_share):
            ratio += _WORST_HICCUP * self._random.random()
        expected = min(1.0, ratio) * intended
        lost = int(self._random.poisson(expected)) if self._poisson else math.floor(expected + _ROUNDING)
        return min(intended, lost)

    def _critical_now(self) -> float:
        drift = math.exp(max(-_MOST_DRIFT, min(_MOST_DRIFT, self._drift_per_s * self.elapsed_s)))
        return self.critical_pps * (1.0 - self.slowdown) * self._start_factor * drift

    def _loss_ratio(self, rate_pps: float, critical_pps: float) -> float:
        return min(1.0, self._knee(rate_pps / critical_pps)) if rate_pps > 0.0 else 0.0

    def _spread(self, deviation: float) -> float:
        # Nothing is drawn for what does not vary, so that one property leaves the others' numbers alone.
        return math.exp(deviation * self._random.standard_normal()) if deviation else 1.0

    def _happens(self, share: float) -> bool:
        return bool(share) and bool(self._random.random() < share)


def _require(holds: bool, name: str, value: object, expected: str) -> None:
    if not holds:
        raise SettingsError(f"simulated device: {name} is {value!r}; give {expected}")

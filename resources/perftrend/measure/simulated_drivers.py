"""Drivers that replace the generator and the device by the public simulator.

No packet is sent and no time passes. The testbed's file marks all results as simulated.
"""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from typing_extensions import override

import perftrend
from perftrend import errors
from perftrend.measure.interfaces import (
    TEST_NUMBERS,
    TEST_WORDS,
    Counters,
    Device,
    Link,
    Node,
    TrafficGenerator,
    Wiring,
)
from perftrend.measure.simulated_loss import KINDS
from perftrend.measure.simulator import DeviceModel
from perftrend.measure.traffic import FORWARDINGS, TrafficProfile
from perftrend.measure.wiring import NoWiring
from perftrend.measurement import Latency, Trial

_RULE_COST = 0.02
"""Cost of each rule of the access list, as a fraction of the time that a frame takes without rules."""

_RECONF_LOSS_S = "0.001"
_MOST = 2**32 - 1
_ANSWERS = {"yes": True, "no": False}
_DEFAULTS: Mapping[str, Any] = {"critical_pps": 12e6, "jitter": 0.002}

_LATENCY_FRAMES_PER_S = 1000
"""Rate of the frames that latency is measured with, in each direction, as that of TRex."""
_FORWARDING_US = 5.0
"""The latency of a frame that does not wait."""
_BATCH_FRAMES = 64
_QUEUE_FRAMES = 4096
_MOST_BATCHES = 1e9
"""The mean wait at and above the critical rate, before the limit of the queue."""


def _natural(text: str) -> int:
    number = int(text)
    if not 0 <= number <= _MOST:
        raise ValueError
    return number


def _whether(text: str) -> bool:
    if text not in _ANSWERS:
        raise ValueError
    return _ANSWERS[text]


_OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "critical_pps": float,
    "knee": str,
    "slowdown": float,
    "jitter": float,
    "drift_per_s": float,
    "slow_share": float,
    "hiccup_share": float,
    "restart_spread": float,
    "loss_floor": float,
    "asymmetry": float,
    "buffer_frames": float,
    "pause_every_s": float,
    "pause_s": float,
    "pause_slowdown": float,
    "pauses_at_random": _whether,
    "queue_frames": float,
    "burst_frames": float,
    "warm_up_s": float,
    "warm_up_slowdown": float,
    "warm_up_once": _whether,
    "rate_error": float,
    "ends_early": _whether,
    "poisson": _whether,
    "seed": _natural,
}


class SimulatedWiring(NoWiring):
    """A connection between a simulated generator and the simulated device that was started last."""

    def __init__(self, nodes: Mapping[str, Node] | None = None, links: Sequence[Link] = ()) -> None:
        super().__init__(nodes, links)
        self.device: DeviceModel | None = None
        self.interruption_s = 0.0
        """How long the device forwards nothing in the next trial."""


class SimulatedGenerator(TrafficGenerator):
    """A generator whose trials the simulated device computes.

    Options: ``latency: "yes"`` measures latency (:func:`expected_latency`).
    """

    version = f"simulated {perftrend.__version__}"

    def __init__(self, wiring: SimulatedWiring, node: Node, options: Mapping[str, str]) -> None:
        del node  # it runs on no machine
        for name, value in options.items():
            if name != "latency":
                raise errors.SettingsError(f"the generator simulated has no option {name!r}; it has latency")
            _one_of("latency", value, _ANSWERS, of="generator")
        self.measures_latency = options.get("latency") == "yes"
        self._wiring = wiring
        self._sent = self._received = 0

    def open(self) -> None:
        """Do nothing: there is nothing to start."""

    def close(self) -> None:
        """Do nothing: there is nothing to stop."""

    def use(self, traffic: TrafficProfile) -> None:
        """Do nothing: the simulated device treats all traffic alike."""

    @override
    def highest_pps(self) -> float:
        return math.inf

    @override
    def trial(self, rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        device = self._wiring.device
        if device is None:
            raise errors.TestbedError("the simulated device is not started; start the device first")
        trial = device(rate_pps, duration_s, fail_above)
        frames = min(round(_LATENCY_FRAMES_PER_S * trial.elapsed_s), trial.received // 2)
        if self.measures_latency and frames:
            critical_pps = device.current_critical_pps
            latency = expected_latency(rate_pps / critical_pps, critical_pps, frames)
            trial = replace(trial, latency=(latency, latency))
        lost = min(trial.received, round(rate_pps * self._wiring.interruption_s))
        self._wiring.interruption_s = 0.0
        trial = replace(trial, received=trial.received - lost)
        self._sent += trial.sent
        self._received += trial.received
        return trial

    @override
    def busy_processes(self) -> Sequence[int]:
        return ()

    @override
    def counters(self) -> Counters:
        return {"sent": self._sent, "received": self._received}


class SimulatedDevice(Device):
    """A :class:`~perftrend.measure.simulator.DeviceModel` with the options that tests set for all devices.

    Of these, ``acl_rules`` and ``cores`` change its rate. Further options: ``kind``, a name of
    :data:`~perftrend.measure.simulated_loss.KINDS`, and the arguments of the model, such as
    ``critical_pps``, ``knee``, ``jitter`` or ``seed``, which override those of the kind. While routes are
    added under traffic, the device forwards nothing for ``reconf_loss_s``.
    """

    version = f"simulated {perftrend.__version__}"
    reconfigurable = ("routes",)

    def __init__(self, wiring: Wiring, node: Node) -> None:
        del node  # it runs on no machine
        if not isinstance(wiring, SimulatedWiring):
            raise errors.SettingsError("the simulated device needs the wiring simulated")
        self._wiring = wiring
        self._starts = 0
        self._reconf_loss_s = 0.0
        # Runs differ, unless the option ``seed`` is set to repeat one.
        self._seed = secrets.randbits(32)

    @override
    def unusable(self) -> str:
        return ""

    @override
    def check(self, options: Mapping[str, str]) -> None:
        self._model(options)
        _reconf_loss_s(options)

    @override
    def start(self, options: Mapping[str, str]) -> None:
        self._starts += 1
        self._wiring.device = self._model(options)
        self._wiring.interruption_s = 0.0
        self._reconf_loss_s = _reconf_loss_s(options)

    @override
    def reconfigure(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        self._wiring.interruption_s = self._reconf_loss_s

    def _model(self, options: Mapping[str, str]) -> DeviceModel:
        arguments = dict(_DEFAULTS)
        if "kind" in options:
            kind = _one_of("kind", options["kind"], KINDS)
            arguments = {"critical_pps": _DEFAULTS["critical_pps"], **KINDS[kind]}
        arguments |= {
            name: _convert(name, text, _OPTIONS[name]) for name, text in options.items() if name in _OPTIONS
        }
        for name in options:
            known = [*_OPTIONS, *TEST_NUMBERS, *TEST_WORDS, "vlan", "kind", "reconf_loss_s"]
            if name not in known:
                raise errors.SettingsError(f"the device has no option {name!r}{errors.nearest(name, known)}")
        rules = _convert("acl_rules", options.get("acl_rules", "0"), _natural)
        if _one_of("forwarding", options.get("forwarding", "ip4"), FORWARDINGS).startswith("ip"):
            arguments["critical_pps"] /= 1 + _RULE_COST * rules
        arguments["critical_pps"] *= _convert("cores", options.get("cores", "1"), _natural)
        # A different seed for each start: devices do not repeat their noise after a restart.
        arguments["seed"] = arguments.get("seed", self._seed) + self._starts
        return DeviceModel(**arguments)

    @override
    def stop(self) -> None:
        self._wiring.device = None

    @override
    def busy_processes(self) -> Sequence[int]:
        return ()

    @override
    def counters(self) -> Counters:
        return {}


def _reconf_loss_s(options: Mapping[str, str]) -> float:
    found = _convert("reconf_loss_s", options.get("reconf_loss_s", _RECONF_LOSS_S), float)
    if not 0.0 <= found < math.inf:
        raise errors.SettingsError(f"device option reconf_loss_s={found:g}: write a finite number from 0")
    return float(found)


def _convert(name: str, text: str, convert: Callable[[str], Any]) -> Any:  # noqa: ANN401 - the type is the option's
    try:
        return convert(text)
    except ValueError:
        expected = "yes or no" if convert is _whether else "a number"
        raise errors.SettingsError(f"device option {name}={text!r}: write {expected}") from None


def _one_of(name: str, text: str, choices: Iterable[str], *, of: str = "device") -> str:
    if text not in choices:
        raise errors.SettingsError(f"{of} option {name}={text!r}{errors.nearest(text, choices)}")
    return text


def expected_latency(load: float, critical_pps: float, frames: int) -> Latency:
    """Return the latency of a number of frames, at least one: the time to forward a frame, and to wait.

    A device forwards frames in batches. At a load u, a fraction of the critical rate, a frame waits for
    u / (1 - u) batches on average, as in a queue with random arrivals (M/M/1): for a ninth of a batch at
    10 %, for nine batches at 90 %. The wait is exponential, up to that of a full queue, which all frames have
    from the critical rate on. Nothing is drawn at random: the noise of a trend is that of PDR.

    :param load: the rate, relative to the critical rate.
    """
    batch_us, queue_us = (1e6 * each / critical_pps for each in (_BATCH_FRAMES, _QUEUE_FRAMES))
    batches = min(load / (1.0 - load), _MOST_BATCHES) if load < 1.0 else _MOST_BATCHES
    wait = _Wait(batches * batch_us, queue_us)
    return Latency(
        minimum_us=_FORWARDING_US + wait.quantile_us(1.0 / (frames + 1)),
        average_us=_FORWARDING_US + wait.average_us,
        maximum_us=_FORWARDING_US + wait.quantile_us(frames / (frames + 1)),
        histogram=tuple(_histogram(wait, frames)),
    )


@dataclass(frozen=True, slots=True)
class _Wait:
    """An exponential distribution whose values above a limit are the limit."""

    mean_us: float
    """Of the exponential distribution, above 0."""
    limit_us: float

    @property
    def average_us(self) -> float:
        return -self.mean_us * math.expm1(-self.limit_us / self.mean_us)

    def quantile_us(self, probability: float) -> float:
        return min(self.limit_us, -self.mean_us * math.log1p(-probability))

    def share_below(self, wait_us: float) -> float:
        return 1.0 if wait_us > self.limit_us else -math.expm1(-max(0.0, wait_us) / self.mean_us)


def _histogram(wait: _Wait, frames: int) -> Iterator[tuple[float, int]]:
    """Yield the classes that have frames; their bounds are those of TRex: 10, 20, …, 90, 100, 200, … us."""
    before = 0
    for bound_us in (digit * 10.0**power for power in itertools.count(1) for digit in range(1, 10)):
        until = round(frames * wait.share_below(bound_us - _FORWARDING_US))
        if until > before:
            yield bound_us, until - before
        if until == frames:
            break
        before = until

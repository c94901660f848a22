"""Drivers that put the public simulator in the place of a generator and a device.

No packet is sent and no time passes; the testbed's file marks everything that comes of it.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from typing_extensions import override

import perftrend
from perftrend import errors
from perftrend.measure.interfaces import Counters, Device, Node, TrafficGenerator, Wiring
from perftrend.measure.simulator import DeviceModel
from perftrend.measure.wiring import NoWiring
from perftrend.model import Trial

_RULE_COST = 0.02
"""Each rule of the access list costs this share of the time that a frame takes without any."""

_FORWARDINGS = ("ip4", "l2")
_MOST = 2**32 - 1


def _natural(text: str) -> int:
    number = int(text)
    if not 0 <= number <= _MOST:
        raise ValueError
    return number


_OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "critical_pps": float,
    "knee": str,
    "slowdown": float,
    "jitter": float,
    "drift_per_s": float,
    "slow_share": float,
    "hiccup_share": float,
    "restart_spread": float,
    "seed": _natural,
}


class SimulatedWiring(NoWiring):
    """Connects a simulated generator with the simulated device that was started last."""

    def __init__(self) -> None:
        super().__init__()
        self.device: DeviceModel | None = None


class SimulatedGenerator(TrafficGenerator):
    """Asks the simulated device what comes back."""

    version = f"simulated {perftrend.__version__}"

    def __init__(self, wiring: SimulatedWiring, node: Node, options: Mapping[str, str]) -> None:
        del node, options  # nothing about it can be chosen
        self._wiring = wiring
        self._sent = self._received = 0

    def open(self) -> None:
        """Nothing is to be started."""

    def close(self) -> None:
        """Nothing is to be stopped."""

    def use(self, frame: str, *, bridged: bool) -> None:
        """All traffic is alike to the simulated device."""

    @override
    def highest_pps(self) -> float:
        return math.inf

    @override
    def trial(self, rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        if self._wiring.device is None:
            raise errors.TestbedError("the simulated device is not started; start the device first")
        trial = self._wiring.device(rate_pps, duration_s, fail_above)
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
    """A :class:`~perftrend.measure.simulator.DeviceModel` with the options of the embedded device.

    Options: ``acl_rules`` and ``forwarding`` as the embedded device has them, and the arguments of
    the model, such as ``critical_pps``, ``knee``, ``jitter`` or ``seed``.
    """

    version = f"simulated {perftrend.__version__}"

    def __init__(self, wiring: Wiring, node: Node) -> None:
        del node  # it runs nowhere
        if not isinstance(wiring, SimulatedWiring):
            raise errors.SettingsError("the simulated device needs the wiring simulated")
        self._wiring = wiring
        self._starts = 0
        # Nights differ, unless a person asks for the same one again.
        self._seed = secrets.randbits(32)

    @override
    def unusable(self) -> str:
        return ""

    @override
    def check(self, options: Mapping[str, str]) -> None:
        self._model(options)

    @override
    def start(self, options: Mapping[str, str]) -> None:
        self._starts += 1
        self._wiring.device = self._model(options)

    def _model(self, options: Mapping[str, str]) -> DeviceModel:
        arguments: dict[str, Any] = {"critical_pps": 12e6, "jitter": 0.002}
        rules = 0
        for name, value in options.items():
            if name == "forwarding":
                if value not in _FORWARDINGS:
                    raise errors.SettingsError(
                        f"device option forwarding={value!r}{errors.nearest(value, _FORWARDINGS)}"
                    )
                continue
            convert = _natural if name == "acl_rules" else _OPTIONS.get(name)
            if convert is None:
                known = [*_OPTIONS, "acl_rules", "forwarding"]
                raise errors.SettingsError(f"the device has no option {name!r}{errors.nearest(name, known)}")
            try:
                number = convert(value)
            except ValueError:
                raise errors.SettingsError(f"device option {name}={value!r}: write a number") from None
            if name == "acl_rules":
                rules = number
            else:
                arguments[name] = number
        if options.get("forwarding") != "l2":
            arguments["critical_pps"] /= 1 + _RULE_COST * rules
        # Another seed for each start: devices do not repeat their noise when they are restarted.
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

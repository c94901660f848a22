"""A device driver: a bridge of the Linux kernel between the two ports of the device."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Mapping, Sequence

from perftrend.errors import TestbedError
from perftrend.measure.interfaces import Counters, Device, DeviceAbilities, Node, Wiring, check_options
from perftrend.measure.wiring import run


class BridgeDevice(Device):
    """A bridge; the option ``learning`` is ``on`` or ``off``."""

    def __init__(self, wiring: Wiring, node: Node) -> None:
        del node  # the kernel forwards on the core that receives
        self.version = f"linux {platform.release()}"
        self._wiring = wiring
        self._is_started = False

    def unusable(self) -> str:
        return "" if len(self._wiring.links) == 2 else "a bridge needs two links"

    def check(self, options: Mapping[str, str]) -> None:
        check_options(options, words={"learning": ("on", "off")})

    def lacks(self, options: Mapping[str, str]) -> str:
        return DeviceAbilities("a bridge", forwarding=["l2"]).lacks(options)

    def start(self, options: Mapping[str, str]) -> None:
        self.check(options)
        self.stop()
        self._is_started = True
        try:
            self._run("ip", "link", "add", "bridge", "up", "type", "bridge", "mcast_snooping", "0")
            for link in self._wiring.links:
                self._run("ip", "link", "set", link.device.interface, "master", "bridge")
                learning = options.get("learning", "on")
                self._run("bridge", "link", "set", "dev", link.device.interface, "learning", learning)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        if self._is_started:
            self._is_started = False
            with contextlib.suppress(TestbedError):  # it was never created
                self._run("ip", "link", "delete", "bridge")

    def busy_processes(self) -> Sequence[int]:
        return []  # the kernel works in the process that sends

    def counters(self) -> Counters:
        return {"hosts": self._run("bridge", "fdb", "show", "br", "bridge").count("\n")}

    def _run(self, *command: str) -> str:
        return run(self._wiring.at_device(command))

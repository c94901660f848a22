"""Driver of the XDP traffic generator."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace

from typing_extensions import override

from perftrend import console, errors
from perftrend.measure.embedded.drivers import EmbeddedGenerator, embedded_version
from perftrend.measure.interfaces import Node, Wiring
from perftrend.measure.traffic import USUAL_LONGEST, TrafficProfile
from perftrend.measure.wiring import VethPairs, run


class XdpGenerator(EmbeddedGenerator):
    """The traffic generator of :mod:`perftrend.measure.xdp.generator`.

    It needs veth pairs, root and a kernel with XDP live frames (Linux 5.18). Without them, it is the embedded
    generator, and :attr:`fallback` has the reason. It has no options.
    """

    def __init__(self, wiring: Wiring, node: Node, options: Mapping[str, str]) -> None:
        if options:
            raise errors.SettingsError(
                f"the generator xdp has no options, but the testbed sets {next(iter(options))!r}"
            )
        super().__init__(wiring, node, {})
        self.fallback = ""
        """Why frames are sent through sockets instead; empty if they are not."""

    @override
    def open(self) -> None:
        try:
            self._enable_napi()
            interfaces = [link.generator.interface for link in self._wiring.links]
            self._start("perftrend.measure.xdp.generator", interfaces)
            self.fallback = ""
            self.version = f"{embedded_version()} xdp"
        except errors.TestbedError as error:
            self.fallback = str(error)
            self.version = embedded_version()
            console.warn(
                f"the generator xdp cannot be used here ({self.fallback}); sending through sockets instead"
            )
            super().open()

    @override
    def lacks(self, traffic: TrafficProfile) -> str:
        if self.fallback:
            return super().lacks(traffic)
        # The kernel sends what fits into a page, and the device's port accepts no more with its usual MTU.
        if (longest := max(traffic.frame.sizes)) > USUAL_LONGEST:
            return f"frames of {longest} bytes (the generator xdp sends up to {USUAL_LONGEST})"
        # The program makes the flows, so that their number is of no importance.
        return super().lacks(replace(traffic, flow_count=1))

    def _enable_napi(self) -> None:
        """Make the device's ports accept XDP frames. :raises TestbedError: if they cannot."""
        if not isinstance(self._wiring, VethPairs):
            raise errors.TestbedError("it needs the wiring veth")
        if not shutil.which("ethtool"):
            raise errors.TestbedError("the program ethtool is missing (Debian: apt-get install ethtool)")
        for link in self._wiring.links:
            command = ["ethtool", "-K", link.device.interface, "gro", "on"]
            run(self._wiring.at_node(link.device_node, command))

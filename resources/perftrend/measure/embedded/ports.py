"""Ports of the generator and the device by name: packet sockets on a link, or UDP on loopback.

A port name fits on a command line: ``packet:INTERFACE``, ``queued:INTERFACE`` (the same, behind the
interface's queueing discipline) or ``udp:ADDRESS:PORT:PEER_PORT``. The generator sends prepared frames and
reads the number of returned frames from the kernel. The device forwards frames from the memory where the
kernel stored them.
"""

from __future__ import annotations

from perftrend import errors
from perftrend.measure.embedded.packet_ports import PacketGeneratorPort, PacketRing
from perftrend.measure.embedded.port import DevicePort, GeneratorPort
from perftrend.measure.embedded.udp_ports import UdpGeneratorPort, UdpQueues


def generator_port(name: str) -> GeneratorPort:
    """Open a port of the generator by its name."""
    kind, _, rest = name.partition(":")
    if kind in ("packet", "queued"):
        return PacketGeneratorPort(rest, queued=kind == "queued")
    return UdpGeneratorPort(*_endpoint(name))


def device_port(name: str) -> DevicePort:
    """Open a port of the device by its name."""
    kind, _, rest = name.partition(":")
    return PacketRing(rest) if kind == "packet" else UdpQueues(*_endpoint(name))


def _endpoint(name: str) -> tuple[str, int, int]:
    try:
        kind, address, port, peer = name.split(":")
        if kind != "udp":
            raise ValueError
        return address, int(port), int(peer)
    except ValueError:
        raise errors.TestbedError(
            f"port {name!r}: write packet:INTERFACE, queued:INTERFACE or udp:ADDRESS:PORT:PEER_PORT"
        ) from None

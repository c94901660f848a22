"""Addresses of the embedded testbeds: two hosts of the generator, one behind each port of the device."""

from __future__ import annotations

from perftrend.measure.embedded.frames import FrameDirection

NETWORKS = (0x0A0A0000, 0x0A140000)
"""10.10.0.0/16 is behind port 0, 10.20.0.0/16 behind port 1."""


def host_mac(port: int) -> bytes:
    """Return the MAC address of the generator's host behind a port.

    It differs from the address of the generator's interface: the kernel there counts a frame for a
    foreign address and drops it at once, which costs the device's core the least.
    """
    return bytes((0x02, 0, 0, 0, 0x0A, port))


def device_mac(port: int) -> bytes:
    """Return the MAC address of the device's port."""
    return bytes((0x02, 0, 0, 0, 0x0D, port))


def generator_mac(port: int) -> bytes:
    """Return the MAC address of the generator's interface at a port."""
    return bytes((0x02, 0, 0, 0, 0x0C, port))


def direction(port: int, *, bridged: bool) -> FrameDirection:
    """Return the addresses of the traffic that the generator sends into a port, towards the other."""
    other = 1 - port
    return FrameDirection(
        source_mac=host_mac(port),
        destination_mac=host_mac(other) if bridged else device_mac(port),
        source_network=NETWORKS[port],
        destination_network=NETWORKS[other],
    )

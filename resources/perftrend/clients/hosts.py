"""Location of a host: on this machine, in a private network, or in public."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from typing import Final, TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


def is_here(host: str) -> bool:
    """Return whether a host is this machine: ``localhost`` or a loopback address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_public(host: str) -> bool:
    """Return whether all addresses of a host are public: neither this machine's nor of a private network.

    False if the host does not resolve.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    addresses = {str(address[0]).partition("%")[0] for *_, address in found}
    return bool(addresses) and all(may_reach(ipaddress.ip_address(each), ()) for each in addresses)


def may_reach(address: Address, allowed: Sequence[Network]) -> bool:
    """Return whether an address is public, or in one of the networks."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return may_reach(inner, allowed)
    if any(address in network for network in allowed if network.version == address.version):
        return True
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)

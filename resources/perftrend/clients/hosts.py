"""Where a host is: on this machine, in a private network, or in public."""

from __future__ import annotations

import ipaddress
import socket


def is_here(host: str) -> bool:
    """Tell whether a host, by its name or address, is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_public(host: str) -> bool:
    """Tell whether all addresses of a host are public: neither this machine's nor of a private network.

    A host that has no address is not.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    addresses = {str(address[0]).partition("%")[0] for *_, address in found}
    return bool(addresses) and all(ipaddress.ip_address(each).is_global for each in addresses)

"""Where a host is: what never leaves this machine needs no encryption."""

from __future__ import annotations

import ipaddress


def is_here(host: str) -> bool:
    """Tell whether a host, by its name or address, is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

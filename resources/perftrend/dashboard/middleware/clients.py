"""The address of the client of a request, behind trusted proxies.

A proxy appends the address of its own client to ``X-Forwarded-For``. A client can forge all entries before
that one, so the list is read from its end, while the entries are trusted proxies.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from starlette.datastructures import Headers
from starlette.types import Scope

from perftrend.errors import SettingsError

_UNKNOWN = "unknown"
_WIDEST_PREFIX = {4: 8, 6: 7}
"""Least length of the prefix of a trusted network, by IP version: that of the widest private networks."""
_SITE_BITS = 64
"""Length of the IPv6 prefix that a customer is assigned; the customer chooses the remaining bits."""


class Clients:
    """The rules by which clients are identified.

    :param proxies: addresses and networks of the trusted proxies.
    :raises SettingsError: if one is not a valid address or network, or a large part of the Internet.
    """

    def __init__(self, proxies: Iterable[str]) -> None:
        try:
            self._proxies = tuple(ip_network(word) for word in proxies)
        except ValueError as error:
            raise SettingsError(
                f"dashboard.proxies: {error}; write addresses or networks such as 10.1.2.3 or 10.1.2.0/24"
            ) from None
        for network in self._proxies:
            if network.prefixlen < _WIDEST_PREFIX[network.version]:
                raise SettingsError(
                    f"dashboard.proxies: {network} would let every client name its own address and user; "
                    "name the addresses of your proxies"
                )

    def of(self, scope: Scope) -> str:
        """Return the address that a request comes from."""
        peer = (scope.get("client") or (_UNKNOWN, 0))[0]
        address = _read(peer)
        if address is None:
            return str(peer)
        if self._proxies:
            named = ",".join(Headers(scope=scope).getlist("x-forwarded-for")).split(",")
            while named and self._is_proxy(address):
                before = _read(named.pop())
                if before is None:
                    break
                address = before
        return str(address)

    def are_behind(self, scope: Scope) -> bool:
        """Return whether a request comes directly from a trusted proxy."""
        address = _read((scope.get("client") or (_UNKNOWN, 0))[0])
        return address is not None and self._is_proxy(address)

    def _is_proxy(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._proxies)


def bucket_of(client: str) -> str:
    """Return what counts as one client: the /64 network of an IPv6 address, otherwise the client itself."""
    address = _read(client)
    if isinstance(address, IPv6Address):
        return str(ip_network((address, _SITE_BITS), strict=False))
    return client


def is_loopback(client: str) -> bool:
    """Return whether a client is on this machine; False for a Unix socket, which has no address."""
    address = _read(client)
    return address is not None and address.is_loopback


def _read(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text.strip())
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address

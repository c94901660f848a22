"""The address of a client is read from trusted proxies only."""

from __future__ import annotations

import pytest

from perftrend.dashboard.middleware.rate_limit import Clients, bucket_of, is_loopback
from perftrend.errors import SettingsError


def scope(peer: str, *forwarded: str) -> dict[str, object]:
    headers = [(b"x-forwarded-for", each.encode()) for each in forwarded]
    return {"type": "http", "client": (peer, 1234), "headers": headers}


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("198.51.100.7", (), "198.51.100.7"),
        # Somebody who is no proxy says what they like.
        ("198.51.100.7", ("203.0.113.9",), "198.51.100.7"),
        ("10.0.0.1", ("203.0.113.9",), "203.0.113.9"),
        # What stood there before the first proxy of ours is not believed.
        ("10.0.0.1", ("192.0.2.1, 203.0.113.9",), "203.0.113.9"),
        ("10.0.0.1", ("192.0.2.1, 203.0.113.9, 10.0.0.2",), "203.0.113.9"),
        ("10.0.0.1", ("192.0.2.1", "203.0.113.9"), "203.0.113.9"),
        ("10.0.0.1", ("10.0.0.2",), "10.0.0.2"),
        ("10.0.0.1", ("nonsense",), "10.0.0.1"),
        ("10.0.0.1", ("203.0.113.9, nonsense, 10.0.0.2",), "10.0.0.2"),
        ("10.0.0.1", (), "10.0.0.1"),
        ("::ffff:10.0.0.1", ("203.0.113.9",), "203.0.113.9"),
        ("testclient", ("203.0.113.9",), "testclient"),
    ],
)
def test_address_of_a_client(peer: str, forwarded: tuple[str, ...], client: str) -> None:
    assert client == Clients(["10.0.0.0/24"]).of(scope(peer, *forwarded))


def test_nobody_is_believed_where_no_proxy_is_named() -> None:
    assert "10.0.0.1" == Clients([]).of(scope("10.0.0.1", "203.0.113.9"))


def test_addresses_of_one_customer_are_one_client() -> None:
    assert bucket_of("2001:db8:1:2::3") == bucket_of("2001:db8:1:2:ffff::9")
    assert bucket_of("2001:db8:1:2::3") != bucket_of("2001:db8:1:3::3")
    assert "192.0.2.1" == bucket_of("192.0.2.1")


@pytest.mark.parametrize(
    ("client", "is_here"),
    [("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("::ffff:127.0.0.1", True), ("10.0.0.1", False),
     ("", False), ("localhost", False)],
)  # fmt: skip
def test_who_sits_at_this_machine(client: str, is_here: bool) -> None:
    assert is_here == is_loopback(client)


def test_proxy_that_is_no_address_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"dashboard\.proxies: .*'proxy\.example\.org'"):
        Clients(["proxy.example.org"])


@pytest.mark.parametrize("network", ["0.0.0.0/0", "128.0.0.0/1", "::/0", "2000::/3"])
def test_proxies_are_not_the_whole_internet(network: str) -> None:
    with pytest.raises(SettingsError, match=f"{network} would let every client name its own address"):
        Clients(["127.0.0.1", network])


def test_proxies_may_be_any_private_network() -> None:
    proxies = Clients(["10.0.0.0/8", "fc00::/7"])

    assert proxies.are_behind(scope("fd00::1"))
    assert not proxies.are_behind(scope("11.0.0.1"))

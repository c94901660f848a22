"""The names and addresses of this machine, and which addresses are public."""

from __future__ import annotations

import pytest

from perftrend.clients.http_session import is_here, is_public


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "::1"])
def test_this_machine_is_here(host: str) -> None:
    assert is_here(host)


@pytest.mark.parametrize("host", ["", "localhost.example", "192.0.2.1", "::2", "127.0.0.1.example"])
def test_others_are_not(host: str) -> None:
    assert not is_here(host)


@pytest.mark.parametrize("host", ["8.8.8.8", "2001:4860:4860::8888"])
def test_public_address_is_public(host: str) -> None:
    assert is_public(host)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "10.1.2.3", "192.168.0.1", "169.254.169.254", "100.64.0.1", "::1", "fd00::1", "fe80::1",
     "::ffff:10.0.0.1", "localhost", "a" * 300],
)  # fmt: skip
def test_inside_is_not_public(host: str) -> None:
    assert not is_public(host)

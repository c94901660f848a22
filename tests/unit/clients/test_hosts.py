"""This machine is known by its names and addresses."""

from __future__ import annotations

import pytest

from perftrend.clients.hosts import is_here


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "::1"])
def test_this_machine_is_here(host: str) -> None:
    assert is_here(host)


@pytest.mark.parametrize("host", ["", "localhost.example", "192.0.2.1", "::2", "127.0.0.1.example"])
def test_others_are_not(host: str) -> None:
    assert not is_here(host)

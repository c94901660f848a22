"""The addresses at which the dashboard is served."""

from __future__ import annotations

import re

import pytest

from perftrend.dashboard.server import bound, url_of
from perftrend.errors import ServiceError, SettingsError
from perftrend.settings import DashboardSettings


def test_port_0_is_a_free_one() -> None:
    with bound(DashboardSettings(address="127.0.0.1:0")) as listening:
        assert re.fullmatch(r"http://127\.0\.0\.1:[1-9]\d*/", url_of(listening))


def test_address_in_use_is_told() -> None:
    with bound(DashboardSettings(address="127.0.0.1:0")) as listening:
        port = listening.getsockname()[1]
        taken = DashboardSettings(address=f"127.0.0.1:{port}")

        with (
            pytest.raises(ServiceError, match=rf"127\.0\.0\.1:{port}; the dashboard cannot listen there"),
            bound(taken),
        ):
            pass


def test_port_that_is_none_is_told() -> None:
    with (
        pytest.raises(SettingsError, match="port should be from 0 to 65535"),
        bound(DashboardSettings(address="127.0.0.1:65536")),
    ):
        pass


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_others_cannot_reach_it_where_nobody_can_sign_in(address: str) -> None:
    with (
        pytest.raises(SettingsError, match="users cannot sign in"),
        bound(DashboardSettings(address=address)),
    ):
        pass


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_others_can_reach_it_where_it_is_said_that_all_may_read(address: str) -> None:
    with bound(DashboardSettings(address=address, public=True)) as listening:
        assert url_of(listening).startswith("http://localhost:")


def test_refusal_says_each_way_to_let_others_in() -> None:
    with pytest.raises(SettingsError) as told, bound(DashboardSettings(address="0.0.0.0:0")):
        pass

    for name in ("dashboard.public", "dashboard.oidc_issuer", "dashboard.user_header", "127.0.0.1"):
        assert name in str(told.value)


def test_others_can_reach_it_where_people_sign_in() -> None:
    settings = DashboardSettings(address="0.0.0.0:0", user_header="X-Forwarded-User", proxies=("10.0.0.1",))
    with bound(settings) as listening:
        assert url_of(listening).startswith("http://localhost:")

from __future__ import annotations

import os
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.errors import SettingsError, TestbedError
from perftrend.measure.interfaces import Node
from perftrend.measure.kernel import KernelDevice
from perftrend.measure.wiring import Loopback, VethPairs


@pytest.fixture
def device() -> KernelDevice:
    return KernelDevice(VethPairs(), Node())


@pytest.mark.parametrize(
    "options",
    [{}, {"forwarding": "l2"}, {"forwarding": "ip4", "acl_rules": "0", "base_rules": "10000"}],
)
def test_options_of_the_device_are_taken(device: KernelDevice, options: dict[str, str]) -> None:
    device.check(options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"acl_rulez": "1"}, "no option 'acl_rulez'; did you mean 'acl_rules'"),
        ({"burst": "8"}, "no option 'burst'"),
        ({"forwarding": "l3"}, "forwarding='l3'; known are ip4, ip6, l2, l2xc"),
        ({"acl_rules": "10001"}, "acl_rules='10001': write a number from 0 to 10000"),
        ({"acl_rules": "-1"}, "acl_rules='-1'"),
        ({"acl_rules": "٣"}, "acl_rules='٣'"),
        ({"base_rules": "1 } table ip x {"}, "base_rules='1 } table"),
        ({"base_rules": "$(reboot)"}, "base_rules="),
    ],
)
def test_option_that_cannot_be_used_is_named(
    device: KernelDevice, options: dict[str, str], told: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        device.check(options)

    assert told in str(refused.value)


@given(st.text())
def test_value_is_taken_only_as_plain_digits(value: str) -> None:
    try:
        KernelDevice(Loopback(), Node()).check({"acl_rules": value})
    except SettingsError:
        return
    assert value.strip("0123456789") == ""


def test_without_root_it_cannot_be_had(device: KernelDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert "needs root" in device.unusable()
    with pytest.raises(TestbedError, match="needs root"):
        device.start({})


@pytest.mark.parametrize(("missing", "package"), [("nft", "nftables"), ("tc", "iproute2")])
def test_missing_program_is_named_with_its_package(
    device: KernelDevice, missing: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda program: None if program == missing else f"/sbin/{program}")

    assert f"the program {missing} is missing (Debian: apt-get install {package})" == device.unusable()


def test_device_without_interfaces_cannot_be_had() -> None:
    assert "with the interface of the device's ports" in KernelDevice(Loopback(), Node()).unusable()


def test_stopping_what_never_started_touches_nothing(
    device: KernelDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perftrend.measure.kernel.run", lambda *_: pytest.fail("a command was run"))

    device.stop()

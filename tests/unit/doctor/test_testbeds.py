"""The testbed's file, programs and locks are checked without opening the testbed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from perftrend.doctor import testbeds
from perftrend.doctor.check_results import Area, CheckResult, Severity
from perftrend.errors import TestbedError
from perftrend.measure import lock, specification
from perftrend.settings import Settings


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lock, "FOLDER", tmp_path)
    return tmp_path


def check(**settings: object) -> dict[str, CheckResult]:
    return {found.what: found for found in testbeds.check_testbed(Settings.model_validate(settings))}


def test_simulated_testbed_is_usable_by_everyone() -> None:
    found = check(testbed="simulated")

    assert Severity.OK is found["simulated"].severity
    assert "not in use" == found["simulated lock"].text


def test_holder_of_the_lock_is_named_and_undisturbed(folder: Path) -> None:
    with lock.hold("simulated", owner="perftrend-trending/7"):
        found = check(testbed="simulated")["simulated lock"]

        assert ["perftrend-simulated.0.lock"] == [each.name for each in folder.iterdir()]
    assert Severity.OK is found.severity
    assert f"in use by perftrend-trending/7 (process {os.getpid()}); other jobs wait for it" == found.text


def test_check_leaves_no_lock_behind(folder: Path) -> None:
    check(testbed="simulated")

    assert [] == [each.name for each in folder.iterdir()]


def test_lock_that_is_a_symbolic_link_is_a_fault(folder: Path) -> None:
    (folder / "perftrend-simulated.0.lock").symlink_to("/etc/passwd")

    found = check(testbed="simulated")["simulated lock"]

    assert Severity.FAULT is found.severity
    assert found.fix.endswith(f"rm {folder}/perftrend-simulated.0.lock")


LAB = """
description: a lab
nodes:
  tg: {{options: {{host: 127.0.0.1, port: "1"}}}}
  dut: {{cpu: {cpu}, options: {{host: 127.0.0.1, port: "1"}}}}
wiring: {{driver: {wiring}}}
links: [{{tg: {{speed: 10G}}, dut: {{interface: eth1, numa: 0}}}}]
generator: {{driver: embedded}}
device: {{driver: embedded}}
driver_tag: LAB
"""


def test_core_on_another_numa_node_than_the_port_is_a_warning(folder: Path) -> None:
    """By the kernel of this machine, which has fewer cores."""
    (folder / "lab.yaml").write_text(LAB.format(cpu=9000, wiring="none"))

    found = check(testbed="lab", testbeds=folder)["lab cores"]

    assert Severity.WARNING is found.severity
    assert "core 9000 of node dut is on another NUMA node than its port eth1" == found.text
    assert "choose one of the cores 0" in found.fix


def test_machine_that_cannot_be_reached_is_named(folder: Path) -> None:
    (folder / "lab.yaml").write_text(LAB.format(cpu=1, wiring="ssh"))

    found = check(testbed="lab", testbeds=folder)["lab cores"]

    assert Severity.NOT_CHECKED is found.severity
    assert found.text.startswith("node tg: ")


def test_unknown_testbed_is_a_fault_with_the_nearest() -> None:
    found = check(testbed="1n-vet")["1n-vet"]

    assert Severity.FAULT is found.severity
    assert "did you mean '1n-veth'?" in found.text


def test_wrong_option_of_the_device_is_a_fault() -> None:
    assert Severity.FAULT is check(testbed="simulated", device_options={"kind": "x"})["simulated"].severity


def test_driver_of_a_broken_package_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        raise ImportError("No module named 'trex'")

    monkeypatch.setattr(specification, "driver", broken)

    found = check(testbed="simulated")["simulated"]

    assert Severity.FAULT is found.severity
    assert "No module named 'trex'" in found.text


def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    found = check(testbed="1n-veth", gerrit={"url": "https://review.example.org"})

    assert "nft, ethtool for 1n-kernel and 1n-xdp" in found["programs"].text
    assert found["programs"].fix.endswith(
        "apt-get install -y ethtool git iproute2 nftables openssh-client util-linux"
    )
    assert found["1n-veth"].text.endswith("1n-loopback is used instead")
    assert (Severity.WARNING, Area.TESTBED) == (found["1n-veth"].severity, found["1n-veth"].area)


@pytest.mark.parametrize(
    ("name", "value", "setting"),
    [
        ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
    ],
)
def test_kernel_that_refuses_namespaces_can_be_set(
    tmp_path: Path, name: str, value: str, setting: str
) -> None:
    parameter = tmp_path / "sys" / name
    parameter.parent.mkdir(parents=True)
    parameter.write_text(f"{value}\n")

    fix = testbeds.find_fix("no network namespace: unshare failed: Operation not permitted", tmp_path)

    assert fix.endswith(f"sysctl -w {setting}")


def test_container_needs_capabilities(tmp_path: Path) -> None:
    assert "--cap-add=SYS_ADMIN" in testbeds.find_fix("no network namespace: refused", tmp_path)


def test_only_testbeds_on_this_machine_are_disturbed_by_load() -> None:
    tolerant = [name for name in ("1n-veth", "1n-kernel", "simulated", "unknown")
                if testbeds.tolerates_load(Settings(testbed=name))]  # fmt: skip

    assert ["simulated"] == tolerant


@pytest.mark.parametrize(
    ("reason", "trusted", "severity", "fix"),
    [
        ("", False, Severity.OK, ""),
        (
            "this machine does not permit namespaces",
            False,
            Severity.WARNING,
            "bubblewrap|project.trusted to true",
        ),
        ("", True, Severity.WARNING, "set project.trusted to false"),
    ],
)
def test_sandbox_of_changes_under_review_is_checked(
    reason: str, trusted: bool, severity: Severity, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_launcher() -> str:
        if reason:
            raise TestbedError(reason)
        return "unshare"

    monkeypatch.setattr("perftrend.sandbox.find_launcher", find_launcher)

    found = check(testbed="simulated", project={"trusted": trusted})["sandbox"]

    assert severity is found.severity
    assert re.search(fix, found.fix)
    assert reason in found.text

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.errors import SettingsError, TestbedError
from perftrend.measure.embedded import drivers
from perftrend.measure.embedded.drivers import EmbeddedDevice, EmbeddedGenerator, embedded_version
from perftrend.measure.embedded.generator import Count
from perftrend.measure.interfaces import Node
from perftrend.measure.kernel import KernelDevice
from perftrend.measure.traffic import TrafficProfile
from perftrend.measure.wiring import Loopback, VethPairs
from perftrend.measurement import GeneratorHealth

HOSTILE = [
    "$(reboot)",
    "20; reboot",
    "20 --cpu 0",
    "--help",
    "-1",
    "0x10",
    "1e3",
    " 20",
    "20\n",
    "²",
    "٣",
    "",
    "\0",
]


class Worker:
    """Stands in for a child process: keeps the command, gives the answers that it is told."""

    def __init__(self, name: str, command: list[str], *, is_confined: bool = False) -> None:
        self.command = command
        self.is_confined = is_confined
        self.pid = 42
        self.answers: list[dict[str, Any]] = []
        self.closed = False
        Worker.last = self

    last: Worker

    def request(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        return self.answers.pop(0)

    def close(self) -> None:
        self.closed = True


class WithOwnNetwork(Loopback):
    """Stands in for namespaces, which need privileges."""

    has_own_network = True


@pytest.fixture(autouse=True)
def workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "WorkerProcess", Worker)


@pytest.fixture
def device() -> EmbeddedDevice:
    return EmbeddedDevice(Loopback(), Node(cpu=1))


@pytest.fixture
def generator() -> EmbeddedGenerator:
    opened = EmbeddedGenerator(Loopback(), Node(cpu=0), {})
    opened.open()
    return opened


def count(**changes: Any) -> dict[str, Any]:
    """Give what a trial of 10,000 frames in a second counted."""
    usual = Count(
        planned=10_000, sent=10_000, received=10_000, refused=0, sending_s=1.0, elapsed_s=1.1,
        sent_each=[5_000, 5_000], received_each=[5_000, 5_000], load=0.25, core_share=0.99,
    )  # fmt: skip
    return {**asdict(usual), **changes}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"forwarding": "ip4"},
        {"forwarding": "l2", "burst": "512"},
        {"acl_rules": "0", "burst": "1"},
        {"acl_rules": "10000"},
    ],
)
def test_options_of_the_device_are_taken(device: EmbeddedDevice, options: dict[str, str]) -> None:
    device.check(options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"acl_rulez": "1"}, "no option 'acl_rulez'; did you mean 'acl_rules'"),
        ({"cpu": "1"}, "no option 'cpu'"),
        ({"forwarding": "l3"}, "forwarding='l3'; known are ip4, ip6, l2, l2xc"),
        ({"acl_rules": "10001"}, "acl_rules='10001': write a number from 0 to 10000"),
        ({"burst": "0"}, "burst='0': write a number from 1 to 512"),
    ],
)
def test_option_that_cannot_be_used_is_named(
    device: EmbeddedDevice, options: dict[str, str], told: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        device.check(options)

    assert told in str(refused.value)


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("name", ["acl_rules", "burst", "forwarding"])
def test_hostile_value_is_refused(device: EmbeddedDevice, name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"device option {name}="):
        device.check({name: value})


@pytest.mark.parametrize("name", [*HOSTILE, "ports", "Acl_Rules"])
def test_hostile_name_is_refused(device: EmbeddedDevice, name: str) -> None:
    with pytest.raises(SettingsError, match="the device has no option"):
        device.check({name: "1"})


@given(st.text())
def test_value_is_taken_only_as_plain_digits(value: str) -> None:
    try:
        EmbeddedDevice(Loopback(), Node()).check({"acl_rules": value})
    except SettingsError:
        return
    assert value.strip("0123456789") == ""


def test_device_is_started_by_an_argument_list(device: EmbeddedDevice) -> None:
    device.start({"forwarding": "ip4", "acl_rules": "20"})

    command = Worker.last.command
    assert ["--acl-rules", "20"] == command[command.index("--acl-rules") :]
    assert ["--cpu", "1"] == command[command.index("--cpu") :][:2]
    assert not {"sh", "bash", "-c"} & set(command)


def test_device_is_checked_before_it_is_started(device: EmbeddedDevice) -> None:
    with pytest.raises(SettingsError):
        device.start({"acl_rules": "20;reboot"})

    assert [] == list(device.busy_processes())


def test_program_takes_the_routers_place(device: EmbeddedDevice, tmp_path: Path) -> None:
    program = tmp_path / "router.pyz"
    program.write_text("")

    device.start({"acl_rules": "20", "program": str(program), "version": "1" * 40})

    command = Worker.last.command
    begin = command.index(sys.executable)
    assert [str(program), "--ports"] == command[begin + 1 :][:2]
    assert ["--acl-rules", "20"] == command[-2:]
    assert not {"--program", "--version", "-m"} & set(command)
    assert "1" * 40 == device.version


def test_isolated_program_runs_in_a_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perftrend.sandbox.find_launcher", lambda: "bubblewrap")
    device = EmbeddedDevice(WithOwnNetwork(), Node(cpu=1))
    program = tmp_path / "router.pyz"
    program.write_text("")

    device.start({"program": str(program), "isolated": "yes"})

    words = Worker.last.command
    assert words.index("bwrap") < words.index(str(program))
    assert ["--cap-drop", "ALL"] == words[words.index("--cap-drop") :][:2]
    assert ["CAP_NET_RAW"] == [word for word in words if word.startswith("CAP_")]
    assert "--isolated" not in words
    assert Worker.last.is_confined


def test_router_of_this_package_needs_no_sandbox() -> None:
    EmbeddedDevice(WithOwnNetwork(), Node(cpu=1)).start({"isolated": "yes"})

    assert not Worker.last.is_confined
    assert "bwrap" not in Worker.last.command


def test_program_is_not_isolated_where_it_could_use_the_network(device: EmbeddedDevice) -> None:
    with pytest.raises(SettingsError, match="could use the machine's network; choose a testbed with network"):
        device.check({"isolated": "yes"})


def test_device_without_a_program_is_this_packages_again(device: EmbeddedDevice) -> None:
    device.start({"version": "mine"})
    device.start({})

    assert embedded_version() == device.version
    assert "perftrend.measure.embedded.router" in Worker.last.command


@pytest.mark.parametrize("value", ["", "/nowhere/router.pyz", "/", "--help", "\0", "x" * 5000])
def test_program_that_is_no_file_is_refused(device: EmbeddedDevice, value: str) -> None:
    with pytest.raises(SettingsError, match=r"device option program=.* is not a file; give its path"):
        device.check({"program": value})


@pytest.mark.parametrize(
    "value", [*(each for each in HOSTILE if each not in ("0x10", "1e3")), "a b", "x" * 65]
)
def test_version_that_is_no_word_is_refused(device: EmbeddedDevice, value: str) -> None:
    with pytest.raises(SettingsError, match=r"device option version=.*: write a commit or a short word"):
        device.check({"version": value})


def test_second_start_ends_the_first_device(device: EmbeddedDevice) -> None:
    device.start({})
    first = Worker.last
    device.start({})

    assert first.closed
    assert not Worker.last.closed


def test_device_without_a_core_is_not_pinned() -> None:
    EmbeddedDevice(Loopback(), Node()).start({})

    assert "--cpu" not in Worker.last.command


def test_stopped_device_has_no_process_and_no_counters(device: EmbeddedDevice) -> None:
    device.start({})
    device.stop()
    device.stop()

    assert ([], {}) == (list(device.busy_processes()), device.counters())


def test_unknown_option_of_the_generator_is_named() -> None:
    with pytest.raises(SettingsError, match="no option 'queuing'; did you mean 'queueing'"):
        EmbeddedGenerator(Loopback(), Node(), {"queuing": "yes"})


def test_generator_that_is_not_open_says_so() -> None:
    with pytest.raises(TestbedError, match="open the testbed first"):
        EmbeddedGenerator(Loopback(), Node(), {}).use(TrafficProfile.parse("64B", {}))


def test_trial_is_told_as_it_was_counted(generator: EmbeddedGenerator) -> None:
    Worker.last.answers = [count(received=9_000, sending_s=1.25)]

    trial = generator.trial(10_000, 1.0, None)

    assert (10_000, 9_000, 1.1, "") == (trial.sent, trial.received, trial.elapsed_s, trial.invalid)
    assert (4_000, 4_000) == trial.sent_each_pps
    assert 7_200 == trial.receive_rate_pps


def test_trial_has_the_health_of_the_generator(generator: EmbeddedGenerator) -> None:
    Worker.last.answers = [count(refused=7)]

    trial = generator.trial(10_000, 1.0, None)

    assert (0, (0, 0)) == (trial.unsent, trial.unsent_each)
    assert GeneratorHealth(load=0.25, core_share=0.99, queue_full=7) == trial.generator_health


def test_trial_that_received_more_than_was_sent_cannot_be_trusted(generator: EmbeddedGenerator) -> None:
    Worker.last.answers = [count(received=10_001)]

    told = "received 10001 of 10000 frames sent: frames leaked into the trial"
    assert told == generator.trial(10_000, 1.0, None).invalid


def test_trial_that_ended_early_for_a_mere_delay_is_made_again_to_its_end(
    generator: EmbeddedGenerator,
) -> None:
    ended_early = count(sent=4000, received=4000, sending_s=0.4, elapsed_s=0.5, unproven=True)
    Worker.last.answers = [ended_early, count(elapsed_s=1.1)]

    trial = generator.trial(10_000, 1.0, 0.0)

    assert (10_000, 10_000, "") == (trial.sent, trial.received, trial.invalid)
    assert 1.6 == pytest.approx(trial.elapsed_s)
    assert [] == Worker.last.answers


def test_highest_rate_is_a_little_below_that_of_a_flood(generator: EmbeddedGenerator) -> None:
    Worker.last.answers = [count(sending_s=0.1)]

    assert 90_000 == pytest.approx(generator.highest_pps())


def test_counters_add_up_over_all_trials_and_floods(generator: EmbeddedGenerator) -> None:
    Worker.last.answers = [count(refused=5, received=9_000) for _ in range(2)]
    generator.highest_pps()
    generator.trial(10_000, 1.0, None)

    assert {"sent": 20_000, "received": 18_000, "refused": 10} == generator.counters()


def test_queueing_sends_through_the_interfaces_queue() -> None:
    class Veth(Loopback):
        """Has the names of packet ports; nothing is opened."""

        def __init__(self) -> None:
            super().__init__()
            self.generator_ports = ["packet:tg0", "packet:tg1"]

    EmbeddedGenerator(Veth(), Node(), {"queueing": "yes"}).open()

    command = Worker.last.command
    assert ["queued:tg0", "queued:tg1"] == command[command.index("--ports") + 1 :][:2]


def test_version_names_this_very_state_of_the_code() -> None:
    assert embedded_version()
    assert not embedded_version().isspace()


def test_version_is_the_packages_where_git_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    embedded_version.cache_clear()

    assert drivers.perftrend.__version__ == embedded_version()
    embedded_version.cache_clear()


@pytest.mark.parametrize("driver", [EmbeddedDevice, KernelDevice])
def test_access_list_that_a_user_sets_for_all_tests_skips_no_bridge(
    driver: type[EmbeddedDevice | KernelDevice],
) -> None:
    assert "" == driver(VethPairs(), Node()).lacks({"forwarding": "l2", "acl_rules": "60"})


def test_embedded_device_does_not_support_vlans() -> None:
    lacks = EmbeddedDevice(VethPairs(), Node()).lacks

    assert "the embedded device does not support vlan=7,8 for forwarding=l2xc" == lacks(
        {"forwarding": "l2xc", "vlan": "7,8"}
    )


def test_router_gets_room_for_long_frames_only_if_there_are_any(device: EmbeddedDevice) -> None:
    device.start({"frame_bytes": "9000"})
    with_long_frames = Worker.last.command
    device.start({})

    assert ["--frame-bytes", "9000"] == with_long_frames[-2:]
    assert "--frame-bytes" not in Worker.last.command
    assert "" == device.lacks({"frame_bytes": "9000"})

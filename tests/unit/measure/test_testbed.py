from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from perftrend import errors
from perftrend.errors import SettingsError
from perftrend.measure import specification
from perftrend.measure.interfaces import Link, Node, Port
from perftrend.measure.specification import DriverFile, LinkFile, NodeFile, Specification
from perftrend.measure.testbed import Testbed
from perftrend.measure.traffic import TrafficProfile

STORY: list[str] = []
"""What the doubles below were asked, in order."""


class Wiring:
    """Stands in for a wiring: writes down what happens to it, and fails when it is told to."""

    generator_ports = device_ports = links = ()
    reason = ""
    fails = False
    is_remote = False
    remote: ClassVar[set[str]] = set()
    longest = 9000
    frame_bytes = 0

    def __init__(self, nodes: dict[str, Node], links: list[Link], **options: str) -> None:
        del nodes, links, options

    def lock(self, name: str, owner: str, wait_s: float, token: str = "") -> str:
        STORY.append(" ".join(["lock", name, owner, f"{wait_s:g}", *([token] if token else [])]))
        return token or "token"

    def end_left_overs(self) -> None:
        """Nothing is left."""

    def verify_lock(self) -> None:
        STORY.append("wiring verified")

    def is_node_remote(self, node: str) -> bool:
        return node in self.remote or (self.is_remote and not self.remote)

    def unusable(self) -> str:
        return Wiring.reason

    def open(self) -> None:
        STORY.append("wiring open")
        if Wiring.fails:
            raise errors.TestbedError("no cable")

    def close(self) -> None:
        STORY.append("wiring close")

    def lacks(self, frame_bytes: int) -> str:
        return f"no cable for {frame_bytes} bytes" if frame_bytes > Wiring.longest else ""

    def carry(self, frame_bytes: int) -> None:
        self.frame_bytes = frame_bytes


class Generator:
    """Stands in for a traffic generator that reaches 1000 pps."""

    version = "double"
    fails = False

    def __init__(self, wiring: object, node: Node, options: object) -> None:
        del wiring, options
        self.node = node
        self.highest = 900.0

    def open(self) -> None:
        STORY.append("generator open")
        if Generator.fails:
            raise errors.TestbedError("no port")

    def close(self) -> None:
        STORY.append("generator close")

    def lacks(self, traffic: TrafficProfile) -> str:
        return "it sends no tags" if traffic.vlans else ""

    def use(self, traffic: TrafficProfile) -> None:
        STORY.append(f"use {traffic.frame.name} {'bridged' if traffic.is_bridged else 'routed'}")

    def trial(self, rate_pps: float, duration_s: float, fail_above: float | None) -> None:
        STORY.append(f"trial {rate_pps:g} {duration_s:g} {fail_above}")

    def highest_pps(self) -> float:
        return self.highest

    def busy_processes(self) -> list[int]:
        return [1]

    def counters(self) -> dict[str, int]:
        return {"sent": 7}


class Device:
    """Stands in for a device that takes any option but ``acl_rulez``."""

    version = "double"
    fails = False

    def __init__(self, wiring: object, node: Node) -> None:
        del wiring
        self.node = node
        self.options: dict[str, str] = {}

    def unusable(self) -> str:
        return ""

    def check(self, options: dict[str, str]) -> None:
        for name in options:
            if name == "acl_rulez":
                raise SettingsError(f"no option {name!r}{errors.nearest(name, ['acl_rules'])}")

    def lacks(self, options: dict[str, str]) -> str:
        return "it has no access lists" if options.get("acl_rules", "0") != "0" else ""

    def start(self, options: dict[str, str]) -> None:
        STORY.append("device start")
        self.options = dict(options)

    def reconfigure(self, before: dict[str, str], after: dict[str, str]) -> None:
        STORY.append(f"device {before} becomes {after}")

    def verify_running(self) -> None:
        STORY.append("device verified")

    def stop(self) -> None:
        STORY.append("device stop")
        if Device.fails:
            raise errors.TestbedError("does not stop")

    def busy_processes(self) -> list[int]:
        return [2]

    def counters(self) -> dict[str, int]:
        return {"received": 7}

    def begin_trial(self) -> None:
        pass

    def trial_counters(self) -> dict[str, int]:
        return {}


@pytest.fixture(autouse=True)
def doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer for the drivers named ``double``, and for no other."""
    real = specification.driver
    kinds = {"wirings": Wiring, "traffic_generators": Generator, "devices": Device}
    monkeypatch.setattr(
        specification, "driver", lambda group, name: kinds[group] if name == "double" else real(group, name)
    )
    for kind in kinds.values():
        monkeypatch.setattr(kind, "fails", False, raising=False)
    monkeypatch.setattr(Wiring, "reason", "")
    STORY.clear()


def spec(**changes: Any) -> Specification:
    fields: dict[str, Any] = {
        "name": "double",
        "description": "",
        "wiring": DriverFile(driver="double"),
        "generator": DriverFile(driver="double"),
        "device": DriverFile(driver="double"),
        "driver_tag": "DOUBLE",
        "link": LinkFile(pps=800),
    }
    return Specification(**{**fields, **changes})


def test_drivers_learn_which_instance_they_have() -> None:
    nodes = {"tg": NodeFile(cpu=3, options={"user": "perf", "address": "10.0.0.1"})}
    instances = ({}, {"tg": {"address": "10.0.1.1"}, "dut": {"address": "10.0.1.2"}})
    first, second = (Testbed(spec(nodes=nodes, instances=instances), instance=number) for number in range(2))

    assert Node(3, {"user": "perf", "address": "10.0.0.1"}) == first.generator.node  # type: ignore[attr-defined]
    assert Node(None, {}) == first.device.node  # type: ignore[attr-defined]
    assert Node(3, {"user": "perf", "address": "10.0.1.1"}) == second.generator.node  # type: ignore[attr-defined]
    assert Node(None, {"address": "10.0.1.2"}) == second.device.node  # type: ignore[attr-defined]


def test_options_of_a_person_outweigh_the_tests_and_those_outweigh_the_file() -> None:
    file = DriverFile(driver="double", options={"one": "file", "two": "file", "three": "file"})
    testbed = Testbed(spec(device=file), device_options={"three": "person"})

    with testbed:
        testbed.start_device({"two": "test", "three": "test"})

        assert {"one": "file", "two": "test", "three": "person"} == testbed.device.options  # type: ignore[attr-defined]


def test_restart_keeps_the_options() -> None:
    with Testbed(spec()) as testbed:
        testbed.start_device({"acl_rules": "20"})
        testbed.restart_device()

        assert {"acl_rules": "20"} == testbed.device.options  # type: ignore[attr-defined]
        assert ["device start", "device stop", "device start"] == STORY[-3:]


def test_reconfigured_device_is_given_the_options_that_it_runs_with() -> None:
    with Testbed(spec()) as testbed:
        testbed.start_device({"one": "1", "routes": "2"})
        testbed.reconfigure_device({"routes": "5"})
        testbed.reconfigure_device({"routes": "9"})
        testbed.restart_device()
        testbed.reconfigure_device({"routes": "5"})

        steps = [step for step in STORY if "becomes" in step]
        assert [
            "device {'one': '1', 'routes': '2'} becomes {'one': '1', 'routes': '5'}",
            "device {'one': '1', 'routes': '5'} becomes {'one': '1', 'routes': '9'}",
            steps[0],
        ] == steps


def test_unknown_option_is_refused_before_anything_starts() -> None:
    testbed = Testbed(spec(), device_options={"acl_rulez": "60"})

    with pytest.raises(SettingsError, match="did you mean 'acl_rules'"), testbed:
        pass
    assert [] == STORY


def test_testbed_that_cannot_be_had_says_why_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wiring, "reason", "no cable")

    with (
        pytest.raises(errors.TestbedError, match="testbed double cannot be used here: no cable"),
        Testbed(spec()),
    ):
        pass
    assert [] == STORY


def test_wiring_that_fails_leaves_nothing_else_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wiring, "fails", True)

    with pytest.raises(errors.TestbedError, match="no cable"), Testbed(spec()):
        pass
    assert ["wiring open"] == STORY


def test_generator_that_fails_leaves_no_wiring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Generator, "fails", True)

    with pytest.raises(errors.TestbedError, match="no port"), Testbed(spec()):
        pass
    assert ["wiring open", "lock  a job 0", "generator open", "wiring close"] == STORY


def test_job_reserves_a_testbed_and_opens_it_within() -> None:
    testbed = Testbed(spec(), owner="nightly", wait_s=5)
    with testbed.locked() as token, Testbed(spec(), token=token):
        testbed.verify_lock()

    assert ["lock  nightly 5", "wiring open", "lock  a job 0 token", "generator open"] == STORY[:4]
    assert ["wiring verified", "device stop", "generator close", "wiring close", "wiring close"] == STORY[4:]


def test_device_that_does_not_stop_keeps_nothing_else_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Device, "fails", True)

    with pytest.raises(errors.TestbedError, match="does not stop"), Testbed(spec()):
        pass
    assert ["device stop", "generator close", "wiring close"] == STORY[-3:]


def test_error_inside_takes_everything_down() -> None:
    with pytest.raises(ZeroDivisionError), Testbed(spec()):
        raise ZeroDivisionError
    assert ["device stop", "generator close", "wiring close"] == STORY[-3:]


def test_real_drivers_may_be_closed_twice() -> None:
    testbed = Testbed(specification.load("simulated"))
    with testbed:
        testbed.start_device({})

    testbed.__exit__(None, None, None)


def test_processes_of_other_machines_are_not_watched_on_this_one() -> None:
    assert [1, 2] == Testbed(spec())._busy_processes()
    assert [] == Testbed(spec(remote=True))._busy_processes()


def test_wiring_to_other_machines_is_remote_whatever_the_file_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wiring, "is_remote", True)

    assert [] == Testbed(spec())._busy_processes()
    with pytest.raises(SettingsError, match="node dut is remote: write the number of a core of it"):
        Testbed(spec(nodes={"dut": NodeFile(cpu="auto")}))


def test_processes_of_a_node_on_this_machine_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wiring, "remote", {"dut"})

    assert [1] == Testbed(spec())._busy_processes()
    Testbed(spec(nodes={"tg": NodeFile(cpu="auto")}))
    with pytest.raises(SettingsError, match="node dut is remote: write the number of a core of it"):
        Testbed(spec(nodes={"dut": NodeFile(cpu="auto")}))


def test_testbed_with_a_node_on_this_machine_is_not_remote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wiring, "remote", {"dut"})
    monkeypatch.setattr(Wiring, "is_remote", property(lambda wiring: bool(wiring.remote)))

    with pytest.raises(SettingsError, match="node tg is this machine, whose load disturbs results: omit"):
        Testbed(spec(remote=True, nodes={"tg": NodeFile(), "dut": NodeFile()}))


def test_test_that_needs_another_network_card_is_not_run() -> None:
    options = {"nic": "Intel-E810CQ"}

    assert "network card Intel-E810CQ: the testbed has none with a name" == Testbed(spec()).lacks(options)
    assert "network card Intel-E810CQ: the testbed has Intel-XL710" == Testbed(spec(nic="Intel-XL710")).lacks(
        options
    )
    assert "" == Testbed(spec(nic="Intel-E810CQ")).lacks(options)


def test_options_of_the_user_decide_what_a_device_lacks() -> None:
    assert "it has no access lists" == Testbed(spec()).lacks({"acl_rules": "20"})
    assert "" == Testbed(spec(), device_options={"acl_rules": "0"}).lacks({"acl_rules": "20"})


@pytest.mark.parametrize(("options", "traffic"), [({}, "routed"), ({"forwarding": "l2"}, "bridged")])
def test_traffic_suits_what_the_device_does(options: dict[str, str], traffic: str) -> None:
    with Testbed(spec()) as testbed:
        testbed.start_device(options)
        testbed.use("imix")

    assert f"use IMIX {traffic}" in STORY


@pytest.mark.parametrize(
    ("reached", "link", "maximum"), [(1000.0, 800, 800.0), (1000.0, 1000, 1000.0), (1000.0, 2000, 1000.0)]
)
def test_highest_rate_is_the_links_or_what_the_generator_keeps(
    reached: float, link: float, maximum: float
) -> None:
    testbed = Testbed(spec(link=LinkFile(pps=link)))
    testbed.generator.highest = reached  # type: ignore[attr-defined]

    testbed.use("64B")

    assert maximum == pytest.approx(testbed.maximum_pps)


def test_generator_that_was_disturbed_is_asked_once_more_what_it_reaches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    testbed = Testbed(spec(link=LinkFile(pps=2000)))
    reached = [500.0, 1000.0, 3000.0]
    monkeypatch.setattr(testbed.generator, "highest_pps", lambda: reached.pop(0))

    testbed.use("64B")

    assert 1000.0 == testbed.maximum_pps


def test_generator_that_reaches_the_links_rate_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    testbed = Testbed(spec(link=LinkFile(pps=800)))
    reached = [1000.0]
    monkeypatch.setattr(testbed.generator, "highest_pps", reached.pop)

    testbed.use("64B")

    assert 800.0 == testbed.maximum_pps


def test_simulated_generator_reaches_any_links_rate() -> None:
    with Testbed(specification.load("simulated")) as testbed:
        testbed.start_device({})
        testbed.use("64B")

        assert math.isfinite(testbed.maximum_pps)
        assert testbed.link_pps == testbed.maximum_pps


@pytest.mark.parametrize(
    ("link", "forwarded", "limited"),
    [(800, 800.0, False), (2000, 890.0, False), (2000, 899.0, True), (2000, 900.0, True)],
    ids=["all that the link carries", "less than was sent", "nearly all that was sent", "all that was sent"],
)
def test_device_that_forwards_all_that_the_generator_can_send_was_not_measured(
    link: float, forwarded: float, limited: bool
) -> None:
    testbed = Testbed(spec(link=LinkFile(pps=link)))
    testbed.use("64B")

    limit = testbed.generator_limit(forwarded)

    assert limited == bool(limit)
    if limited:
        assert limit.startswith("limited by the generator: it reaches 900 of the link's 2000 pps, ")


@pytest.mark.parametrize(("lower", "limited"), [(890.0, False), (896.0, True), (900.0, True)])
def test_interval_that_may_end_at_the_highest_rate_is_limited(lower: float, limited: bool) -> None:
    """900 pps are the highest rate; 0.8 % below it, the interval of 1 % ends there."""
    testbed = Testbed(spec(link=LinkFile(pps=2000.0)))
    testbed.use("64B")

    limit = testbed.generator_limit(lower, relative_width=0.01)

    assert limited == bool(limit)
    assert limited == limit.startswith("limited by the generator: ")


def test_counters_are_of_all_that_has_some() -> None:
    with Testbed(spec()) as testbed:
        counters = testbed.counters()

    assert {"sent": 7} == counters["generator"]
    assert {"received": 7} == counters["device"]
    assert {"1", "2"} == set(counters["cpu"])
    assert {} == counters["interfaces"] == counters["softnet"]


def test_wiring_option_that_does_not_exist_is_a_wrong_testbed_file() -> None:
    wrong = spec(wiring=DriverFile(driver="loopback", options={"mtu": "9000"}))

    with pytest.raises(SettingsError, match=r"testbed double: wiring loopback: .*mtu"):
        Testbed(wrong)


def test_embedded_generator_and_device_pass_frames_over_loopback(tmp_path: Path) -> None:
    """The real processes; nothing of them is left.

    How many frames come back within a tenth of a second depends on how busy the cores are. Frames of the
    search for the highest rate may still arrive; such a trial is not valid.
    """
    with Testbed(specification.load("1n-loopback")) as testbed:
        testbed.start_device({"acl_rules": "20"})
        testbed.use("IMIX")
        trial = testbed.generator.trial(2000, 0.1, None)
        counters = testbed.counters()
        processes = testbed._busy_processes()

    assert 200 == trial.sent
    assert trial.received > 0
    assert trial.received <= 200 or "frames leaked into the trial" in trial.invalid
    assert "lo" in counters["interfaces"]["tg"]
    arrived = sum(port["received"] for port in counters["device"]["ports"])
    assert counters["generator"]["sent"] >= arrived >= trial.received
    assert 2 == len(processes)
    assert not any(Path(f"/proc/{process}").exists() for process in processes)


def test_options_of_the_traffic_do_not_reach_the_device() -> None:
    with Testbed(spec()) as testbed:
        testbed.start_device({"flow_count": "1000", "forwarding": "l2", "vlan": "7"})

        assert {"forwarding": "l2", "vlan": "7"} == cast("Device", testbed.device).options
        assert "it sends no tags" == testbed.lacks_traffic("64B")
        testbed.start_device({"flow_count": "1000"})
        assert "" == testbed.lacks_traffic("64B")
        testbed.use("64B")
        assert 1000 == testbed.traffic.flow_count


@pytest.mark.parametrize(("vlans", "option"), [((7, 7), "7"), ((7, 8), "7,8")])
def test_links_with_vlans_give_all_tests_their_tags(
    monkeypatch: pytest.MonkeyPatch, vlans: tuple[int, int], option: str
) -> None:
    monkeypatch.setattr(Wiring, "links", [Link(Port(), Port(), vlan=vlan) for vlan in vlans])
    with Testbed(spec()) as testbed:
        testbed.start_device({"forwarding": "l2"})
        testbed.use("64B")

        assert {"forwarding": "l2", "vlan": option} == cast("Device", testbed.device).options
        assert option == testbed.traffic.options["vlan"]
        assert "" == testbed.lacks({"vlan": "0"})
        assert "vlan=100: the links of the testbed have VLANs" in testbed.lacks({"vlan": "100"})


def test_device_warms_up_at_a_rising_rate_before_the_first_trial_after_each_start() -> None:
    with Testbed(spec(warm_up_s=2)) as testbed:
        testbed.start_device({})
        testbed.use("64B")
        steps = [f"trial {rate} 0.5 None" for rate in (100, 200, 300, 400)]
        assert ["device start", "use 64B routed", *steps] == STORY[-6:]

        testbed.restart_device()
        assert ["device stop", "device start", *steps] == STORY[-6:]


def test_generator_that_does_not_respond_is_restarted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failures = [errors.TestbedError("traffic generator has ended"), None]
    use = Generator.use

    def use_later(generator: Generator, traffic: TrafficProfile) -> None:
        if failure := failures.pop(0):
            raise failure
        use(generator, traffic)

    monkeypatch.setattr(Generator, "use", use_later)
    with Testbed(spec()) as testbed:
        testbed.start_device({})
        testbed.use("64B")

    assert ["generator close", "generator open", "use 64B routed"] == STORY[
        STORY.index("device start") + 1 :
    ][:3]
    assert "does not respond (traffic generator has ended); restarting it" in capsys.readouterr().err


def test_generator_that_never_responds_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise errors.TestbedError("no response")

    monkeypatch.setattr(Generator, "use", fail)
    with Testbed(spec()) as testbed:
        testbed.start_device({})
        with pytest.raises(errors.TestbedError, match="no response"):
            testbed.use("64B")


def test_device_is_asked_about_the_longest_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Device, "lacks", lambda _, options: options.get("frame_bytes", "the usual"))
    testbed = Testbed(spec())

    assert "9000" == testbed.lacks({}, "9000B")
    assert "2000" == testbed.lacks({}, "64x7+2000x1")
    assert ["the usual"] * 3 == [testbed.lacks({}), testbed.lacks({}, "IMIX"), testbed.lacks({}, "1518B")]


def test_wiring_is_asked_about_long_frames_before_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wiring, "longest", 1400)
    testbed = Testbed(spec())

    assert "no cable for 9000 bytes" == testbed.lacks({"acl_rules": "20"}, "9000B")
    assert "" == testbed.lacks({}, "1518B")


def test_wiring_and_device_are_set_up_for_the_frames_of_the_test() -> None:
    testbed = Testbed(spec())

    for frame, longest in (("9000B", 9000), ("64B", 1518)):
        testbed.start_device({}, frame)
        testbed.use(frame)
        assert longest == cast(Wiring, testbed._wiring).frame_bytes
        assert longest == int(cast(Device, testbed.device).options.get("frame_bytes", 1518))


def test_user_may_set_testbeds_up_for_longer_frames_than_those_of_a_test() -> None:
    testbed = Testbed(spec(), device_options={"frame_bytes": "9000"})

    testbed.start_device({}, "64B")

    assert 9000 == cast(Wiring, testbed._wiring).frame_bytes


def test_frames_that_the_device_was_not_started_for_are_an_error() -> None:
    testbed = Testbed(spec())
    testbed.start_device({})

    with pytest.raises(SettingsError, match="the device was started for frames of up to 1518 bytes"):
        testbed.use("9000B")


@pytest.mark.parametrize("value", ["1517", "9001", "long", ""])
def test_invalid_length_of_frames_is_an_error(value: str) -> None:
    with pytest.raises(SettingsError, match="write a number from 1518 to 9000"):
        Testbed(spec()).lacks({"frame_bytes": value})

"""The driver against a double of the server: counts, validity, ownership, and what goes wrong."""

from __future__ import annotations

import base64
import builtins
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from perftrend.errors import SettingsError, TestbedError
from perftrend.measure import mdr_search, specification
from perftrend.measure.embedded.frames import FrameDirection, build
from perftrend.measure.interfaces import Link, Node, Port
from perftrend.measure.procedure import Procedure
from perftrend.measure.specification import SearchPlan
from perftrend.measure.testbed import Testbed
from perftrend.measure.traffic import FrameProfile, TrafficProfile
from perftrend.measure.trex.generator import TrexGenerator
from perftrend.measure.trex.rpc import TrexEventQueue
from perftrend.measure.trex.session import _latency
from perftrend.measure.trial_validity import EXACT, OVERLOAD, WIDTH_PART, TrustedTrials, off_rate
from perftrend.measure.wiring import NoWiring
from perftrend.measurement import GeneratorHealth, Latency
from tests.doubles.trex import FINISHED, PROFILE_FINISHED, STARTED, TrexServer
from tests.unit.measure.trex.conftest import LINKS, Connect, link

CHECKOUT = Path(__file__).resolve().parents[4]
LINE_RATE_PPS = 2 * 10e9 / 8 / 84


def methods(server: TrexServer) -> list[str]:
    return [method for method, _ in server.requests]


def destinations(server: TrexServer) -> list[str]:
    """Return the destination MAC address of the frames into each port."""
    frames = [
        base64.b64decode(stream["packet"]["binary"])
        for port in server.ports.values()
        for stream in port.streams.values()
    ]
    return [frame[:6].hex(":") for frame in frames]


def set_faults(server: TrexServer, **faults: Any) -> None:
    for name, value in faults.items():
        setattr(server.faults, name, value)


# Counts


def test_every_frame_that_was_planned_is_sent_and_counted(generator: TrexGenerator) -> None:
    trial = generator.trial(1_000_001, 1.0, None)

    assert (1_000_001, 1_000_001) == (trial.sent, trial.received)
    assert ((500_001, 500_000), (500_001, 500_000)) == (trial.sent_each, trial.received_each)
    assert "" == trial.invalid


def test_rate_that_was_reached_is_exact(generator: TrexGenerator) -> None:
    trial = generator.trial(1e6, 1.0, None)

    assert 1.0 == trial.sending_s
    assert "" == off_rate(trial, 1e6, None, EXACT)


def test_frames_above_the_capacity_of_the_device_are_lost(
    generator: TrexGenerator, server: TrexServer
) -> None:
    server.device.capacity_pps = 800_000

    trial = generator.trial(1e6, 2.0, None)

    assert (2_000_000, 1_600_000, "") == (trial.sent, trial.received, trial.invalid)


def test_frames_of_one_trial_do_not_count_in_the_next(generator: TrexGenerator, server: TrexServer) -> None:
    server.device.capacity_pps = 800_000
    generator.trial(1e6, 1.0, None)

    after = generator.trial(500_000, 1.0, None)

    assert (500_000, 500_000) == (after.sent, after.received)


def test_late_frames_are_waited_for(generator: TrexGenerator, server: TrexServer) -> None:
    server.device.late_s = 0.25

    trial = generator.trial(1e6, 1.0, None)

    assert trial.sent == trial.received == 1_000_000
    assert 1.25 <= trial.elapsed_s < 1.35


@pytest.mark.parametrize("planned", [0, 1])
def test_port_without_a_frame_is_not_started(
    generator: TrexGenerator, server: TrexServer, planned: int
) -> None:
    trial = generator.trial(planned, 1.0, None)

    assert (planned, planned, "") == (trial.sent, trial.received, trial.invalid)
    assert planned == server.bursts


@pytest.mark.parametrize("frame", ["64B", "1518B", "9000B", "IMIX", "64x2+901x1"])
def test_server_accepts_the_streams_of_each_frame(generator: TrexGenerator, frame: str) -> None:
    generator.use(TrafficProfile.parse(frame, {}))

    assert 10_001 == generator.trial(10_001, 1.0, None).received


@pytest.mark.parametrize(
    "options",
    [
        {"vlan": "7", "flow_count": "1000000"},
        {"vlan": "7,8"},
        {"forwarding": "ip6", "protocol": "tcp"},
        {"forwarding": "l2", "tunnel": "vxlan", "vlan": "7"},
        {"forwarding": "l2", "tunnel": "geneve", "protocol": "tcp"},
    ],
)
@pytest.mark.parametrize("frame", ["118B", "1518B"])
def test_server_sends_the_frames_of_the_embedded_generator(
    generator: TrexGenerator, server: TrexServer, frame: str, options: dict[str, str]
) -> None:
    traffic = TrafficProfile.parse(frame, options)
    generator.use(traffic)

    assert "" == generator.lacks(traffic)
    assert 10_001 == generator.trial(10_001, 1.0, None).received
    for port, cable in enumerate(LINKS):
        destination = cable.device.mac if traffic.is_for_device else LINKS[1 - port].generator.mac
        macs = [bytes.fromhex(mac.replace(":", "")) for mac in (cable.generator.mac, destination)]
        expected, _ = build(traffic, FrameDirection(port, *macs), 300)
        assert [row.tobytes() for row in expected] == server.frames(port, 300)


@pytest.mark.parametrize(("percent", "each"), [(100, (1000, 0)), (0, (0, 1000)), (75, (750, 250))])
def test_directions_get_their_shares(
    generator: TrexGenerator, server: TrexServer, percent: int, each: tuple[int, int]
) -> None:
    generator.use(TrafficProfile.parse("64B", {"forward_percent": str(percent)}))

    trial = generator.trial(1000, 1.0, None)

    assert (each, each, "") == (trial.sent_each, trial.received_each, trial.invalid)
    assert sum(map(bool, each)) == server.bursts


@pytest.mark.parametrize(("links", "each"), [(1, (1000,)), (4, (350, 150, 350, 150))])
def test_each_link_gets_its_share(
    connect: Connect, server: TrexServer, links: int, each: tuple[int, ...]
) -> None:
    server.ports = {number: type(server.ports[0])() for number in range(links)}
    generator = connect([link(number) for number in range(links)], latency="yes")
    generator.use(TrafficProfile.parse("64B", {"forward_percent": "70"}))

    trial = generator.trial(1000, 1.0, None)

    assert (each, each, "") == (trial.sent_each, trial.received_each, trial.invalid)
    assert links == len(trial.latency)
    assert [f"02:00:00:00:0d:0{number}" for number in range(links)] == list(
        dict.fromkeys(destinations(server))
    )


@pytest.mark.parametrize(("percent", "ports"), [(100, 1.0), (0, 1.0), (50, 2.0), (80, 1.25)])
def test_highest_rate_is_that_of_the_port_with_the_larger_share(
    generator: TrexGenerator, percent: int, ports: float
) -> None:
    generator.use(TrafficProfile.parse("64B", {"forward_percent": str(percent)}))

    assert pytest.approx(LINE_RATE_PPS / 2 * ports) == generator.highest_pps()
    assert "" == generator.trial(generator.highest_pps(), 1.0, None).invalid


def test_latency_is_that_of_the_directions_with_frames(connect: Connect) -> None:
    generator = connect(latency="yes")
    generator.use(TrafficProfile.parse("64B", {"forward_percent": "100"}))

    assert 1 == len(generator.trial(10_000, 1.0, None).latency)


def test_latency_is_not_measured_if_frames_are_too_short(connect: Connect) -> None:
    generator = connect(latency="yes")
    generator.use(TrafficProfile.parse("64B", {"protocol": "tcp"}))
    short = generator.measures_latency, generator.trial(10_000, 1.0, None).latency
    generator.use(TrafficProfile.parse("128B", {"protocol": "tcp"}))

    assert (False, ()) == short
    assert 2 == len(generator.trial(10_000, 1.0, None).latency)


def test_frames_go_to_the_router_or_through_the_bridge(generator: TrexGenerator, server: TrexServer) -> None:
    generator.trial(1000, 1.0, None)
    routed = destinations(server)
    generator.use(TrafficProfile.parse("64B", {"forwarding": "l2"}))
    generator.trial(1000, 1.0, None)

    assert [link.device.mac for link in LINKS] == routed
    assert [link.generator.mac for link in reversed(LINKS)] == destinations(server)


def test_address_of_the_card_is_used_if_the_file_has_none(connect: Connect, server: TrexServer) -> None:
    generator = connect([Link(Port(), link.device) for link in LINKS])
    generator.use(TrafficProfile.parse("64B", {"forwarding": "l2"}))

    generator.trial(1000, 1.0, None)

    assert ["02:00:00:00:0e:01", "02:00:00:00:0e:00"] == destinations(server)


# The highest rate


def test_highest_rate_is_that_of_the_links(generator: TrexGenerator) -> None:
    assert pytest.approx(LINE_RATE_PPS) == generator.highest_pps()


def test_highest_rate_has_no_limit_if_the_ports_do_not_know_their_speed(
    generator: TrexGenerator, server: TrexServer
) -> None:
    for port in server.ports.values():
        port.speed_gbps = 0.0

    assert float("inf") == generator.highest_pps()


def test_rate_above_that_of_the_link_is_an_error(generator: TrexGenerator) -> None:
    with pytest.raises(TestbedError, match=r"refused start_traffic for port 0: Expected L1 B/W.*exceeds"):
        generator.trial(1.01 * LINE_RATE_PPS, 1.0, None)


# Validity


def test_burst_that_took_too_long_is_not_valid(generator: TrexGenerator, server: TrexServer) -> None:
    server.faults.slowdown = 1.7

    trial = generator.trial(1e6, 1.0, None)

    assert "TRex took 1.7 s to send a burst of 1 s" == trial.invalid
    assert trial.sent == trial.received == 1_000_000


def test_rate_of_a_slightly_slow_burst_is_known(generator: TrexGenerator, server: TrexServer) -> None:
    server.faults.slowdown = 1.01

    trial = generator.trial(1e6, 10.0, None)

    assert ("", pytest.approx(10.07)) == (trial.invalid, trial.sending_s)
    assert "the generator reached 99.3 % of the intended rate" in off_rate(trial, 1e6, None, EXACT)
    assert "" == off_rate(trial, 1e6, None, OVERLOAD)


@pytest.mark.parametrize(
    ("faults", "reason"),
    [
        ({"queue_full": 6}, "transmit queues of TRex were full 12 times"),
        ({"dropped": 5}, "TRex dropped 10 frames instead of sending them"),
        ({"cpu_percent": 96.0}, "the cores of TRex were busy for 96 % of the time"),
        ({"link_fails": True}, "a port of TRex lost its link"),
        ({"stuck": True}, "TRex was still sending after 15 s of a burst of 1 s"),
    ],
)
def test_trial_is_not_valid_if_the_generator_failed(
    generator: TrexGenerator, server: TrexServer, faults: dict[str, Any], reason: str
) -> None:
    set_faults(server, **faults)

    trial = generator.trial(1e6, 1.0, None)

    assert reason in trial.invalid


@pytest.mark.parametrize("faults", [{"queue_full": 600}, {"cpu_percent": 100.0}])
def test_full_queues_and_busy_cores_are_normal_at_the_line_rate(
    generator: TrexGenerator, server: TrexServer, faults: dict[str, Any]
) -> None:
    set_faults(server, **faults)

    assert "" == generator.trial(generator.highest_pps(), 1.0, None).invalid


def test_trial_has_the_health_of_the_server(generator: TrexGenerator, server: TrexServer) -> None:
    set_faults(server, queue_full=6, dropped=5, cpu_percent=97.0)

    trial = generator.trial(1e6, 1.0, None)

    assert (5, (5, 0)) == (trial.unsent, trial.unsent_each)
    assert GeneratorHealth(load=0.97, queue_full=12) == trial.generator_health


def test_frames_that_an_early_end_leaves_out_are_not_unsent(
    generator: TrexGenerator, server: TrexServer
) -> None:
    server.step_s = 0.5
    server.device.capacity_pps = 500_000

    trial = generator.trial(1e6, 10.0, 0.0)

    assert trial.sent < 10_000_000
    assert (0, ()) == (trial.unsent, trial.unsent_each)


def test_slow_burst_is_explained(generator: TrexGenerator, server: TrexServer) -> None:
    set_faults(server, slowdown=1.7, queue_full=602, cpu_percent=99.0)

    trial = generator.trial(1e6, 1.0, None)

    reasons = "its queue was full 1,204 times, it was busy for 99 % of the time"
    assert f"TRex took 1.7 s to send a burst of 1 s: {reasons}" == trial.invalid


def test_frames_that_the_device_sends_itself_are_not_valid(
    generator: TrexGenerator, server: TrexServer
) -> None:
    server.device.foreign_frames = 3

    trial = generator.trial(1000, 1.0, None)

    assert "received 1006 of 1000 frames sent: frames leaked into the trial" == trial.invalid


def test_trial_after_one_that_never_ended_is_valid(generator: TrexGenerator, server: TrexServer) -> None:
    server.faults.stuck = True
    generator.trial(1e6, 1.0, None)
    server.faults.stuck = False

    assert "" == generator.trial(1e6, 1.0, None).invalid


def test_trial_after_one_that_was_interrupted_is_valid(
    generator: TrexGenerator, server: TrexServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Robot Framework ends a test that takes too long by an exception."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TrexEventQueue, "wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            generator.trial(1e6, 1.0, None)

    assert "" == generator.trial(1e6, 1.0, None).invalid


# Events


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        ({STARTED}, "TRex lost events: number"),
        ({PROFILE_FINISHED}, "TRex lost events: number"),
        ({PROFILE_FINISHED, FINISHED}, "TRex did not report the end of a burst"),
    ],
)
def test_trial_with_lost_events_is_not_valid(
    generator: TrexGenerator, server: TrexServer, lost: set[int], reason: str
) -> None:
    server.faults.lost_events = frozenset(lost)
    trial = generator.trial(1e6, 1.0, None)
    server.faults.lost_events = frozenset()

    assert trial.invalid.startswith(reason)
    assert "" == generator.trial(1e6, 1.0, None).invalid


def test_session_that_the_server_forgot_between_trials_goes_on(
    generator: TrexGenerator, server: TrexServer
) -> None:
    generator.trial(1e6, 1.0, None)
    server.forget_sessions()

    assert "" == generator.trial(1e6, 1.0, None).invalid


def test_events_of_a_long_burst_are_not_forgotten(generator: TrexGenerator, server: TrexServer) -> None:
    server.step_s = 1.0

    trial = generator.trial(1e6, 30.0, None)

    assert ("", 30_000_000) == (trial.invalid, trial.received)


# Early end


def test_trial_ends_early_if_its_loss_is_certain(generator: TrexGenerator, server: TrexServer) -> None:
    server.device.capacity_pps = 500_000
    server.step_s = 0.5

    trial = generator.trial(1e6, 30.0, 0.005)

    assert trial.elapsed_s < 3
    assert trial.sent - trial.received > 0.005 * 30_000_000
    assert ("", "") == (trial.invalid, off_rate(trial, 1e6, 0.005, EXACT))


def test_trial_does_not_end_early_if_nothing_is_lost(generator: TrexGenerator, server: TrexServer) -> None:
    server.step_s = 0.5

    trial = generator.trial(1e6, 5.0, 0.0)

    assert (5_000_000, 5_000_000, "") == (trial.sent, trial.received, trial.invalid)


def test_late_frames_are_not_taken_for_lost_ones(generator: TrexGenerator, server: TrexServer) -> None:
    """The trial ends early by mistake, and is measured again to its end."""
    server.step_s = 0.3
    server.device.late_s = 0.9

    trial = generator.trial(1e6, 5.0, 0.0)

    assert (5_000_000, 5_000_000, "") == (trial.sent, trial.received, trial.invalid)
    assert 4 == server.bursts


# Latency


def test_latency_of_each_direction_is_measured(connect: Connect) -> None:
    generator = connect(latency="yes")
    generator.use(TrafficProfile.parse("64B", {}))

    trial = generator.trial(1e6, 1.0, None)

    classes = ((10.0, 1), (20.0, 997), (300.0, 2))
    assert (Latency(4.0, 12.5, 230.0, classes),) * 2 == trial.latency
    assert (1_000_000, "") == (trial.sent, trial.invalid)


def test_latency_is_that_of_the_hdr_histogram_if_the_server_has_one(
    connect: Connect, server: TrexServer, require: Callable[[object, str], None]
) -> None:
    require(find_spec("hdrh"), "needs hdrhistogram")
    server.hdr_histograms = True
    first, second = connect(latency="yes").trial(10_000, 1.0, None).latency

    assert [(4.0, 1), (12.0, 997), (230.0, 2)] == [*first.histogram]
    assert first == second


@pytest.mark.parametrize("text", ["", "%%%", "AAAA", "HISTFAAAACp4nJNpmSzMwMDAzQABzFCaEUzOmNZg"])
def test_hdr_histogram_that_cannot_be_decoded_is_not_used(text: str) -> None:
    found = {"total_min": 4, "average": 12.5, "total_max": 230, "histogram": {"10": 7}, "hdrh": text}

    assert ((20.0, 7),) == _latency(found).histogram


def test_latency_is_not_measured_by_default(generator: TrexGenerator, server: TrexServer) -> None:
    assert () == generator.trial(1e6, 1.0, None).latency
    assert "get_pgid_stats" not in methods(server)


def test_search_measures_latency_below_pdr(
    connect: Connect, server: TrexServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.device.capacity_pps = 4_321_000
    server.step_s = 0.5
    generator = connect(latency="yes")
    generator.use(TrafficProfile.parse("64B", {}))
    plan = SearchPlan(initial_duration_s=1, final_duration_s=2, minimum_pps=20_000)

    with Testbed(specification.load("simulated")) as testbed:
        testbed.maximum_pps = generator.highest_pps()
        monkeypatch.setattr(testbed, "generator", generator)
        monkeypatch.setattr(testbed, "trials", TrustedTrials(generator, list, attempts=1))
        measurement = Procedure(testbed, tmp_path / "counters.json", tmp_path).ndr_and_pdr(plan)

    assert ["", ""] == [each.invalid for each in measurement.intervals.values()]
    assert {"latency_10": 12.5, "latency_50": 12.5, "latency_90": 12.5} == {
        metric: latency.average_us for metric, latency in measurement.latency.items()
    }


def test_latency_of_a_trial_without_such_frames_is_unknown(connect: Connect) -> None:
    generator = connect(latency="yes")
    generator.use(TrafficProfile.parse("64B", {}))

    assert () == generator.trial(1, 1.0, None).latency


# Ownership


def test_ports_are_acquired_and_released(generator: TrexGenerator, server: TrexServer) -> None:
    owners = {port.owner for port in server.ports.values()}
    generator.close()

    assert 1 == len(owners)
    assert owners.pop().startswith("perftrend-")
    assert ["", ""] == [port.owner for port in server.ports.values()]


def test_nothing_is_left_on_the_ports(generator: TrexGenerator, server: TrexServer) -> None:
    generator.trial(1000, 1.0, None)
    generator.close()
    generator.close()

    assert ["IDLE", "IDLE"] == [port.state for port in server.ports.values()]


def test_port_of_another_user_is_not_taken(connect: Connect, server: TrexServer) -> None:
    server.ports[1].owner = "alice"

    with pytest.raises(TestbedError, match=r"port 1 of TRex belongs to 'alice'; .* force: \"yes\""):
        connect()
    assert ["", "alice"] == [port.owner for port in server.ports.values()]


def test_port_of_another_user_is_taken_by_force(connect: Connect, server: TrexServer) -> None:
    server.ports[1].owner = "alice"

    connect(force="yes").trial(1000, 1.0, None)

    assert 1 == len({port.owner for port in server.ports.values()})


def test_next_job_continues_the_session_of_one_that_was_killed(connect: Connect, server: TrexServer) -> None:
    killed = connect()
    server.faults.stuck = True
    killed.trial(1e6, 1.0, None)
    server.faults.stuck = False

    trial = connect().trial(1e6, 1.0, None)

    assert ("", 1_000_000) == (trial.invalid, trial.received)


def test_job_ends_if_another_user_takes_a_port(generator: TrexGenerator, server: TrexServer) -> None:
    server.faults.thief = "alice"

    with pytest.raises(TestbedError, match="'alice' has taken port 1 of TRex from this job"):
        generator.trial(1e6, 1.0, None)
    assert ["", "alice"] == [port.owner for port in server.ports.values()]


def test_ports_receive_all_frames_and_ignore_requests_to_pause(
    generator: TrexGenerator, server: TrexServer
) -> None:
    expected = {"promiscuous": {"enabled": True}, "flow_ctrl_mode": {"mode": 0}}

    assert [expected] * 2 == [port.attributes for port in server.ports.values()]


# The server


def test_version_is_that_of_the_server(generator: TrexGenerator) -> None:
    assert "TRex v3.08" == generator.version


def test_requests_are_compressed(generator: TrexGenerator, server: TrexServer) -> None:
    assert 0 == server.uncompressed


def test_counters_include_those_of_the_network_card(generator: TrexGenerator) -> None:
    generator.trial(1000, 1.0, None)

    counters = generator.counters()

    assert {"opackets": 500, "ipackets": 500, "tx_good_packets": 500}.items() <= counters["port 0"].items()
    assert 20.0 == counters["server"]["m_cpu_util"]


def test_server_that_needs_a_moment_is_asked_again(generator: TrexGenerator, server: TrexServer) -> None:
    server.faults.busy_answers = 1

    assert "" == generator.trial(1000, 1.0, None).invalid


def test_server_that_crashes_in_a_trial_is_an_error(
    generator: TrexGenerator, server: TrexServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.faults.crashes = True
    monkeypatch.setattr("perftrend.measure.trex.session._CLOSE_S", 0.1)

    with pytest.raises(
        TestbedError, match=r"^the TRex server closed the connection during get_async_events; .*t-rex-64 -i$"
    ):
        generator.trial(1e6, 1.0, None)


def test_server_that_ends_in_a_trial_is_an_error(generator: TrexGenerator, server: TrexServer) -> None:
    server.faults.stops = True

    with pytest.raises(TestbedError, match=r"the TRex server has ended: CTRL \+ C detected"):
        generator.trial(1e6, 1.0, None)


def test_trial_after_a_restart_of_the_server_is_an_error_and_the_next_is_not(
    generator: TrexGenerator, server: TrexServer
) -> None:
    server.stop()
    server.start()

    with pytest.raises(TestbedError, match="API verification failed"):
        generator.trial(1e6, 1.0, None)
    trial = generator.trial(1e6, 1.0, None)

    assert ("", 1_000_000) == (trial.invalid, trial.received)


def test_closing_does_not_need_the_server(
    generator: TrexGenerator, server: TrexServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perftrend.measure.trex.session._CLOSE_S", 0.1)
    server.stop()

    generator.close()


def test_port_without_link_is_an_error(generator: TrexGenerator, server: TrexServer) -> None:
    server.ports[1].link = False

    with pytest.raises(TestbedError, match="port 1 of TRex has no link"):
        generator.trial(1e6, 1.0, None)


def test_link_that_comes_up_late_is_waited_for(
    generator: TrexGenerator, server: TrexServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A physical link needs seconds after the device was started."""
    server.ports[1].link = False

    def sleep(seconds: float) -> None:
        server.ports[1].link = True

    monkeypatch.setattr(server.clock, "sleep", sleep)

    assert "" == generator.trial(1e6, 1.0, None).invalid


# Settings


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"forse": "yes"}, "the generator trex has no option 'forse'; did you mean 'force'?"),
        ({"force": "ja"}, "generator option force='ja'; known are no, yes"),
        ({"ports": "1;2"}, "generator option ports='1;2': write different numbers"),
        (
            {"ports": "1,1"},
            "generator option ports='1,1': write a different number for each of the 2 links",
        ),
        ({"ports": "0"}, "generator option ports='0': write a different number for each of the 2 links"),
        ({"core_mask": "all"}, "generator option core_mask='all': write a hexadecimal number"),
    ],
)
def test_invalid_option_is_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        TrexGenerator(NoWiring(links=LINKS), Node(), options)

    assert reason in str(refusal.value)


def test_port_that_the_server_lacks_is_an_error(connect: Connect) -> None:
    with pytest.raises(TestbedError, match=r"TRex has no port 2 \(generator option ports\); it has 0, 1"):
        connect(ports="1,2")


def test_cores_are_selected_by_a_mask(connect: Connect, server: TrexServer) -> None:
    connect(core_mask="0x2").trial(1000, 1.0, None)

    masks = [parameters["core_mask"] for method, parameters in server.requests if method == "start_traffic"]
    assert [2, 2] == masks


def test_links_must_be_known(connect: Connect) -> None:
    with pytest.raises(SettingsError, match="TRex needs 1 to 4 links"):
        connect([])


def test_address_of_the_device_must_be_known(connect: Connect) -> None:
    generator = connect([LINKS[0], Link(LINKS[1].generator, Port())])

    with pytest.raises(SettingsError, match="link 2 has no MAC address of the device's port"):
        generator.use(TrafficProfile.parse("64B", {}))


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("session", "rpc", "burst"):
        monkeypatch.delitem(sys.modules, f"perftrend.measure.trex.{module}", raising=False)
    real = builtins.__import__

    def without_zmq(name: str, *arguments: Any) -> Any:
        if name == "zmq":
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without_zmq)

    with pytest.raises(TestbedError, match=r"TRex needs more packages; install them with: .*(pyzmq|trex)"):
        TrexGenerator(NoWiring(links=LINKS), Node(), {}).open()


@pytest.mark.parametrize("example", ["2n-trex", "2n-trex-vpp"])
def test_example_of_a_testbed_is_valid(connect: Connect, server: TrexServer, example: str) -> None:
    spec = specification.load(example, CHECKOUT / "docs" / "examples")
    generator = connect([cable.link() for cable in spec.links], **spec.generator.options)

    generator.use(TrafficProfile.parse("IMIX", {}))
    generator.trial(1000, 1.0, None)

    assert "3c:fd:fe:00:01:01" in destinations(server)
    assert pytest.approx(spec.link.rate_pps(FrameProfile.parse("IMIX").mean_bytes)) == generator.highest_pps()


def test_search_finds_the_capacity_of_the_device(generator: TrexGenerator, server: TrexServer) -> None:
    server.device.capacity_pps = 4_321_000
    server.step_s = 0.5
    trials = TrustedTrials(generator, list, attempts=1)

    result = mdr_search(
        partial(trials.measure, deviation=WIDTH_PART * 0.005),
        minimum_pps=20_000,
        maximum_pps=generator.highest_pps(),
        loss_ratios=(0.0,),
    )

    assert [] == [trial.invalid for trial in trials.trials if trial.invalid]
    assert result.interval(0.0).lower <= 4_321_000 <= result.interval(0.0).upper

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from perftrend.measure.embedded.frames import FrameDirection, build
from perftrend.measure.traffic import TrafficProfile
from perftrend.measure.trex.streams import PortTraffic, can_measure_latency, split
from tests.doubles.trex_program import FieldProgram, parse_program

DIRECTION = FrameDirection(0, source_mac=bytes(range(6)), destination_mac=bytes(range(10, 16)))


def burst(frame: str, count: int, duration_s: float = 1.0, group: int | None = None) -> list[Any]:
    return list(PortTraffic(TrafficProfile.parse(frame, {}), DIRECTION, group).burst(count, duration_s))


def frame(stream: Any) -> bytes:
    return base64.b64decode(stream["packet"]["binary"])


def counts(streams: list[Any]) -> dict[int, int]:
    """Return the number of frames of each length, with the checksum."""
    return {len(frame(stream)) + 4: stream["mode"]["total_pkts"] for stream in streams}


@pytest.mark.parametrize(
    ("count", "shares", "parts"),
    [
        (12, [7, 4, 1], [7, 4, 1]),
        (5, [1, 1], [2, 3]),
        (1, [1, 1, 1], [0, 0, 1]),
        (0, [7, 4, 1], [0, 0, 0]),
        (0, [], []),
    ],
)
def test_parts_of_a_number_add_up_to_it(count: int, shares: list[int], parts: list[int]) -> None:
    assert parts == split(count, shares)


def test_frame_has_the_addresses_of_its_direction_and_a_valid_checksum() -> None:
    (stream,) = burst("64B", 100)
    data = frame(stream)

    assert bytes(range(10, 16)) + bytes(range(6)) + b"\x08\x00" == data[:14]
    assert bytes([10, 10, 0, 2, 10, 20, 0, 2]) == data[26:34]
    assert 60 == len(data)
    total = sum(struct.unpack(">10H", data[14:34]))
    assert 0xFFFF == (total & 0xFFFF) + (total >> 16)


def compiled(stream: Any, **cores: int) -> FieldProgram:
    """Return the program of a stream as the server executes it."""
    parse_program(stream["vm"])
    return FieldProgram(stream["vm"], frame(stream), **cores)


def embedded(traffic: TrafficProfile, count: int) -> list[bytes]:
    """Return the frames of the embedded generator."""
    return [row.tobytes() for row in build(traffic, DIRECTION, count)[0]]


HEADERS = [
    {},
    {"forwarding": "l2"},
    {"protocol": "tcp"},
    {"forwarding": "ip6"},
    {"forwarding": "ip6", "protocol": "tcp"},
    {"forwarding": "l2", "tunnel": "vxlan"},
    {"forwarding": "l2", "tunnel": "geneve", "protocol": "tcp"},
]


@pytest.mark.parametrize("vlan", ["0", "100"])
@pytest.mark.parametrize("options", HEADERS)
def test_frames_are_those_of_the_embedded_generator(options: dict[str, str], vlan: str) -> None:
    traffic = TrafficProfile.parse("129B", {**options, "vlan": vlan})
    (stream,) = PortTraffic(traffic, DIRECTION).burst(600, 1.0)

    assert embedded(traffic, 600) == list(compiled(stream).frames(600))


@pytest.mark.parametrize("options", [{}, {"forwarding": "ip6"}, {"forwarding": "l2", "tunnel": "vxlan"}])
@pytest.mark.parametrize(
    ("flows", "count"),
    [
        ("1", 5),
        ("20000", 20_100),  # more hosts than a tunnel has source ports
        ("1000000", 16_000),  # 15,625 hosts and 64 ports
    ],
)
def test_flows_are_those_of_the_embedded_generator(options: dict[str, str], flows: str, count: int) -> None:
    traffic = TrafficProfile.parse("114B", {**options, "flow_count": flows})
    (stream,) = PortTraffic(traffic, DIRECTION).burst(count, 1.0)

    assert embedded(traffic, count) == list(compiled(stream).frames(count))


@pytest.mark.parametrize("flows", ["7", "1000000"])
def test_cores_that_share_a_stream_send_its_flows_by_turns(flows: str) -> None:
    traffic = TrafficProfile.parse("64B", {"flow_count": flows})
    (stream,) = PortTraffic(traffic, DIRECTION).burst(3000, 1.0)

    frames = [list(compiled(stream, cores=3, core=core).frames(1000)) for core in range(3)]

    assert embedded(traffic, 3000) == [one for turn in zip(*frames, strict=True) for one in turn]


@pytest.mark.parametrize(
    ("name", "options", "can"),
    [
        ("64B", {}, True),
        ("64B", {"protocol": "tcp"}, False),
        ("81B", {"forwarding": "ip6"}, False),
        ("82B", {"forwarding": "ip6"}, True),
        ("1518B", {"forwarding": "l2", "tunnel": "vxlan"}, False),
    ],
)
def test_latency_needs_room_for_the_data_of_trex(name: str, options: dict[str, str], *, can: bool) -> None:
    assert can == can_measure_latency(TrafficProfile.parse(name, options))


def test_imix_has_its_shares_and_the_exact_number_of_frames() -> None:
    assert {64: 58_333, 570: 33_333, 1518: 8_334} == counts(burst("IMIX", 100_000))


def test_streams_of_a_mix_take_the_same_time() -> None:
    times = [
        stream["mode"]["total_pkts"] / stream["mode"]["rate"]["value"] for stream in burst("IMIX", 1201, 0.5)
    ]

    assert [pytest.approx(0.5)] * 3 == times


def test_streams_do_not_begin_at_the_same_moment() -> None:
    assert [0, 10, 20] == [stream["isg"] for stream in burst("IMIX", 100_000)]


def test_no_stream_is_empty() -> None:
    assert {1518: 1} == counts(burst("IMIX", 1))
    assert [] == burst("64B", 0)


def test_burst_that_one_stream_cannot_count_is_divided() -> None:
    streams = burst("64B", 2**32, 30.0)

    assert [1431655765, 1431655765, 1431655766] == [stream["mode"]["total_pkts"] for stream in streams]


def test_latency_frames_replace_frames_of_the_shortest_length() -> None:
    streams = burst("IMIX", 120_000, 2.0, group=7)
    measured = [stream for stream in streams if stream["flow_stats"]["enabled"]]
    others = [stream for stream in streams if not stream["flow_stats"]["enabled"]]

    assert {64: 2000} == counts(measured)
    assert {64: 68_000, 570: 40_000, 1518: 10_000} == counts(others)
    assert {"enabled": True, "stream_id": 7, "rule_type": "latency"} == measured[0]["flow_stats"]


def test_latency_frames_are_at_most_half_of_the_shortest() -> None:
    assert [50, 50] == [stream["mode"]["total_pkts"] for stream in burst("64B", 100, 1.0, group=1)]

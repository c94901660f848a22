"""The streams of a TRex port: frames of each length, in exact numbers, that all take the same time to send.

A stream is a burst of frames that differ only in the fields that its program writes. The number of frames is
exact however long the burst takes, in contrast to a rate and a duration.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

from perftrend.measure.embedded.frames import (
    DYNAMIC_PORTS,
    FIRST_HOST,
    UDP_PORT,
    FlowFields,
    FrameDirection,
    build,
)
from perftrend.measure.traffic import (
    CHECKSUM_BYTES,
    FrameProfile,
    TrafficProfile,
)

Stream: TypeAlias = Mapping[str, Any]
"""A stream in the form of the interface."""
Instruction: TypeAlias = dict[str, Any]
"""A step of the program of a stream, which the server executes for each frame."""

LATENCY_PPS = 1000
"""Rate of the frames that latency is measured with, in each direction: a single core sends all of them."""

_MOST_FRAMES = 2**31 - 1
"""Longest burst of a stream; a port of 100 Gb/s sends as many in 14 s."""
_SOURCE_AND_DESTINATION_MAC_OF_PACKET = 0b011
_L4_TYPES = {"udp": 11, "tcp": 13}
"""The numbers that the interface has for the protocols."""
LATENCY_BYTES = 16
"""Data that TRex writes to the end of a frame to measure its latency."""


@dataclass(frozen=True, slots=True)
class PortTraffic:
    """The traffic that is sent into one port."""

    traffic: TrafficProfile
    direction: FrameDirection
    latency_group: int | None = None
    """The number of the packet group that latency is measured with; None to measure none."""

    def burst(self, count: int, duration_s: float) -> list[Stream]:
        """Return streams of ``count`` frames together, which are sent in ``duration_s``."""
        lengths = sorted(Counter(self.traffic.frame.sizes).items())
        counts = split(count, [share for _, share in lengths])
        parts: list[tuple[int, int, int | None]] = [
            (length, number, None) for (length, _), number in zip(lengths, counts, strict=True)
        ]
        if self.latency_group is not None:
            # They replace frames of the shortest length, so that the mix of lengths does not change.
            number = min(round(LATENCY_PPS * duration_s), counts[0] // 2)
            parts[:1] = [(lengths[0][0], counts[0] - number, None)]
            parts.append((lengths[0][0], number, self.latency_group))
        bursts = [
            (length, part, group)
            for length, number, group in parts
            for part in split(number, [1] * -(-number // _MOST_FRAMES))
        ]
        # Streams that begin at the same moment would send many frames back to back.
        return [
            self._stream(length, number, number / duration_s, group, start_s=place * duration_s / count)
            for place, (length, number, group) in enumerate(bursts)
        ]

    def _stream(
        self, length: int, count: int, rate_pps: float, group: int | None, *, start_s: float
    ) -> Stream:
        traffic = replace(self.traffic, frame=FrameProfile(f"{length}B", (length,)))
        frames, sizes = build(traffic, self.direction, 1)
        statistics = {"enabled": True, "stream_id": group, "rule_type": "latency"}
        return {
            "enabled": True,
            "self_start": True,
            "flags": _SOURCE_AND_DESTINATION_MAC_OF_PACKET,
            "action_count": 0,
            "next_stream_id": -1,
            "isg": 1e6 * start_s,
            "mode": {
                "type": "single_burst",
                "rate": {"type": "pps", "value": rate_pps},
                "total_pkts": count,
            },
            "packet": {"binary": base64.b64encode(frames[0, : int(sizes[0])].tobytes()).decode(), "meta": ""},
            "vm": {"instructions": _flow_program(traffic)},
            "flow_stats": {"enabled": False} if group is None else statistics,
        }


def can_measure_latency(traffic: TrafficProfile) -> bool:
    """Return whether frames have room for the data of TRex, which it finds behind plain headers only."""
    shortest = traffic.header_bytes + LATENCY_BYTES + CHECKSUM_BYTES
    return traffic.tunnel == "none" and min(traffic.frame.sizes) >= shortest


def split(count: int, shares: Sequence[int]) -> list[int]:
    """Divide a number of frames by shares, so that the parts add up to it exactly.

    :param shares: positive numbers; none if ``count`` is 0.
    """
    total = sum(shares)
    return [
        count * end // total - count * begin // total
        for begin, end in pairwise(accumulate(shares, initial=0))
    ]


def _flow_program(traffic: TrafficProfile) -> list[Instruction]:
    """Return the program that writes the fields of the next flow, as the embedded generator does.

    Each core of the server advances the counters of a stream by the number of cores, each from another start.
    They stay in step, so that a flow is sent once in each round, by whichever core.
    """
    fields = FlowFields.of(traffic)
    program = [_counter("host", FIRST_HOST, traffic.hosts)]
    program += [_write("host", offset) for offset in fields.hosts]
    if traffic.ports > 1:
        program += [_counter("port", UDP_PORT, traffic.ports), _write("port", fields.transport)]
    if fields.tunnel_port is not None:
        # The frame already has the highest bits of the port.
        program.append(
            {
                "type": "write_mask_flow_var",
                "name": "host",
                "pkt_offset": fields.tunnel_port,
                "pkt_cast_size": 2,
                "mask": len(DYNAMIC_PORTS) - 1,
                "shift": 0,
                "add_value": -FIRST_HOST,
                "is_big_endian": True,
            }
        )
    return [*program, _fix_checksums(traffic, fields)]


def _counter(name: str, first: int, count: int) -> Instruction:
    """Return the instruction that counts from a number on, and begins again after ``count`` frames."""
    return {
        "type": "flow_var",
        "name": name,
        "size": 2,
        "op": "inc",
        "init_value": first,
        "min_value": first,
        "max_value": first + count - 1,
        "step": 1,
    }


def _write(name: str, offset: int) -> Instruction:
    return {
        "type": "write_flow_var",
        "name": name,
        "pkt_offset": offset,
        "add_value": 0,
        "is_big_endian": True,
    }


def _fix_checksums(traffic: TrafficProfile, fields: FlowFields) -> Instruction:
    """Return the instruction that corrects the checksums of the inner packet; the outer ones stay right."""
    if fields.transport_checksum is not None:
        # By the network card, because TRex itself computes that of IPv4 only.
        return {
            "type": "fix_checksum_hw",
            "l2_len": fields.ip,
            "l3_len": fields.transport - fields.ip,
            "l4_type": _L4_TYPES[traffic.protocol],
        }
    return {"type": "fix_checksum_ipv4", "pkt_offset": fields.ip}

"""Parsers of VPP's counters, which only its command line has for each node of the graph.

Source: ``src/vlib/node_cli.c``, ``src/vlib/error.c`` and ``src/vnet/interface_format.c`` of VPP.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_THREAD = re.compile(r"Thread \d+ (\S+)")
_NODE = re.compile(r"(\S+) +(\S.*?) +(\d+) +(\d+) +(\d+) +(\d\S*) +(\d\S*)")
"""Name, state, calls, vectors, suspends, clocks and vectors per call; the state may have spaces."""
_ERROR = re.compile(r" *(\d+) +(\S+) +(.*\S)")
_INTERFACE = re.compile(r"(\S+) +\d+ +\S+ +\S+(?: +(\S.*?) +(\d+))?")
_COUNTER = re.compile(r" +(\S.*?) +(\d+)")
_RARE = 0.01
"""A node with a smaller fraction of the packets of the busiest node is not on the path of the traffic."""


def parse_runtime(text: str) -> dict[str, dict[str, dict[str, float]]]:
    """Parse ``show runtime``: what each node of the graph has processed, by thread.

    Nodes without packets are omitted: processes of VPP itself, and input nodes that found nothing.
    """
    thread = "vpp_main"
    found: dict[str, dict[str, dict[str, float]]] = {}
    for line in text.splitlines():
        if named := _THREAD.match(line):
            thread = named[1]
        elif (row := _NODE.fullmatch(line.rstrip())) and int(row[4]):
            found.setdefault(thread, {})[row[1]] = {
                "calls": int(row[3]),
                "packets": int(row[4]),
                "clocks_per_packet": float(row[6]),
                "packets_per_call": float(row[7]),
            }
    return found


def clocks_per_packet(runtime: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, float]:
    """Return the clocks per packet of the nodes that the traffic passes: the mean over all threads' packets.

    Nodes with few packets, such as those of ARP, are omitted. They are not on the path of the traffic, and
    differ from run to run.

    :param runtime: the result of :func:`parse_runtime`.
    """
    packets: dict[str, float] = {}
    clocks: dict[str, float] = {}
    for nodes in runtime.values():
        for name, node in nodes.items():
            packets[name] = packets.get(name, 0) + node["packets"]
            clocks[name] = clocks.get(name, 0) + node["packets"] * node["clocks_per_packet"]
    least = _RARE * max(packets.values(), default=0)
    return {name: clocks[name] / count for name, count in packets.items() if count >= least}


def parse_errors(text: str) -> list[dict[str, Any]]:
    """Parse ``show errors``: a count for each node and reason, the sum over all threads."""
    has_severity = "Severity" in text
    counts: dict[tuple[str, str], int] = {}
    for line in text.splitlines():
        if row := _ERROR.fullmatch(line.rstrip()):
            reason = row[3].rpartition(" ")[0].rstrip() if has_severity else row[3]
            counts[row[2], reason] = counts.get((row[2], reason), 0) + int(row[1])
    return [{"node": node, "reason": reason, "count": count} for (node, reason), count in counts.items()]


def parse_interfaces(text: str) -> dict[str, dict[str, int]]:
    """Parse ``show interface``: the counters of each interface that are not zero."""
    found: dict[str, dict[str, int]] = {}
    counters: dict[str, int] = {}
    for line in text.splitlines():
        if row := _INTERFACE.fullmatch(line.rstrip()):
            counters = found.setdefault(row[1], {})
            if row[2]:
                counters[row[2]] = int(row[3])
        elif row := _COUNTER.fullmatch(line.rstrip()):
            counters[row[1]] = int(row[2])
    return found

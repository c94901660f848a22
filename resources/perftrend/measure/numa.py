"""Cores that are on another NUMA node than the ports of their machine, and reach its frames more slowly.

The kernel knows the NUMA nodes of cores and ports. In virtual machines it may not know those of ports, so
that the testbed's file can name them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perftrend.measure.interfaces import Wiring
from perftrend.measure.specification import PortFile, Specification
from perftrend.measure.wiring import run

_UNKNOWN = -1
"""What the kernel reports for a port that belongs to no NUMA node, such as one that is not a card."""
_CORES = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")
# A line for each port, and one for the cores of each NUMA node.
_READ = """
cd "$1" && shift || exit 1
for port; do cat "$port/numa_node" 2>/dev/null || echo -1; done
for folder in devices/system/node/node[0-9]*; do
    [ ! -e "$folder/cpulist" ] || echo "${folder##*/node} $(cat "$folder/cpulist")"
done
"""


@dataclass(frozen=True, slots=True)
class DistantCore:
    """A core that is on another NUMA node than a port."""

    node: str
    """The node of the testbed."""
    core: int
    port: str
    better: str
    """The cores on the NUMA node of the port, such as ``0-15``."""

    def __str__(self) -> str:
        return f"core {self.core} of node {self.node} is on another NUMA node than its port {self.port}"


def find_cores(spec: Specification) -> dict[str, Sequence[int]]:
    """Return the cores that the testbed's file names for the nodes whose ports it names, too."""
    workers = parse_cores(spec.device.options.get("worker_cores", ""))
    found: dict[str, Sequence[int]] = {}
    for name, node in spec.nodes.items():
        own = workers if name in spec.devices else ()
        cores = own or ([node.cpu] if isinstance(node.cpu, int) else [])
        if cores and any(name in cable.ends for cable in spec.links):
            found[name] = cores
    return found


def find_distant_cores(spec: Specification, wiring: Wiring, system: str = "/sys") -> Iterator[DistantCore]:
    """Find the cores that are on another NUMA node than a port of their node.

    :param wiring: it must be open.
    :param system: the folder where the nodes have the file system of the kernel.
    :raises TestbedError: if a node cannot be reached.
    """
    for name, cores in find_cores(spec).items():
        ports = [cable.ends[name] for cable in spec.links if name in cable.ends]
        command = ["sh", "-c", _READ, "sh", system, *map(_folder, ports)]
        lines = run(wiring.at_node(name, command)).splitlines()
        lists = dict(_parse_cores_of_node(line) for line in lines[len(ports) :])
        for port, line in zip(ports, lines, strict=False):
            number = int(line) if port.numa is None else port.numa
            near = lists.get(number, "")
            yield from (
                DistantCore(name, core, port.name, near)
                for core in cores
                if number != _UNKNOWN and near and core not in parse_cores(near)
            )


def _folder(port: PortFile) -> str:
    """Return the folder of a port's device, relative to that of the kernel's file system."""
    if port.pci:
        return f"bus/pci/devices/{port.pci if port.pci.count(':') > 1 else f'0000:{port.pci}'}"
    return f"class/net/{port.interface}/device"


def _parse_cores_of_node(line: str) -> tuple[int, str]:
    number, _, cores = line.partition(" ")
    return int(number), cores


def parse_cores(text: str) -> Sequence[int]:
    """Return the cores of a list such as ``2-5,8``; empty if the text is no list."""
    found: list[int] = []
    for part in text.split(","):
        ends = _CORES.fullmatch(part)
        if not ends or int(ends[2] or ends[1]) < int(ends[1]):
            return ()
        found += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    return found

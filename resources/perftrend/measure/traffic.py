"""The traffic of a test: the sizes of its frames, their headers, its flows and its directions.

A test names the size, and describes everything else by options. Those that concern the device as well, such
as ``vlan``, are options of the device, too. Each generator sends all the traffic that it can, and skips tests
with other traffic.

Lengths are Ethernet lengths including the four bytes of the checksum, as in the usual names (64B, 1518B).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Self

from perftrend import errors

CHECKSUM_BYTES = 4
_IMIX = (64, 570, 64, 64, 570, 64, 64, 570, 64, 1518, 64, 570)
"""The simple IMIX: 64, 570 and 1518 bytes in the ratio 7:4:1, in an order that spreads the long frames."""

SHORTEST, LONGEST = 64, 9000
"""In bytes: the shortest Ethernet frame, and the longest frame that most devices accept."""
USUAL_LONGEST = 1518
"""In bytes: what testbeds are set up for unless a test has longer frames. It is the usual MTU, 1500 bytes."""
_MOST_FRAMES = 24
"""Frames in one round of a pattern: generators prepare whole rounds in memory."""
_SIZE = re.compile(r"([0-9]{1,5})B")
_PATTERN = re.compile(r"[0-9]{1,5}X[0-9]{1,3}(?:\+[0-9]{1,5}X[0-9]{1,3})+")

FORWARDINGS = ("ip4", "ip6", "l2", "l2xc")
"""What a device does: it routes IPv4 or IPv6, bridges by the addresses that it learns, or cross-connects."""
TUNNELS = ("none", "vxlan", "geneve")
LINK_COUNTS = (1, 2, 3, 4)
"""Of the links between a generator and a device. Frames that enter by one leave by the other of its pair.

A link without another one is a pair of its own, which sends all frames back.
"""
NEEDED_LINKS = "1 to 4 links between generator and device (links in the testbed's file)"
VLANS = range(1, 4095)
"""The numbers of VLANs (IEEE 802.1Q): 0 and 4095 are reserved."""
_VLANS = re.compile(r"[0-9]{1,4}(,[0-9]{1,4})*")
PROTOCOLS = ("udp", "tcp")
DEFAULT_FLOWS = 256
_MOST_HOSTS = 65_000
"""In each direction: a network of the traffic has room for so many addresses."""
ETHERNET_BYTES, _VLAN_BYTES = 14, 4
IP_BYTES = {4: 20, 6: 40}
TRANSPORT_BYTES = {"udp": 8, "tcp": 20}
TUNNEL_BYTES = IP_BYTES[4] + TRANSPORT_BYTES["udp"] + 8
"""Headers of IPv4 and UDP, and that of VXLAN (RFC 7348) or GENEVE without options (RFC 8926)."""


@dataclass(frozen=True, slots=True)
class FrameProfile:
    """A named sequence of frame sizes."""

    name: str
    sizes: tuple[int, ...]

    @classmethod
    def parse(cls, name: str) -> FrameProfile:
        """Return the profile with this name.

        :param name: ``64B``, or any other length from 64 to 9000 bytes; ``IMIX``; or a custom pattern of
            lengths and counts, such as ``64x7+570x4+1518x1``.
        :raises SettingsError: for any other name.
        """
        typed = name.upper()
        if typed == "IMIX":
            return cls(typed, _IMIX)
        if size := _SIZE.fullmatch(typed):
            return cls(typed, (_length(name, size[1]),))
        if not _PATTERN.fullmatch(typed):
            nearest = errors.nearest(name, ("64B", "1518B", "IMIX"))
            raise errors.SettingsError(
                f"frame {name!r} is unknown{nearest} Lengths are 64B to 9000B, patterns 64x7+570x4+1518x1"
            )
        shares = [part.split("X") for part in typed.split("+")]
        counts = [(_length(name, size), int(count)) for size, count in shares]
        total = sum(count for _, count in counts)
        if not all(count for _, count in counts) or total > _MOST_FRAMES:
            raise errors.SettingsError(
                f"frame {name!r}: each length must occur at least once, and all at most {_MOST_FRAMES} times"
            )
        return cls(typed.replace("X", "x"), _spread(counts, total))

    @property
    def mean_bytes(self) -> float:
        """Average frame length, including the checksum."""
        return sum(self.sizes) / len(self.sizes)

    @property
    def frame_bytes(self) -> dict[str, str]:
        """The option ``frame_bytes`` of a test with these frames; empty if they have the usual lengths."""
        longest = max(self.sizes)
        return {"frame_bytes": str(longest)} if longest > USUAL_LONGEST else {}


def _length(name: str, digits: str) -> int:
    length = int(digits)
    if not SHORTEST <= length <= LONGEST:
        raise errors.SettingsError(f"frame {name!r}: a frame has from {SHORTEST} to {LONGEST} bytes")
    return length


def _spread(counts: list[tuple[int, int]], total: int) -> tuple[int, ...]:
    """Return the lengths of one round, each spread as evenly as possible."""
    places = [((number + 0.5) * total / count, length) for length, count in counts for number in range(count)]
    return tuple(length for _, length in sorted(places))


@dataclass(frozen=True, slots=True)
class TrafficProfile:
    """The traffic that a generator sends: all directions alike, except for the addresses."""

    frame: FrameProfile
    forwarding: str = "ip4"
    """One of :data:`FORWARDINGS`."""
    protocol: str = "udp"
    flow_count: int = DEFAULT_FLOWS
    """Number of flows in each direction; consecutive frames belong to different ones."""
    vlans: tuple[int, ...] = ()
    """The VLAN of all frames, or that of each link; empty if they have no tag."""
    tunnel: str = "none"
    """One of :data:`TUNNELS`; the device ends the tunnel at one port and begins another at the other."""
    forward_percent: int = 50
    """The share of the frames that are sent into the first port of each pair."""

    @classmethod
    def parse(cls, frame: str, options: Mapping[str, str]) -> Self:
        """Return the traffic of a test.

        :param frame: a name for :meth:`FrameProfile.parse`.
        :param options: the options of the test; those that do not concern traffic are ignored.
        :raises SettingsError: for an invalid value, and for frames that are too short for their headers.
        """
        found = cls(
            FrameProfile.parse(frame),
            forwarding=_word("forwarding", options, FORWARDINGS),
            protocol=_word("protocol", options, PROTOCOLS),
            flow_count=_number("flow_count", options, range(1, 1_000_001), DEFAULT_FLOWS),
            vlans=parse_vlans(options),
            tunnel=_word("tunnel", options, TUNNELS),
            forward_percent=_number("forward_percent", options, range(101), 50),
        )
        found._check()
        return found

    def _check(self) -> None:
        shortest = self.header_bytes + CHECKSUM_BYTES
        if min(self.frame.sizes) < shortest:
            raise errors.SettingsError(
                f"frame {self.frame.name!r}: the headers of this traffic need at least {shortest} bytes"
            )
        if self.tunnel != "none" and not self.is_bridged:
            raise errors.SettingsError(
                f"option tunnel={self.tunnel}: tunnels carry Ethernet frames; write forwarding=l2"
            )
        if self.flow_count != self.hosts * self.ports:
            raise errors.SettingsError(
                f"option flow_count={self.flow_count}: write at most {_MOST_HOSTS}, or a round number, such "
                "as 100000 or 1000000"
            )

    @property
    def options(self) -> dict[str, str]:
        """The options that :meth:`parse` makes this traffic of."""
        others = [each.name for each in fields(self) if each.name not in {"frame", "vlans"}]
        return {
            **{name: str(getattr(self, name)) for name in others},
            "vlan": ",".join(map(str, self.vlans)) or "0",
        }

    @property
    def is_bridged(self) -> bool:
        """Whether a frame has the address of the host behind the other port, and not that of the device."""
        return self.forwarding in {"l2", "l2xc"}

    @property
    def is_for_device(self) -> bool:
        """Whether frames have the MAC address of the device: it routes them, or ends their tunnel."""
        return not self.is_bridged or self.tunnel != "none"

    @property
    def is_ip6(self) -> bool:
        """Whether the inner IP header is one of IPv6; others are of IPv4."""
        return self.forwarding == "ip6"

    @property
    def ip_version(self) -> int:
        """The version of the inner IP header."""
        return 6 if self.is_ip6 else 4

    @property
    def header_bytes(self) -> int:
        """Length of all headers together."""
        tag_bytes = _VLAN_BYTES if self.vlans else 0
        tunnel_bytes = 0 if self.tunnel == "none" else ETHERNET_BYTES + TUNNEL_BYTES
        inner_bytes = ETHERNET_BYTES + IP_BYTES[self.ip_version] + TRANSPORT_BYTES[self.protocol]
        return tag_bytes + tunnel_bytes + inner_bytes

    @property
    def ports(self) -> int:
        """Number of source ports among the flows.

        Flow n has host n modulo :attr:`hosts` and port n modulo this. Both numbers have no common divisor, so
        that all combinations occur, with two counters that need not know of each other.
        """
        for ports in range(1, math.isqrt(self.flow_count) + 1):
            hosts, rest = divmod(self.flow_count, ports)
            if not rest and hosts <= _MOST_HOSTS and math.gcd(hosts, ports) == 1:
                return ports
        return 1

    @property
    def hosts(self) -> int:
        """Number of source and destination addresses among the flows."""
        return min(self.flow_count // self.ports, _MOST_HOSTS)

    def shares(self, links: int) -> tuple[float, ...]:
        """Return the fraction of the frames that are sent into each of 1 to 4 links."""
        pair = 2 / links
        both = (self.forward_percent / 100 * pair, (1 - self.forward_percent / 100) * pair)
        return both * (links // 2) + (1 / links,) * (links % 2)

    def split(self, count: int, links: int) -> tuple[int, ...]:
        """Divide a number of frames between 1 to 4 links."""
        paired, single = links - links % 2, links % 2
        alone = (-(-count // links),) * single
        backward = count * paired * (100 - self.forward_percent) // (100 * links)
        both = (count - sum(alone) - backward, backward)
        if paired <= 2:  # noqa: PLR2004
            return (*both[:paired], *alone)
        return (*(part - part // 2 for part in both), *(part // 2 for part in both))


def opposite(port: int, links: int) -> int:
    """Return the port of the generator where the frames arrive that it sends into a port.

    Links are pairs. Frames of one without another return to the port that they come from.
    """
    other = port ^ 1
    return other if other < links else port


def parse_vlans(options: Mapping[str, str]) -> tuple[int, ...]:
    """Return the VLANs of the option ``vlan``, which is a number, or one for each link; empty if it is 0.

    :raises SettingsError: for an invalid value.
    """
    text = options.get("vlan", "0")
    if text == "0":
        return ()
    found = tuple(map(int, text.split(","))) if _VLANS.fullmatch(text) else (0,)
    if not all(vlan in VLANS for vlan in found):
        raise errors.SettingsError(f"option vlan={text!r}: write a number from 0 to {VLANS.stop - 1}")
    return found


def parse_frame_bytes(options: Mapping[str, str]) -> int:
    """Return the option ``frame_bytes``: the length of the longest frame that is to be forwarded.

    :raises SettingsError: for an invalid value.
    """
    return _number("frame_bytes", options, range(USUAL_LONGEST, LONGEST + 1), USUAL_LONGEST)


def mtu(frame_bytes: int) -> int:
    """Return the MTU of an interface for frames of up to this length."""
    return frame_bytes - ETHERNET_BYTES - CHECKSUM_BYTES


def vlan_of_link(vlans: Sequence[int], link: int) -> int:
    """Return the VLAN of the frames on a link, by its number; 0 if they have no tag.

    :param vlans: the result of :func:`parse_vlans`.
    """
    return vlans[link % len(vlans)] if vlans else 0


TRAFFIC_ONLY = ("flow_count", "forward_percent", "protocol")
"""Options of a test that do not concern the device."""


def _word(name: str, options: Mapping[str, str], known: tuple[str, ...]) -> str:
    value = options.get(name, known[0])
    if value not in known:
        raise errors.SettingsError(f"option {name}={value!r}{errors.nearest(value, known)}")
    return value


def _number(name: str, options: Mapping[str, str], span: range, default: int) -> int:
    value = options.get(name, str(default))
    if not re.fullmatch(r"[0-9]{1,9}", value) or int(value) not in span:
        raise errors.SettingsError(
            f"option {name}={value!r}: write a number from {span.start} to {span.stop - 1}"
        )
    return int(value)

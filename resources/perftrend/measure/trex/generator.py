"""The driver of TRex: trials of bursts with an exact number of frames."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from typing_extensions import override

from perftrend import command_to_install
from perftrend.errors import SettingsError, TestbedError, nearest
from perftrend.measure.embedded.frames import FrameDirection
from perftrend.measure.interfaces import Counters, Link, Node, TrafficGenerator, Wiring
from perftrend.measure.traffic import LINK_COUNTS, NEEDED_LINKS, FrameProfile, TrafficProfile, opposite
from perftrend.measure.trex.streams import PortTraffic, can_measure_latency
from perftrend.measure.wiring import run
from perftrend.measurement import Trial

if TYPE_CHECKING:
    from perftrend.measure.trex.session import PortStatus, TrexSession

REQUEST_PORT, PUBLISHER_PORT = 4501, 4500
"""TCP ports of a server."""
_DEFAULTS = {"ports": "", "force": "no", "core_mask": "", "latency": "no"}
_PORTS = re.compile(r"[0-9]{1,2}(,[0-9]{1,2})*|")
_MASK = re.compile(r"(0x[0-9a-f]{1,16})?")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")

_LINK_S = 10.0
"""How long the links may need after the start of the device."""
_LINK_PAUSE_S = 0.2
_LINE_RATE = 0.99
"""From this fraction of the line rate on, a port rather than TRex sets the pace."""
_PREAMBLE_AND_GAP = 20


class TrexGenerator(TrafficGenerator):
    """The stateless mode of a TRex server that runs on the generator's node.

    Options: ``ports`` (those of the testbed's links, in their order; by default the first ones), ``force``
    (``yes`` takes ports that belong to others), ``core_mask`` (the cores that send, such as ``0x3``),
    ``latency`` (``yes`` measures latency with up to 1,000 frames per second in each direction).
    """

    def __init__(self, wiring: Wiring, node: Node, options: Mapping[str, str]) -> None:
        del node  # the wiring reaches it
        self.version = "TRex"
        self._wiring = wiring
        _check(options)
        self._options = {**_DEFAULTS, **options}
        self._links: Sequence[Link] = wiring.links
        self._ports = _ports(self._options["ports"], len(self._links))
        self.measures_latency = self._options["latency"] == "yes"
        self._connection = contextlib.ExitStack()
        self._session: TrexSession | None = None
        self._traffic = TrafficProfile(FrameProfile.parse("64B"))

    @override
    def open(self) -> None:
        self._connect()

    def _connect(self) -> TrexSession:
        """Return the session with the server, which is a new one after an error."""
        if self._session is None:
            try:
                # pyzmq is an extra.
                from perftrend.measure.trex.session import connected  # noqa: PLC0415
            except ImportError:
                how = command_to_install("trex", "pyzmq")
                raise TestbedError(f"TRex needs more packages; install them with: {how}") from None
            connection = connected(
                self._wiring.forward_generator(REQUEST_PORT),
                self._wiring.forward_generator(PUBLISHER_PORT),
                self._ports,
                force=self._options["force"] == "yes",
                check=lambda: run(self._wiring.at_generator(["true"])),
            )
            self._session = self._connection.enter_context(connection)
            self.version = f"TRex {self._session.version}"
        return self._session

    @override
    def close(self) -> None:
        self._session = None
        self._connection.close()

    @override
    def use(self, traffic: TrafficProfile) -> None:
        self._traffic = traffic
        self.measures_latency = self._options["latency"] == "yes" and can_measure_latency(traffic)
        self._directions(self._connect())

    @override
    def highest_pps(self) -> float:
        # The driver of a virtual port may not know its speed.
        return self._line_rate_pps(_wait_for_links(self._connect())) or float("inf")

    def _line_rate_pps(self, ports: Sequence[PortStatus]) -> float:
        bits_per_frame = 8 * (self._traffic.frame.mean_bytes + _PREAMBLE_AND_GAP)
        return min(
            port.speed_bits_per_s / bits_per_frame / share
            for port, share in zip(ports, self._traffic.shares(len(ports)), strict=True)
            if share
        )

    @override
    def trial(self, rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        try:
            return self._trial(rate_pps, duration_s, fail_above)
        except TestbedError:
            # The server may have been restarted, or others may have the ports: the next trial connects again.
            self.close()
            raise

    def _trial(self, rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        from perftrend.measure.trex.burst import TrexBurst  # noqa: PLC0415 - pyzmq is an extra

        session = self._connect()
        session.stop()
        line_rate_pps = self._line_rate_pps(_wait_for_links(session))
        planned = round(rate_pps * duration_s)
        limit = None if fail_above is None else fail_above * planned
        counts = self._traffic.split(planned, len(session.ports))
        groups, loaded = self._load(session, counts, duration_s)
        burst = TrexBurst(session, counts, duration_s)
        begin = time.monotonic()
        burst.run(loaded, self._core_mask, limit)
        elapsed_s = time.monotonic() - begin
        if limit is not None and burst.ended_early and burst.lost <= limit:
            # Late, not lost: the device has longer queues than assumed. Measure again without an early end.
            again = self._trial(rate_pps, duration_s, None)
            return replace(again, elapsed_s=elapsed_s + again.elapsed_s)
        return Trial(
            rate_pps=rate_pps,
            duration_s=duration_s,
            elapsed_s=elapsed_s,
            sent=sum(burst.sent_each),
            received=sum(burst.received_each),
            invalid=burst.doubt(is_line_rate=rate_pps >= _LINE_RATE * line_rate_pps > 0),
            sending_s=0.0 if burst.ended_early else burst.sending_s,
            sent_each=burst.sent_each,
            received_each=burst.received_each,
            latency=session.latency(groups) if groups else (),
            unsent=burst.unsent,
            unsent_each=burst.unsent_each,
            generator_health=burst.health,
        )

    @property
    def _core_mask(self) -> int | None:
        return int(self._options["core_mask"], 16) if self._options["core_mask"] else None

    def _load(
        self, session: TrexSession, counts: Sequence[int], duration_s: float
    ) -> tuple[list[int], list[int]]:
        """Load the frames into the ports.

        :param counts: number of frames for each port.
        :returns: the packet groups that latency is measured with, and the ports that have frames to send.
        """
        streams = [
            PortTraffic(self._traffic, direction, group if self.measures_latency else None).burst(
                count, duration_s
            )
            for group, (direction, count) in enumerate(
                zip(self._directions(session), counts, strict=True), start=1
            )
        ]
        session.load(streams)
        groups = [group for group, count in enumerate(counts, start=1) if count and self.measures_latency]
        return groups, [port for port, count in zip(session.ports, counts, strict=True) if count]

    def _directions(self, session: TrexSession) -> list[FrameDirection]:
        """Return the addresses of the traffic into each port.

        :raises SettingsError: if the testbed's file lacks an address of the device.
        """
        links = self._links
        sources = [link.generator.mac or mac for link, mac in zip(links, session.hardware_macs, strict=True)]
        destinations = [
            link.device.mac if self._traffic.is_for_device else sources[opposite(place, len(links))]
            for place, link in enumerate(links)
        ]
        for place, mac in enumerate(destinations):
            if not _MAC.fullmatch(mac):
                raise SettingsError(
                    f"link {place + 1} has no MAC address of the device's port (links in the testbed's file)"
                )
        return [
            FrameDirection(place, _bytes(source), _bytes(destination))
            for place, (source, destination) in enumerate(zip(sources, destinations, strict=True))
        ]

    @override
    def busy_processes(self) -> Sequence[int]:
        # TRex reports the load of its cores itself.
        return ()

    @override
    def counters(self) -> Counters:
        return self._session.counters() if self._session else {}


def _check(options: Mapping[str, str]) -> None:
    """Validate the options of a testbed's file. :raises SettingsError: for an unknown name or value."""
    for name, value in options.items():
        if name not in _DEFAULTS:
            raise SettingsError(f"the generator trex has no option {name!r}{nearest(name, _DEFAULTS)}")
        if name in {"force", "latency"} and value not in {"yes", "no"}:
            raise SettingsError(f"generator option {name}={value!r}{nearest(value, ('yes', 'no'))}")
    mask = options.get("core_mask", "")
    if not _MASK.fullmatch(mask):
        raise SettingsError(f"generator option core_mask={mask!r}: write a hexadecimal number, such as 0x3")


def _ports(text: str, links: int) -> list[int]:
    """Return the numbers of the ports of some links, by the option ``ports``.

    :raises SettingsError: if they are not those of the links.
    """
    if links not in LINK_COUNTS:
        raise SettingsError(f"TRex needs {NEEDED_LINKS}")
    if not _PORTS.fullmatch(text):
        raise SettingsError(f"generator option ports={text!r}: write different numbers, such as 0,1")
    found = [int(port) for port in text.split(",")] if text else list(range(links))
    if len(set(found)) != links:
        raise SettingsError(
            f"generator option ports={text!r}: write a different number for each of the {links} links"
        )
    return found


def _wait_for_links(session: TrexSession) -> list[PortStatus]:
    """Return the state of the ports once all have a link. :raises TestbedError: if one does not get it."""
    deadline = time.monotonic() + _LINK_S
    while True:
        found = session.status()
        down = [port for port, status in zip(session.ports, found, strict=True) if not status.link]
        if not down:
            return found
        if time.monotonic() > deadline:
            raise TestbedError(
                f"port {down[0]} of TRex has no link; is the device's port up, and the cable plugged in?"
            )
        time.sleep(_LINK_PAUSE_S)


def _bytes(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))

"""A double of a TRex server in stateless mode, which speaks its protocol over real ZeroMQ.

No registry has a TRex server, and none runs without ports that DPDK can drive. The double is written after
what TRex's official client sends (API STL 5.1), TRex's published documentation of its RPC interface, and the
behaviour of the server of version 3.08: which fields a request needs, what is refused and in which words, how
batches and compressed requests are answered, and how events are numbered per session, retrieved, and lost.

Time is simulated: it passes only while a client waits for events, by ``step_s`` per request for them. What a
test sees therefore does not depend on how busy the machine is.

As a program, it has the arguments of ``t-rex-64``, and the environment selects how it behaves:
``TREX_DOUBLE_LOG``, a file for the methods that were requested; ``TREX_DOUBLE_STUCK``, the number of bursts,
the first ones, that never end, one for each port.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from struct import Struct
from typing import Any

import zmq

from tests.doubles.trex_parameters import EXECUTE, METHOD, PARSE, TRY_AGAIN, RefusedError, typed
from tests.doubles.trex_program import FieldProgram, data_length, parse_program

HEADER = Struct(">II")
MAGIC = 0xABE85CEA
API_VERSION = (5, 1)
MAX_MESSAGE = 999_999
STALLED_S = 10.0
IDLE_S = 0.25
"""Simulated time between two requests for events while no burst runs."""
SMALLEST_HEADER = 16
"""Bytes of payload that a latency stream needs."""

FINISHED, ACQUIRED, RELEASED, ATTRIBUTES_CHANGED, SERVER_STOPPED = 4, 5, 6, 8, 100
PROFILE_STARTED, PROFILE_FINISHED, STARTED, STOPPED, PROFILE_STOPPED = 10, 14, 0, 1, 11


class Clock:
    """The time of a server and its client; replaces the module ``time`` in the client."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class Device:
    """What is between the two ports of a pair: it forwards without loss up to a rate, and loses the rest."""

    capacity_pps: float = float("inf")
    """All directions together."""
    foreign_frames: int = 0
    """Frames of its own that it sends into each port during a burst."""
    late_s: float = 0.0
    """How much later than it was sent a frame is received."""


@dataclass
class Faults:
    """What goes wrong on the server in the next bursts."""

    slowdown: float = 1.0
    """How many times longer a burst takes."""
    queue_full: int = 0
    dropped: int = 0
    cpu_percent: float = 20.0
    link_fails: bool = False
    """Whether the link of the last port fails for a moment during a burst."""
    lost_events: frozenset[int] = frozenset()
    """The kinds of events that are lost on the way to the client."""
    stuck: bool = False
    """Whether a burst never ends."""
    stuck_bursts: int = 0
    """The number of bursts, the first ones, that never end; one for each port."""
    stops: bool = False
    """Whether the server announces its end during a burst."""
    crashes: bool = False
    """Whether the server ends without a word during a burst."""
    thief: str = ""
    """The user who takes a port by force during a burst."""
    busy_answers: int = 0
    """How many requests for the state of a port are answered with "Try again later"."""


@dataclass
class Port:
    owner: str = ""
    session: int = 0
    handler: str = ""
    streams: dict[int, dict[str, Any]] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    link: bool = True
    speed_gbps: float = 10.0
    sent_before: int = 0
    """Frames of earlier bursts."""
    foreign: int = 0
    started_s: float | None = None
    """When the running burst began; None if none runs."""
    stopped: tuple[float, float] | None = None
    """When the last burst began and ended, while frames of it may still be under way."""
    received_before: int = 0

    @property
    def total(self) -> int:
        return sum(stream["mode"]["total_pkts"] for stream in self.streams.values())

    @property
    def state(self) -> str:
        if self.started_s is not None:
            return "TX"
        return "STREAMS" if self.streams else "IDLE"

    @property
    def duration_s(self) -> float:
        return max(
            stream["isg"] / 1e6 + stream["mode"]["total_pkts"] / stream["mode"]["rate"]["value"]
            for stream in self.streams.values()
        )


@dataclass
class Queue:
    events: list[dict[str, Any]] = field(default_factory=list)
    number: int = 0
    asked_s: float = 0.0


class TrexServer:
    """A server with two ports; each is the other end of the device.

    A test can give it four, which are two pairs, or one, to which the device sends back all frames.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self.device = Device()
        self.faults = Faults()
        self.ports = {0: Port(), 1: Port()}
        self.step_s = 0.0
        """Simulated time between two requests for events while a burst runs; 0 to pass it at once."""
        self.requests: list[tuple[str, Mapping[str, Any]]] = []
        self.uncompressed = 0
        """Number of requests that were not compressed."""
        self.hdr_histograms = False
        """Whether it was started with the option ``--hdrh``."""
        self.bursts = 0
        self.queue_full = self.dropped = 0
        self.request_port = self.publisher_port = 0
        self._api = ""
        self._handlers = itertools.count(1)
        self._queues: dict[int, Queue] = {}
        self._thread: threading.Thread | None = None
        self._end = threading.Event()
        self._methods: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            name.removeprefix("_do_"): getattr(self, name) for name in dir(self) if name.startswith("_do_")
        }

    # The server as a process

    def start(self) -> None:
        """Start the server, at the same ports if it is started again, without ownership and streams."""
        self._api = f"api{next(self._handlers)}"
        self._queues = {}
        self.ports = {number: Port(speed_gbps=port.speed_gbps) for number, port in self.ports.items()}
        self._end.clear()
        listening = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=[listening], daemon=True)
        self._thread.start()
        assert listening.wait(30)

    def stop(self) -> None:
        """End the server as a crash does: without a word."""
        self._end.set()
        if self._thread and self._thread is not threading.current_thread():
            self._thread.join()

    def _serve(self, listening: threading.Event) -> None:
        context = zmq.Context()
        requests, self._publisher = context.socket(zmq.REP), context.socket(zmq.PUB)
        requests.linger = self._publisher.linger = 0
        self.request_port = bind(requests, self.request_port)
        self.publisher_port = bind(self._publisher, self.publisher_port)
        listening.set()
        while not self._end.is_set():
            if requests.poll(20):
                response = self.answer(requests.recv())
                if not self._end.is_set():
                    requests.send(response)
        context.destroy(linger=0)

    def answer(self, message: bytes) -> bytes:
        is_compressed = len(message) >= HEADER.size and HEADER.unpack(message[: HEADER.size])[0] == MAGIC
        self.uncompressed += not is_compressed
        if is_compressed:
            message = zlib.decompress(message[HEADER.size :])
        if len(message) > MAX_MESSAGE:
            response: Any = {"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": "too large"}}
        else:
            request = json.loads(message)
            answers = [self._answer(each) for each in (request if isinstance(request, list) else [request])]
            response = answers[0] if len(answers) == 1 else answers
        text = json.dumps(response).encode()
        return HEADER.pack(MAGIC, len(text)) + zlib.compress(text) if is_compressed else text

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert "2.0" == request["jsonrpc"]
        common = {"jsonrpc": "2.0", "id": request["id"]}
        method, parameters = request["method"], request["params"]
        self.requests.append((method, parameters))
        record(method)
        try:
            if method not in self._methods:
                raise RefusedError(METHOD, f"Method {method} not registered")
            if method not in {"api_sync_v2", "get_version", "ping"} and parameters.get("api_h") != self._api:
                raise RefusedError(
                    EXECUTE, "API verification failed - API handler provided mismatch for class: 'STL'"
                )
            return {**common, "result": self._methods[method](parameters)}
        except RefusedError as refusal:
            message = {PARSE: "Bad parameters for method", METHOD: str(refusal)}
            error = {"code": refusal.code, "message": message.get(refusal.code, "Failed To Execute Method")}
            return {**common, "error": {**error, "specific_err": str(refusal)}}

    # Connection

    def _do_api_sync_v2(self, parameters: Mapping[str, Any]) -> Any:
        major, minor = typed(parameters, "major", int), typed(parameters, "minor", int)
        if typed(parameters, "name", str) != "STL" or major != API_VERSION[0] or minor > API_VERSION[1]:
            raise RefusedError(
                EXECUTE, "Version mismatch: your client version is too new to be supported by the server"
            )
        return {"api_h": self._api}

    def _do_get_version(self, _: Mapping[str, Any]) -> Any:
        return {"version": "v3.08", "build_date": "Nov  5 2025", "built_by": "double", "mode": "STL"}

    def _do_get_system_info(self, _: Mapping[str, Any]) -> Any:
        ports = [
            {
                "index": number,
                "driver": "double",
                "pci_addr": f"0000:03:00.{number}",
                "hw_mac": f"02:00:00:00:0E:0{number}",
                "is_fc_supported": True,
                "is_prom_supported": True,
                "rx": {"caps": ["flow_stats", "latency"], "counters": 127},
                "supp_speeds": [10_000],
            }
            for number in self.ports
        ]
        return {"hostname": "lab", "dp_core_count": 2, "port_count": len(ports), "ports": ports}

    # Events

    def _do_publish_now(self, parameters: Mapping[str, Any]) -> Any:
        typed(parameters, "key", int)
        typed(parameters, "baseline", bool)
        self._publisher.send(b'{"name":"trex-global","type":0,"data":{}}')
        self._publisher.send(b"{}")
        return {}

    def _do_get_async_events(self, parameters: Mapping[str, Any]) -> Any:
        queue = self._queues.setdefault(typed(parameters, "session_id", int), Queue())
        found, queue.events = queue.events, []
        self._pass_time()
        found, queue.events = found + queue.events, []
        queue.asked_s = self.clock.now_s
        if self.running():
            # So that the client asks again at once.
            self._publisher.send(b"{}")
        return {"data": found}

    def publish(self, kind: int, **data: Any) -> None:
        """Add an event to the queue of each session, unless the session has not asked for too long."""
        for queue in self._queues.values():
            if not queue.events:
                queue.asked_s = self.clock.now_s
            elif self.clock.now_s - queue.asked_s >= STALLED_S:
                continue
            if kind not in self.faults.lost_events:
                queue.events.append({"name": "trex-event", "type": kind, "data": data, "seq": queue.number})
            queue.number += 1
        self._publisher.send(b"{}")

    def forget_sessions(self) -> None:
        """Forget the events of all sessions, and number the next ones from 0."""
        self._queues = {}

    # Ownership and attributes

    def _do_acquire(self, parameters: Mapping[str, Any]) -> Any:
        port, number = self._port(parameters)
        user, force = typed(parameters, "user", str), typed(parameters, "force", bool)
        session = typed(parameters, "session_id", int)
        if not port.owner or force:
            port.owner, port.session, port.handler = user, session, f"handler{next(self._handlers)}"
        elif port.owner != user:
            raise RefusedError(EXECUTE, f"port is already taken by '{port.owner}'")
        elif port.session != session:
            raise RefusedError(EXECUTE, f"port is already owned by another session of '{user}'")
        self.publish(ACQUIRED, port_id=number, who=user, session_id=session, force=force)
        self._queues.setdefault(session, Queue())
        return port.handler

    def _do_release(self, parameters: Mapping[str, Any]) -> Any:
        port, number = self._owned(parameters)
        self.publish(RELEASED, port_id=number, who=port.owner, session_id=port.session)
        port.owner = port.handler = ""
        return {}

    def _do_set_port_attr(self, parameters: Mapping[str, Any]) -> Any:
        port, _ = self._owned(parameters)
        for name, value in typed(parameters, "attr", dict).items():
            if name not in {"promiscuous", "multicast", "link_status", "flow_ctrl_mode"}:
                raise RefusedError(EXECUTE, f"unknown attribute type: '{name}'")
            port.attributes[name] = value
        return {}

    def _do_get_port_status(self, parameters: Mapping[str, Any]) -> Any:
        port, _ = self._port(parameters)
        if parameters.get("block", True):
            raise RefusedError(
                PARSE, 'Current stack "linux_based" does not support blocking operations. Use newer client'
            )
        if self.faults.busy_answers:
            self.faults.busy_answers -= 1
            raise RefusedError(TRY_AGAIN, "Try again later")
        attributes = {"link": {"up": port.link}, "speed": port.speed_gbps}
        return {"owner": port.owner, "state": port.state, "attr": attributes}

    # Streams

    def _do_remove_all_streams(self, parameters: Mapping[str, Any]) -> Any:
        port, _ = self._owned(parameters)
        if port.started_s is not None:
            raise RefusedError(
                EXECUTE, "command 'remove_and_delete_all_streams' cannot be executed on current state: 'TX'"
            )
        if parameters.get("profile_id", "_") == "_":
            # Others do not exist. The server ignores them, and even "*".
            self._bank()
            port.streams = {}
        return {}

    def _do_add_stream(self, parameters: Mapping[str, Any]) -> Any:
        port, _ = self._owned(parameters)
        number, stream = typed(parameters, "stream_id", int), typed(parameters, "stream", dict)
        if port.started_s is not None:
            raise RefusedError(EXECUTE, "command 'add_stream' cannot be executed on current state: 'TX'")
        if number in port.streams:
            raise RefusedError(EXECUTE, f"stream {number} already exists in profile_id(_)")
        check_stream(stream)
        port.streams[number] = stream
        return {}

    # Traffic

    def _do_start_traffic(self, parameters: Mapping[str, Any]) -> Any:
        port, number = self._owned(parameters)
        typed(parameters, "duration", float)
        force = typed(parameters, "force", bool)
        multiplier = typed(parameters, "mul", dict)
        if not parameters.get("core_mask", 1) & 0b11:
            raise RefusedError(PARSE, "core_mask generates an empty set")
        if (multiplier["type"], multiplier["op"], multiplier["value"]) != ("raw", "abs", 1.0):
            raise RefusedError(PARSE, "the double sends at the rates of the streams only")
        if port.state != "STREAMS":
            raise RefusedError(
                EXECUTE,
                f"command 'start' cannot be executed on current state: '{port.state} on profile_id(_).",
            )
        if not force and not port.link:
            raise RefusedError(EXECUTE, "Link state is DOWN.")
        bits_per_s = sum(
            (len(packet(stream)) + 4 + 20) * 8 * stream["mode"]["rate"]["value"]
            for stream in port.streams.values()
        )
        if not force and bits_per_s > 1.0001e9 * port.speed_gbps:
            raise RefusedError(
                EXECUTE,
                f"Expected L1 B/W: '{bits_per_s / 1e9:g} Gbps' exceeds port line rate: "
                f"'{port.speed_gbps:g} Gbps'",
            )
        for stream in port.streams.values():
            FieldProgram(stream["vm"], packet(stream))
        port.started_s = self.clock.now_s
        port.stopped = None
        self.bursts += 1
        self.publish(PROFILE_STARTED, port_id=number, profile_id="_")
        self.publish(STARTED, port_id=number)
        return {"multiplier": 1.0, "ts": self.clock.now_s}

    def _do_stop_traffic(self, parameters: Mapping[str, Any]) -> Any:
        port, number = self._owned(parameters)
        if port.started_s is not None:
            self._finish(number, [(PROFILE_STOPPED, {"profile_id": "_"}), (STOPPED, {})])
        return {}

    def frames(self, number: int, count: int) -> list[bytes]:
        """Return the first frames of the first stream of a port."""
        stream = self.ports[number].streams[1]
        return list(FieldProgram(stream["vm"], packet(stream)).frames(count))

    def running(self) -> dict[int, Port]:
        return {number: port for number, port in self.ports.items() if port.started_s is not None}

    def _pass_time(self) -> None:
        """Let time pass until the next request for events."""
        running = self.running()
        if not running:
            self.clock.now_s += IDLE_S
            return
        ends = [
            started + self.faults.slowdown * port.duration_s
            for port in running.values()
            if (started := port.started_s) is not None
        ]
        if self.faults.stuck or self.bursts <= self.faults.stuck_bursts:
            self.clock.now_s += 5.0
            return
        self.clock.now_s = min(max(ends), self.clock.now_s + self.step_s) if self.step_s else max(ends)
        self._inject()
        for (number, _), end in zip(running.items(), ends, strict=True):
            if end <= self.clock.now_s + 1e-9:
                self._finish(number, [(PROFILE_FINISHED, {"profile_id": "_"}), (FINISHED, {})])

    def _finish(self, number: int, events: list[tuple[int, dict[str, Any]]]) -> None:
        port = self.ports[number]
        assert port.started_s is not None
        port.stopped, port.started_s = (port.started_s, self.clock.now_s), None
        port.foreign += self.device.foreign_frames
        self.queue_full += self.faults.queue_full
        self.dropped += self.faults.dropped
        for kind, data in events:
            self.publish(kind, port_id=number, **data)

    def _inject(self) -> None:
        last = max(self.ports)
        if self.faults.link_fails:
            for up in (False, True):
                self.publish(ATTRIBUTES_CHANGED, port_id=last, attr={"link": {"up": up}})
        if self.faults.thief:
            port = self.ports[last]
            port.owner, port.session, port.handler = self.faults.thief, 1, "stolen"
            self.publish(ACQUIRED, port_id=last, who=port.owner, session_id=1, force=True)
        if self.faults.crashes:
            self.stop()
        if self.faults.stops:
            self.publish(SERVER_STOPPED, cause="CTRL + C detected")

    # Counters

    def _sent(self, port: Port, at_s: float) -> int:
        """Return how many frames of the last burst a port had sent at a time."""
        span = port.stopped or (port.started_s, at_s)
        if span[0] is None or not port.streams:
            return 0
        elapsed_s = max(0.0, min(at_s, span[1]) - span[0])
        share = elapsed_s / (self.faults.slowdown * port.duration_s)
        dropped = self.faults.dropped if port is self.ports[0] else 0
        return port.total - dropped if share > 1 - 1e-9 else int(port.total * share)

    def _opposite(self, number: int) -> Port:
        """Return the port at the other end of the device, seen from a port."""
        return self.ports[number ^ 1 if len(self.ports) > 1 else number]

    def _forwarded(self, frames: int) -> int:
        """Return how many frames of those sent in one direction the device does not lose."""
        offered_pps = sum(
            stream["mode"]["rate"]["value"]
            for port in self.ports.values()
            for stream in port.streams.values()
        )
        if offered_pps <= self.device.capacity_pps:
            return frames
        return int(frames * Fraction(self.device.capacity_pps) / Fraction(offered_pps))

    def _bank(self) -> None:
        """Add the last bursts to the counters of the earlier ones, before their streams are removed."""
        for number, port in self.ports.items():
            if port.stopped:
                sent = self._sent(port, self.clock.now_s)
                port.sent_before += sent
                self._opposite(number).received_before += self._forwarded(sent)
        for port in self.ports.values():
            port.stopped = None

    def _do_get_port_stats(self, parameters: Mapping[str, Any]) -> Any:
        port, number = self._port(parameters)
        arrived = self._sent(self._opposite(number), self.clock.now_s - self.device.late_s)
        received = port.received_before + self._forwarded(arrived) + port.foreign
        sent = port.sent_before + self._sent(port, self.clock.now_s)
        return {"opackets": sent, "ipackets": received, "oerrors": 0, "ierrors": 0}

    def _do_get_global_stats(self, _: Mapping[str, Any]) -> Any:
        return {
            "m_cpu_util": self.faults.cpu_percent,
            "m_total_queue_full": self.queue_full,
            "m_total_queue_drop": self.dropped,
            "m_total_alloc_error": 0,
        }

    def _do_get_port_xstats_names(self, parameters: Mapping[str, Any]) -> Any:
        self._port(parameters)
        return {"xstats_names": ["rx_missed_errors", "tx_good_packets"]}

    def _do_get_port_xstats_values(self, parameters: Mapping[str, Any]) -> Any:
        port, _ = self._port(parameters)
        return {"xstats_values": [7, port.sent_before + self._sent(port, self.clock.now_s)]}

    def _do_get_pgid_stats(self, parameters: Mapping[str, Any]) -> Any:
        groups = {
            stream["flow_stats"]["stream_id"]: stream["mode"]["total_pkts"]
            for port in self.ports.values()
            for stream in port.streams.values()
            if stream["flow_stats"]["enabled"]
        }
        counts = {group: {4: 1, 12: frames - 3, 230: 2} for group, frames in groups.items()}
        latency = {
            str(group): {
                "lat": {
                    "total_min": 4, "average": 12.5, "total_max": 230, "last_max": 15, "jit": 1,
                    "histogram": {"0": 1, "10": groups[group] - 3, "200": 2},
                    **({"hdrh": hdr_histogram(counts[group])} if self.hdr_histograms else {}),
                },
                "er": {},
            }
            for group in typed(parameters, "pgids", list)
            if group in groups
        }  # fmt: skip
        return {"flow_stats": {}, "latency": latency or None, "ver_id": {}}

    # Parameters

    def _port(self, parameters: Mapping[str, Any]) -> tuple[Port, int]:
        number = typed(parameters, "port_id", int)
        if number not in self.ports:
            known = " ".join(map(str, self.ports))
            raise RefusedError(EXECUTE, f"invalid port id - should be: {known}")
        return self.ports[number], number

    def _owned(self, parameters: Mapping[str, Any]) -> tuple[Port, int]:
        handler = typed(parameters, "handler", str)
        port, number = self._port(parameters)
        if not port.owner:
            raise RefusedError(EXECUTE, "please acquire the port before modifying port state")
        if port.handler != handler:
            raise RefusedError(EXECUTE, "port is not owned by you or your current executing session")
        return port, number


def hdr_histogram(counts: Mapping[int, int]) -> str:
    """Return latencies in microseconds as TRex 3.08 encodes them: 1 us to 10 s, three digits."""
    from hdrh.histogram import HdrHistogram  # noqa: PLC0415 - not all tests with the double have it

    histogram = HdrHistogram(1, 10_000_000, 3)
    for value_us, count in counts.items():
        histogram.record_value(value_us, count)
    return str(histogram.encode().decode())


def check_stream(stream: Mapping[str, Any]) -> None:
    """Refuse what the server refuses. Frames below 60 bytes are padded by it; this double refuses them."""
    for name, kind in {
        "enabled": bool, "self_start": bool, "flags": int, "action_count": int, "isg": float,
        "next_stream_id": int, "mode": dict, "packet": dict, "vm": dict, "flow_stats": dict,
    }.items():  # fmt: skip
        typed(stream, name, kind)
    mode = stream["mode"]
    if typed(mode, "type", str) != "single_burst":
        raise RefusedError(PARSE, f"bad stream type provided: '{mode['type']}'")
    if not 0 < typed(mode, "total_pkts", int) < 2**32:
        raise RefusedError(PARSE, "single_burst: 'total_pkts' cannot be zero.")
    if mode["rate"]["type"] != "pps" or typed(mode["rate"], "value", float) <= 0:
        raise RefusedError(PARSE, "field 'type' has an invalid value")
    length = len(packet(stream))
    if not 60 <= length <= 9 * 1024 + 22:
        raise RefusedError(EXECUTE, f"Bad packet size provided: {length}. Should be between 60 and 9238")
    parse_program(stream["vm"])
    if typed(stream["flow_stats"], "enabled", bool):
        typed(stream["flow_stats"], "stream_id", int)
        assert typed(stream["flow_stats"], "rule_type", str) == "latency"
        if data_length(packet(stream)) < SMALLEST_HEADER:
            raise RefusedError(EXECUTE, f"Need at least {SMALLEST_HEADER} payload bytes for payload rules.")


def packet(stream: Mapping[str, Any]) -> bytes:
    return base64.b64decode(stream["packet"]["binary"])


def bind(socket: zmq.Socket[bytes], port: int) -> int:
    """Bind to a port of this machine; if it is 0, to any."""
    if not port:
        return socket.bind_to_random_port("tcp://127.0.0.1")
    socket.bind(f"tcp://127.0.0.1:{port}")
    return port


@contextmanager
def serving() -> Iterator[TrexServer]:
    """Run a server while the block runs."""
    server = TrexServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()


def record(method: str) -> None:
    if path := os.environ.get("TREX_DOUBLE_LOG"):
        with Path(path).open("a") as log:
            log.write(f"{method}\n")


def main(arguments: list[str]) -> None:
    if arguments != ["-i"]:
        sys.exit("ERROR, you must provide either a traffic file or -i; the double knows -i only")
    server = TrexServer()
    server.request_port, server.publisher_port = 4501, 4500
    server.faults.stuck_bursts = int(os.environ.get("TREX_DOUBLE_STUCK", "0"))
    server.start()
    print(f"server of the double listens at {server.request_port}", flush=True)  # noqa: T201 - a program
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1:])

"""Options of the device, and the start-up configuration that VPP gets from them.

VPP accepts its configuration as arguments, in the syntax of ``startup.conf``, so that no file is needed on
the node. Source: "VPP Configuration File - startup.conf" of the VPP documentation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from perftrend.errors import SettingsError
from perftrend.measure.interfaces import DeviceAbilities, Port, check_options
from perftrend.measure.numa import parse_cores
from perftrend.measure.traffic import (
    FORWARDINGS,
    LONGEST,
    TUNNELS,
    USUAL_LONGEST,
    parse_frame_bytes,
    parse_vlans,
)

_NUMBERS = {
    "buffers": range(1_024, 10_000_001),
    "main_core": range(1_024),
    "workers": range(65),
}
_WORDS = {"hugepages": ("yes", "no")}
_ABILITIES = DeviceAbilities(
    "VPP",
    FORWARDINGS,
    one_link=("ip4", "ip6"),
    acl_rules=FORWARDINGS,
    routes=("ip4", "ip6"),
    tunnel=("vxlan", "geneve"),
    vlan=True,
    vlan_per_link=("ip4", "ip6"),
    cores=64,
    receive_queues=64,
    longest_frame=LONGEST,
)
_PATH = re.compile(r"/[a-zA-Z0-9_./+-]+")
_TEXTS = {
    "api_dir": (_PATH, "an absolute path"),
    "commands": (re.compile(r"[ -~]*"), "commands of VPP, separated by semicolons, in ASCII"),
    "dpdk": (
        re.compile(r"[a-zA-Z0-9_ .,:/=-]*"),
        "words of the section dpdk of startup.conf, without braces",
    ),
    "plugins": (
        re.compile(r"[a-z0-9_]+(,[a-z0-9_]+)*"),
        "names of plugins without _plugin.so, such as acl,nat",
    ),
    "program": (_PATH, "an absolute path"),
    "runtime_dir": (_PATH, "an absolute path"),
    "worker_cores": (
        re.compile(r"[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*"),
        "cores, such as 2-5,8",
    ),
}

SHARED_MEMORY = "perftrend-vpp"
"""Prefix of VPP's files in /dev/shm; other instances on the node have another one."""


@dataclass(frozen=True, slots=True)
class VppOptions:
    """The options of a start of VPP; ``docs/testbeds.rst`` describes them."""

    forwarding: str
    routes: int
    acl_rules: int
    frame_bytes: int
    vlans: tuple[int, ...]
    tunnel: str
    receive_queues: int | None
    workers: int
    worker_cores: tuple[int, ...]
    main_core: int | None
    buffers: int | None
    hugepages: bool | None
    plugins: tuple[str, ...]
    dpdk: str
    commands: tuple[str, ...]
    program: str
    api_dir: str
    runtime_dir: str

    @classmethod
    def parse(cls, options: Mapping[str, str], cpu: int | None = None) -> Self:
        """Return the options with their defaults.

        :param cpu: the core of the node, for the main thread if the options name none.
        :raises SettingsError: for an invalid option.
        """
        check_options(options, numbers=_NUMBERS, words=_WORDS, texts=tuple(_TEXTS))
        for name, (pattern, form) in _TEXTS.items():
            if name in options and not pattern.fullmatch(options[name]):
                raise SettingsError(f"device option {name}={options[name]!r}: write {form}")
        cores = _cores(options.get("worker_cores", ""))
        workers = _workers(options, len(cores))
        main_core = int(options["main_core"]) if "main_core" in options else cpu
        found = cls(
            forwarding=options.get("forwarding", "ip4"),
            routes=int(options.get("routes", 0)),
            acl_rules=int(options.get("acl_rules", 0)),
            frame_bytes=parse_frame_bytes(options),
            vlans=parse_vlans(options),
            tunnel=options.get("tunnel", TUNNELS[0]),
            receive_queues=int(options["receive_queues"]) if "receive_queues" in options else None,
            workers=workers,
            worker_cores=cores[:workers],
            main_core=main_core,
            buffers=int(options["buffers"]) if "buffers" in options else None,
            hugepages=options["hugepages"] == "yes" if "hugepages" in options else None,
            plugins=tuple(name for name in options.get("plugins", "").split(",") if name),
            dpdk=options.get("dpdk", ""),
            commands=tuple(
                command.strip() for command in options.get("commands", "").split(";") if command.strip()
            ),
            program=options.get("program", "/usr/bin/vpp"),
            api_dir=options.get("api_dir", "/usr/share/vpp/api"),
            runtime_dir=options.get("runtime_dir", "/run/perftrend/vpp"),
        )
        found._check_cores(len(cores))
        return found

    def _check_cores(self, listed: int) -> None:
        if listed and self.workers > listed:
            raise SettingsError(
                f"device option workers={self.workers}: the option worker_cores has only {listed} cores"
            )
        if self.worker_cores and self.main_core is None:
            raise SettingsError("device option worker_cores needs main_core, the core of the main thread")
        if self.main_core in self.worker_cores:
            raise SettingsError(
                f"device option main_core={self.main_core}: worker_cores has the same core; choose another"
            )
        if self.routes and self.forwarding not in {"ip4", "ip6"}:
            raise SettingsError(f"device option routes: forwarding={self.forwarding} uses no routes; omit it")

    @property
    def ip_version(self) -> int:
        """The version of IP that VPP routes."""
        return 6 if self.forwarding == "ip6" else 4

    @property
    def api_socket(self) -> str:
        """The socket of the binary API on the node."""
        return f"{self.runtime_dir}/api.sock"


def lacks(options: Mapping[str, str], links: int) -> str:
    """Return why VPP cannot run a test with these valid options; empty if it can."""
    listed, cores = len(_cores(options.get("worker_cores", ""))), int(options.get("cores", "1"))
    if listed and cores > listed:
        return f"VPP does not support cores={cores}: the option worker_cores has {listed}"
    has_one_buffer = "no-multi-seg" in options.get("dpdk", "").split()
    # A buffer of VPP has 2,048 bytes.
    abilities = replace(_ABILITIES, longest_frame=USUAL_LONGEST) if has_one_buffer else _ABILITIES
    return abilities.lacks(options, links)


def _workers(options: Mapping[str, str], listed: int) -> int:
    """Return the number of workers: the test's ``cores``; if that is one, the main thread may do their work.

    :param listed: the number of cores in ``worker_cores``.
    """
    if "cores" not in options:
        return int(options.get("workers", listed))
    cores = int(options["cores"])
    return cores if listed or cores > 1 else 0


def _cores(text: str) -> tuple[int, ...]:
    """Return the cores of a list such as ``2-5,8``."""
    found = parse_cores(text)
    if text and not found:
        raise SettingsError(f"device option worker_cores={text!r}: write {_TEXTS['worker_cores'][1]}")
    return tuple(found)


def startup_configuration(options: VppOptions, ports: Sequence[Port]) -> list[str]:
    """Return the arguments of VPP: a section of its configuration each.

    Ports with a PCI address get the names ``port0`` and so on.
    """
    folder = options.runtime_dir
    has_dpdk = any(port.pci for port in ports)
    sections = {
        "unix": f"nodaemon nosyslog nocolor runtime-dir {folder} cli-listen {folder}/cli.sock",
        "socksvr": f"socket-name {options.api_socket}",
        "api-segment": f"prefix {SHARED_MEMORY}",
        "statseg": f"socket-name {folder}/stats.sock size {_statistics_mb(options)}M",
        # VPP's default is 1 GB; a route takes up to 2 KB in the main heap.
        "memory": f"main-heap-size {1_024 + options.routes // 512}M",
        "cpu": _cpu(options),
        "buffers": _buffers(options, has_dpdk=has_dpdk),
        "plugins": _plugins(options, has_dpdk=has_dpdk),
        "dpdk": _dpdk(options, ports) if has_dpdk else "",
    }
    if options.forwarding == "ip6" and options.routes:
        buckets = 1 << (options.routes - 1).bit_length()
        sections["ip6"] = f"hash-buckets {buckets} heap-size {64 + options.routes // 1_024}M"
    return [f"{name} {{ {text} }}" for name, text in sections.items() if text]


def _statistics_mb(options: VppOptions) -> int:
    """Return the size of the statistics segment, where each thread counts the packets of each route."""
    return 96 + options.routes * (options.workers + 1) // 8_192


def _cpu(options: VppOptions) -> str:
    words = [] if options.main_core is None else [f"main-core {options.main_core}"]
    if options.worker_cores:
        words.append(f"corelist-workers {','.join(map(str, options.worker_cores))}")
    elif options.workers:
        words.append(f"workers {options.workers}")
    return " ".join(words)


def _buffers(options: VppOptions, *, has_dpdk: bool) -> str:
    words = [] if options.buffers is None else [f"buffers-per-numa {options.buffers}"]
    if not _uses_hugepages(options, has_dpdk=has_dpdk):
        words.append("page-size default")
    return " ".join(words)


def _plugins(options: VppOptions, *, has_dpdk: bool) -> str:
    if not options.plugins:
        # Without a list of its own, DPDK takes every unused port of the node.
        return "" if has_dpdk else "plugin dpdk_plugin.so { disable }"
    needed = {*options.plugins, "dpdk" if has_dpdk else "af_packet"}
    if options.acl_rules:
        needed.add("acl")
    if options.tunnel != TUNNELS[0]:
        needed.add(options.tunnel)
    enabled = [f"plugin {name}_plugin.so {{ enable }}" for name in sorted(needed)]
    return " ".join(["plugin default { disable }", *enabled])


def _dpdk(options: VppOptions, ports: Sequence[Port]) -> str:
    queues = receive_queues(options, len(ports))
    words = [
        f"dev {_pci(port)} {{ name {vpp_name(number, port)} num-rx-queues {queues} }}"
        for number, port in enumerate(ports)
        if port.pci
    ]
    if not _uses_hugepages(options, has_dpdk=True):
        words.append("no-hugetlb")
    return " ".join([*words, options.dpdk]).strip()


def receive_queues(options: VppOptions, ports: int) -> int:
    """Return the receive queues of a port: by default, so many that each worker has at least one."""
    return options.receive_queues or max(1, -(-options.workers // ports))


def vpp_name(number: int, port: Port) -> str:
    """Return the name of a port in VPP."""
    return f"port{number}" if port.pci else f"host-{port.interface}"


def _pci(port: Port) -> str:
    """Return the PCI address with its domain, which VPP requires."""
    return port.pci if port.pci.count(":") > 1 else f"0000:{port.pci}"


def _uses_hugepages(options: VppOptions, *, has_dpdk: bool) -> bool:
    return has_dpdk if options.hugepages is None else options.hugepages

"""A double of FD.io VPP, as a program: its start-up arguments, its binary API, and some of its command line.

Debian has no package of VPP. What is here, and what it refuses, follows its source of August 2026:
``src/vlibmemory/socket_api.c`` (frames of the socket), the ``*.api`` files (names, fields and checksums of
the messages), ``src/vlib/cli.c``, ``node_cli.c`` and ``error.c``, ``src/vnet/interface.c``,
``interface_api.c`` and ``interface_format.c``, and ``src/plugins/acl/acl.c``, ``vxlan/vxlan.c`` and
``geneve/geneve.c``. It forwards no packets: its counters show one burst for each time they are read.

The environment selects what a node has: ``VPP_DOUBLE_API``, the folder of its definitions;
``VPP_DOUBLE_PORTS``, the interfaces of its kernel, by default the real ones; ``VPP_DOUBLE_LOG``, a file for
what it was requested; ``VPP_DOUBLE_FAULT``: ``mute`` creates no socket, ``slow`` rejects the first
connections, ``no-link`` has no link on any interface; ``VPP_DOUBLE_REFUSES``, a message that it refuses.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

VERSION = "26.10-rc0~123-gabcdef012"
FRAME = struct.Struct(">QII")
CREATE, CREATED = 15, 16
"""``VL_API_SOCKCLNT_CREATE`` and its reply have fixed numbers, as the table of all others is in the reply."""
SECTIONS = {
    "api-segment", "buffers", "cpu", "dpdk", "ip6", "memory", "plugins", "socksvr", "statseg", "unix"
}  # fmt: skip
PLUGINS = ("acl", "geneve", "vxlan")
BURST = 256

INDEX = "vl_api_interface_index_t"
REQUEST = [["u16", "_vl_msg_id"], ["u32", "client_index"], ["u32", "context"]]
REPLY = [["u16", "_vl_msg_id"], ["u32", "context"]]
RETVAL = [*REPLY, ["i32", "retval"]]
CREATED_INTERFACE = [*RETVAL, [INDEX, "sw_if_index"], "0x5383d31f"]
PLAIN = "0xe8d4e804"
"""The checksum of all replies that have only a retval."""

ALIASES = {
    "interface_index": {"type": "u32"},
    "mac_address": {"type": "u8", "length": 6},
    "ip4_address": {"type": "u8", "length": 4},
    "ip6_address": {"type": "u8", "length": 16},
    "address_with_prefix": {"type": "vl_api_prefix_t"},
}
ENUMS = [
    ["address_family", ["ADDRESS_IP4", 0], ["ADDRESS_IP6", 1], {"enumtype": "u8"}],
    ["if_status_flags", ["IF_STATUS_API_FLAG_ADMIN_UP", 1], ["IF_STATUS_API_FLAG_LINK_UP", 2],
     {"enumtype": "u32"}],
    ["ip_neighbor_flags", ["IP_API_NEIGHBOR_FLAG_NONE", 0], ["IP_API_NEIGHBOR_FLAG_STATIC", 1],
     {"enumtype": "u8"}],
    ["l2_port_type", ["L2_API_PORT_TYPE_NORMAL", 0], ["L2_API_PORT_TYPE_BVI", 1], {"enumtype": "u32"}],
    ["acl_action", ["ACL_ACTION_API_DENY", 0], ["ACL_ACTION_API_PERMIT", 1], {"enumtype": "u8"}],
    ["ip_proto", ["IP_API_PROTO_HOPOPT", 0], ["IP_API_PROTO_UDP", 17], {"enumtype": "u8"}],
]  # fmt: skip
UNIONS = [["address_union", ["vl_api_ip4_address_t", "ip4"], ["vl_api_ip6_address_t", "ip6"]]]
TYPES = [
    ["address", ["vl_api_address_family_t", "af"], ["vl_api_address_union_t", "un"]],
    ["prefix", ["vl_api_address_t", "address"], ["u8", "len"]],
    ["message_table_entry", ["u16", "index"], ["string", "name", 64]],
    ["ip_neighbor", [INDEX, "sw_if_index"], ["vl_api_ip_neighbor_flags_t", "flags"],
     ["vl_api_mac_address_t", "mac_address"], ["vl_api_address_t", "ip_address"]],
    ["acl_rule", ["vl_api_acl_action_t", "is_permit"], ["vl_api_prefix_t", "src_prefix"],
     ["vl_api_prefix_t", "dst_prefix"], ["vl_api_ip_proto_t", "proto"],
     ["u16", "srcport_or_icmptype_first"], ["u16", "srcport_or_icmptype_last"],
     ["u16", "dstport_or_icmpcode_first"], ["u16", "dstport_or_icmpcode_last"],
     ["u8", "tcp_flags_mask"], ["u8", "tcp_flags_value"]],
]  # fmt: skip
MESSAGES: dict[str, list[list[Any]]] = {
    "memclnt": [
        ["sockclnt_create", ["u16", "_vl_msg_id"], ["u32", "context"], ["string", "name", 64], "0x455fb9c4"],
        ["sockclnt_create_reply", ["u16", "_vl_msg_id"], ["u32", "client_index"], ["u32", "context"],
         ["i32", "response"], ["u32", "index"], ["u16", "count"],
         ["vl_api_message_table_entry_t", "message_table", 0, "count"], "0x35166268"],
        ["sockclnt_delete", *REQUEST, ["u32", "index"], "0x8ac76db6"],
        ["sockclnt_delete_reply", *REPLY, ["i32", "response"], "0x8f38b1ee"],
        ["control_ping", *REQUEST, "0x51077d14"],
        ["control_ping_reply", *RETVAL, ["u32", "client_index"], ["u32", "vpe_pid"], "0xf6b0b8ca"],
    ],
    "vlib": [
        ["cli_inband", *REQUEST, ["string", "cmd", 0], "0xf8377302"],
        ["cli_inband_reply", *RETVAL, ["string", "reply", 0], "0x05879051"],
    ],
    "vpe": [
        ["show_version", *REQUEST, "0x51077d14"],
        ["show_version_reply", *RETVAL, ["string", "program", 32], ["string", "version", 32],
         ["string", "build_date", 32], ["string", "build_directory", 256], "0xc919bde1"],
    ],
    "interface": [
        ["sw_interface_dump", *REQUEST, [INDEX, "sw_if_index", {"default": 0xFFFFFFFF}],
         ["bool", "name_filter_valid"], ["string", "name_filter", 0], "0xaa610c27"],
        ["sw_interface_details", *REPLY, [INDEX, "sw_if_index"], ["u32", "sup_sw_if_index"],
         ["vl_api_mac_address_t", "l2_address"], ["vl_api_if_status_flags_t", "flags"], ["u32", "type"],
         ["u32", "link_duplex"], ["u32", "link_speed"], ["u16", "link_mtu"], ["u32", "mtu", 4],
         ["u32", "sub_id"], ["u8", "sub_number_of_tags"], ["u16", "sub_outer_vlan_id"],
         ["u16", "sub_inner_vlan_id"], ["u32", "sub_if_flags"], ["u32", "vtr_op"],
         ["u32", "vtr_push_dot1q"], ["u32", "vtr_tag1"], ["u32", "vtr_tag2"], ["u16", "outer_tag"],
         ["vl_api_mac_address_t", "b_dmac"], ["vl_api_mac_address_t", "b_smac"], ["u16", "b_vlanid"],
         ["u32", "i_sid"], ["string", "interface_name", 64], ["string", "interface_dev_type", 64],
         ["string", "tag", 64], "0x6c221fc7"],
        ["sw_interface_set_flags", *REQUEST, [INDEX, "sw_if_index"], ["vl_api_if_status_flags_t", "flags"],
         "0xf5aec1b8"],
        ["sw_interface_set_flags_reply", *RETVAL, PLAIN],
        ["sw_interface_set_mac_address", *REQUEST, [INDEX, "sw_if_index"],
         ["vl_api_mac_address_t", "mac_address"], "0xc536e7eb"],
        ["sw_interface_set_mac_address_reply", *RETVAL, PLAIN],
        ["sw_interface_add_del_address", *REQUEST, [INDEX, "sw_if_index"], ["bool", "is_add"],
         ["bool", "del_all"], ["vl_api_address_with_prefix_t", "prefix"], "0x5463d73b"],
        ["sw_interface_add_del_address_reply", *RETVAL, PLAIN],
        ["create_vlan_subif", *REQUEST, [INDEX, "sw_if_index"], ["u32", "vlan_id"], "0xaf34ac8b"],
        ["create_vlan_subif_reply", *CREATED_INTERFACE],
    ],
    "ip_neighbor": [
        ["ip_neighbor_add_del", *REQUEST, ["bool", "is_add"], ["vl_api_ip_neighbor_t", "neighbor"],
         "0x0607c257"],
        ["ip_neighbor_add_del_reply", *RETVAL, ["u32", "stats_index"], "0x1992deab"],
    ],
    "ip6_nd": [
        ["sw_interface_ip6nd_ra_config", *REQUEST, [INDEX, "sw_if_index"], ["u8", "suppress"],
         ["u8", "managed"], ["u8", "other"], ["u8", "ll_option"], ["u8", "send_unicast"], ["u8", "cease"],
         ["bool", "is_no"], ["u8", "default_router"], ["u32", "max_interval"], ["u32", "min_interval"],
         ["u32", "lifetime"], ["u32", "initial_count"], ["u32", "initial_interval"], "0x3eb00b1c"],
        ["sw_interface_ip6nd_ra_config_reply", *RETVAL, PLAIN],
    ],
    "l2": [
        ["sw_interface_set_l2_xconnect", *REQUEST, [INDEX, "rx_sw_if_index"], [INDEX, "tx_sw_if_index"],
         ["bool", "enable", {"default": "true"}], "0x4fa28a85"],
        ["sw_interface_set_l2_xconnect_reply", *RETVAL, PLAIN],
        ["sw_interface_set_l2_bridge", *REQUEST, [INDEX, "rx_sw_if_index"], ["u32", "bd_id"],
         ["vl_api_l2_port_type_t", "port_type"], ["u8", "shg"], ["bool", "enable", {"default": "true"}],
         "0xd0678b13"],
        ["sw_interface_set_l2_bridge_reply", *RETVAL, PLAIN],
    ],
    "acl": [
        ["acl_add_replace", *REQUEST, ["u32", "acl_index"], ["string", "tag", 64], ["u32", "count"],
         ["vl_api_acl_rule_t", "r", 0, "count"], "0xee5c2f18"],
        ["acl_add_replace_reply", *REPLY, ["u32", "acl_index"], ["i32", "retval"], "0xac407b0c"],
        ["acl_interface_set_acl_list", *REQUEST, [INDEX, "sw_if_index"], ["u8", "count"], ["u8", "n_input"],
         ["u32", "acls", 0, "count"], "0x473982bd"],
        ["acl_interface_set_acl_list_reply", *RETVAL, PLAIN],
    ],
    "vxlan": [
        ["vxlan_add_del_tunnel_v3", *REQUEST, ["bool", "is_add", {"default": "true"}],
         ["u32", "instance", {"default": 0xFFFFFFFF}], ["vl_api_address_t", "src_address"],
         ["vl_api_address_t", "dst_address"], ["u16", "src_port"], ["u16", "dst_port"],
         [INDEX, "mcast_sw_if_index"], ["u32", "encap_vrf_id"], ["u32", "decap_next_index"], ["u32", "vni"],
         ["bool", "is_l3", {"default": False}], "0x0072b037"],
        ["vxlan_add_del_tunnel_v3_reply", *CREATED_INTERFACE],
    ],
    "geneve": [
        ["geneve_add_del_tunnel2", *REQUEST, ["bool", "is_add"], ["vl_api_address_t", "local_address"],
         ["vl_api_address_t", "remote_address"], [INDEX, "mcast_sw_if_index"], ["u32", "encap_vrf_id"],
         ["u32", "decap_next_index"], ["u32", "vni"], ["bool", "l3_mode"], "0x8c2a9999"],
        ["geneve_add_del_tunnel2_reply", *CREATED_INTERFACE],
    ],
}  # fmt: skip
UNSPECIFIED = -1
INVALID_INDEX, NO_SUCH_ENTRY, INVALID_INDEX_2, INVALID_SOURCE = -2, -6, -10, -57
IP6_NOT_ENABLED, DUPLICATE = -62, -127
INVALID_VLAN, VLAN_EXISTS, TUNNEL_EXISTS, SAME_ENDS = -55, -56, -75, -82

Fields = dict[str, Any]


def write_definitions(folder: Path) -> None:
    """Write the ``*.api.json`` files of this build. Each has all types, as VPP's have those that they use."""
    types = {"types": TYPES, "enums": ENUMS, "unions": UNIONS, "aliases": ALIASES}
    for module, messages in MESSAGES.items():
        services = {
            name: {"reply": f"{name}_reply"}
            for name, *_ in messages
            if not name.endswith(("_reply", "_details"))
        }
        if module == "interface":
            services["sw_interface_dump"] = {"reply": "sw_interface_details", "stream": True}
        checked = [[*message[:-1], {"crc": message[-1]}] for message in messages]
        place = folder / ("plugins" if module in PLUGINS else "core") / f"{module}.api.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps({"module": module, "messages": checked, "services": services, **types}))


class RefusalError(Exception):
    """What VPP prints if it refuses a command."""


class Vpp:
    """The state of an instance, its commands, and the handlers of its messages."""

    def __init__(self, sections: dict[str, str]) -> None:
        self.names = ["local0"]
        self.macs = [bytes(6)]
        self.flags = [0]
        self.supers = [0]
        self.addresses: dict[str, int] = {}
        self.acls: list[int] = []
        self.tunnels: list[tuple[str, object, object, int]] = []
        self.kernel = os.environ.get("VPP_DOUBLE_PORTS")
        self.fault = os.environ.get("VPP_DOUBLE_FAULT", "")
        self.bursts = 0
        cpu = sections.get("cpu", "")
        listed = re.search(r"corelist-workers (\S+)", cpu)
        counted = re.search(r"\bworkers (\d+)", cpu)
        self.workers = len(listed[1].split(",")) if listed else int(counted[1]) if counted else 0

    # ---- messages

    def control_ping(self, request: Fields) -> Fields:
        return {"vpe_pid": os.getpid()}

    def show_version(self, request: Fields) -> Fields:
        return {"program": "vpe", "version": VERSION, "build_date": "2026-08-22", "build_directory": "/vpp"}

    def cli_inband(self, request: Fields) -> Fields:
        record(request["cmd"])
        try:
            return {"reply": self.command(request["cmd"])}
        except RefusalError as refusal:
            return {"retval": -1, "reply": f"{refusal}\n"}

    def sw_interface_dump(self, request: Fields) -> list[Fields]:
        return [
            {
                "sw_if_index": index,
                "sup_sw_if_index": self.supers[index],
                "l2_address": self.macs[index],
                "flags": self.flags[index],
                "mtu": [9000, 0, 0, 0],
                "b_dmac": bytes(6),
                "b_smac": bytes(6),
                "interface_name": name,
            }
            for index, name in enumerate(self.names)
        ]

    def sw_interface_set_flags(self, request: Fields) -> Fields:
        index, is_up = request["sw_if_index"], request["flags"] & 1
        if not self.has(index):
            return {"retval": INVALID_INDEX}
        if is_up and self.supers[index] != index and not self.flags[self.supers[index]] & 1:
            return {"retval": UNSPECIFIED}
        self.flags[index] = 3 if is_up and self.fault != "no-link" else is_up
        return {}

    def sw_interface_set_mac_address(self, request: Fields) -> Fields:
        if not self.has(request["sw_if_index"]):
            return {"retval": INVALID_INDEX}
        self.macs[request["sw_if_index"]] = request["mac_address"].packed
        return {}

    def sw_interface_add_del_address(self, request: Fields) -> Fields:
        address = str(request["prefix"])
        if not self.has(request["sw_if_index"]):
            return {"retval": INVALID_INDEX}
        if self.addresses.setdefault(address, request["sw_if_index"]) != request["sw_if_index"]:
            return {"retval": DUPLICATE}
        record(f"address {self.names[request['sw_if_index']]} {address}")
        return {}

    def ip_neighbor_add_del(self, request: Fields) -> Fields:
        host = request["neighbor"]
        if not self.has(host.sw_if_index):
            return {"retval": INVALID_INDEX}
        record(
            f"neighbor {self.names[host.sw_if_index]} {host.ip_address} {host.mac_address} "
            f"{'static' if host.flags & 1 else 'dynamic'}"
        )
        return {}

    def sw_interface_ip6nd_ra_config(self, request: Fields) -> Fields:
        index = request["sw_if_index"]
        if not self.has(index):
            return {"retval": INVALID_INDEX}
        if index not in [held for address, held in self.addresses.items() if ":" in address]:
            return {"retval": IP6_NOT_ENABLED}
        record(f"advertisements {self.names[index]} {'off' if request['suppress'] else 'on'}")
        return {}

    def create_vlan_subif(self, request: Fields) -> Fields:
        index, vlan = request["sw_if_index"], request["vlan_id"]
        if not self.has(index):
            return {"retval": INVALID_INDEX}
        if not 0 < vlan < 4096:
            return {"retval": INVALID_VLAN}
        name = f"{self.names[index]}.{vlan}"
        if name in self.names:
            return {"retval": VLAN_EXISTS}
        record(f"vlan {name}")
        return {"sw_if_index": self.add_interface(name, self.macs[index], super_index=index)}

    def vxlan_add_del_tunnel_v3(self, request: Fields) -> Fields:
        return self.add_tunnel("vxlan", request["src_address"], request["dst_address"], request)

    def geneve_add_del_tunnel2(self, request: Fields) -> Fields:
        return self.add_tunnel("geneve", request["local_address"], request["remote_address"], request)

    def add_tunnel(self, kind: str, own: object, peer: object, request: Fields) -> Fields:
        if own == peer:
            return {"retval": SAME_ENDS}
        if not request["is_add"]:
            return {"retval": NO_SUCH_ENTRY}
        ends = (kind, own, peer, request["vni"])
        if ends in self.tunnels:
            return {"retval": TUNNEL_EXISTS}
        number = sum(tunnel[0] == kind for tunnel in self.tunnels)
        self.tunnels.append(ends)
        is_l2 = request["decap_next_index"] == 0xFFFFFFFF and not request.get("is_l3", request.get("l3_mode"))
        record(f"{kind} {own} {peer} vni {request['vni']} {'l2' if is_l2 else 'drop'}")
        return {"sw_if_index": self.add_interface(f"{kind}_tunnel{number}", bytes(6), flags=3)}

    def add_interface(self, name: str, mac: bytes, *, super_index: int | None = None, flags: int = 0) -> int:
        index = len(self.names)
        self.names.append(name)
        self.macs.append(mac)
        self.flags.append(flags)
        self.supers.append(index if super_index is None else super_index)
        return index

    def sw_interface_set_l2_xconnect(self, request: Fields) -> Fields:
        receives, sends = request["rx_sw_if_index"], request["tx_sw_if_index"]
        if not self.has(receives):
            return {"retval": INVALID_INDEX}
        if not self.has(sends):
            return {"retval": INVALID_INDEX_2}
        record(f"xconnect {self.names[receives]} {self.names[sends]} {request['enable']}")
        return {}

    def sw_interface_set_l2_bridge(self, request: Fields) -> Fields:
        if not self.has(request["rx_sw_if_index"]):
            return {"retval": INVALID_INDEX}
        record(f"bridge {self.names[request['rx_sw_if_index']]} {request['bd_id']} {request['enable']}")
        return {}

    def acl_add_replace(self, request: Fields) -> Fields:
        rules = request["r"]
        if any(rule.src_prefix.version != rule.dst_prefix.version for rule in rules):
            return {"retval": INVALID_SOURCE}
        if request["acl_index"] != 0xFFFFFFFF:
            return {"retval": NO_SUCH_ENTRY}
        self.acls.append(len(rules))
        record(f"acl {len(rules)} rules, {sum(rule.is_permit for rule in rules)} permit")
        return {"acl_index": len(self.acls) - 1}

    def acl_interface_set_acl_list(self, request: Fields) -> Fields:
        if not self.has(request["sw_if_index"]):
            return {"retval": INVALID_INDEX}
        if any(acl >= len(self.acls) for acl in request["acls"]):
            return {"retval": NO_SUCH_ENTRY}
        record(f"acl {self.names[request['sw_if_index']]} input {request['acls'][: request['n_input']]}")
        return {}

    def has(self, index: int) -> bool:
        return index < len(self.names)

    # ---- commands

    def command(self, text: str) -> str:
        commands: dict[str, Callable[[str], str]] = {
            "create host-interface": self.create_host_interface,
            "create bridge-domain": lambda rest: f"bridge-domain {rest.split()[0]}\n",
            "set interface mtu": self.set_mtu,
            "ip route add": self.add_route,
            "clear runtime": self.clear_runtime,
            "show runtime": self.show_runtime,
            "show errors": self.show_errors,
            "show interface": self.show_interface,
        }
        for path, run in commands.items():
            if text == path or text.startswith(f"{path} "):
                return run(text.removeprefix(path).strip())
        raise RefusalError(f"unknown input `{text}'")

    def create_host_interface(self, rest: str) -> str:
        given = re.fullmatch(r"name (\S+)(?: hw-addr ([0-9a-f:]{17}))?(?: num-rx-queues (\d+))?", rest)
        if not given:
            raise RefusalError(f"create host-interface: unknown input `{rest}'")
        if f"host-{given[1]}" in self.names:
            raise RefusalError("create host-interface: Interface already exists")
        try:
            exists = given[1] in self.kernel.split(",") if self.kernel else socket.if_nametoindex(given[1])
        except OSError:
            exists = False
        if not exists:
            raise RefusalError("create host-interface: Invalid interface name")
        self.add_interface(
            f"host-{given[1]}", bytes.fromhex((given[2] or "02:fe:00:00:00:01").replace(":", ""))
        )
        return f"host-{given[1]}\n"

    def set_mtu(self, rest: str) -> str:
        given = re.fullmatch(r"(\d+) (\S+)", rest)
        if not given or given[2] not in self.names or not 64 <= int(given[1]) <= 9216:
            raise RefusalError(f"set interface mtu: unknown input `{rest}'")
        return ""

    def add_route(self, rest: str) -> str:
        given = re.fullmatch(r"(\S+)(?: count (\d+))? via (\S+) (\S+)", rest)
        if not given or given[4] not in self.names:
            raise RefusalError(f"ip route: unknown input `{rest}'")
        try:
            ipaddress.ip_network(given[1])
        except ValueError:
            return f"Invalid prefix len: {given[1].rpartition('/')[2]}\n"
        count = int(given[2] or 1)
        return f"{count / 0.5:.6e} routes/sec\n" if count > 1 else ""

    def clear_runtime(self, rest: str) -> str:
        self.bursts = 0
        return ""

    def show_runtime(self, rest: str) -> str:
        self.bursts += 1
        packets = f"{self.bursts:16}{BURST * self.bursts:16}{0:16}"
        nodes = "".join(
            f"{name:30}{state:^12}{packets}{clocks:16.2e}{BURST:16.2f}\n"
            for name, state, clocks in [
                ("af-packet-input", "interrupt wa", 812.5), ("ip4-lookup", "active", 31.25),
            ]
        )  # fmt: skip
        idle = f"{'api-rx-from-ring':30}{'any wait':^12}{0:16}{0:16}{18:16}{1.97e5:16.2e}{0:16.2f}\n"
        head = (
            "Time 1.0, 10 sec internal node vector rate 256.00 loops/sec 3212.50\n"
            "  vector rates in 2.5600e2, out 2.5600e2, drop 0.0000e0, punt 0.0000e0\n"
            f"{'Name':^30}{'State':^12}{'Calls':^16}{'Vectors':^16}{'Suspends':^16}{'Packet-Clocks':^16}"
            f"{'Vectors/Call':^16}\n"
        )
        if not self.workers:
            return head + idle + nodes
        threads = ["Thread 0 vpp_main (lcore 0)\n" + head + idle]
        threads += [
            f"Thread {number + 1} vpp_wk_{number} (lcore {number + 1})\n{head}{nodes}"
            for number in range(self.workers)
        ]
        return "---------------\n".join(threads)

    def show_errors(self, rest: str) -> str:
        rows = [
            (3, "ip4-input", "ip4 ttl <= 1", "error"),
            (7, "host-d1-output", "interface is down", "error"),
            (2, "ip4-input", "ip4 ttl <= 1", "error"),
        ]
        head = f"{'Count':^10}{'Node':^35}{'Reason':^35}{'Severity':^10}\n"
        return head + "".join(
            f"{count:10}{node:^35}{reason:^35}{level:^10}\n" for count, node, reason, level in rows
        )

    def show_interface(self, rest: str) -> str:
        text = (
            f"{'Name':^32}{'Idx':^5}{'State':^10}{'MTU (L3/IP4/IP6/MPLS)':^21}{'Counter':^16}{'Count':^16}\n"
        )
        for index, name in enumerate(self.names):
            state = "up" if self.flags[index] & 1 else "down"
            text += f"{name:32}{index:^5}{state:^10}{'9000/0/0/0':^21}"
            if index:
                text += f"{'rx packets':16}{BURST:16}\n{'':68}{'rx-miss':16}{9:16}"
            text += "\n"
        return text


def record(line: str) -> None:
    if path := os.environ.get("VPP_DOUBLE_LOG"):
        with Path(path).open("a") as log:
            log.write(f"{line}\n")


def sections_of(text: str) -> dict[str, str]:
    """Return the sections ``NAME { … }`` of a configuration."""
    found = {}
    while text := text.strip():
        begin = re.match(r"([\w-]+) \{", text)
        if not begin or begin[1] not in SECTIONS:
            sys.exit(f"vlib_call_all_config_functions: unknown input `{text[:60]} '")
        depth, end = 1, begin.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        found[begin[1]] = text[begin.end() : end - 1].strip()
        text = text[end:]
    return found


def check_cores(cpu: str) -> None:
    main_core = re.search(r"main-core (\d+)", cpu)
    if "corelist-workers" in cpu and not main_core:
        sys.exit("main-core must be specified when using corelist-workers or coremask-workers attribute")
    if main_core and int(main_core[1]) not in os.sched_getaffinity(0):
        sys.exit(f"could not pin main thread to cpu {main_core[1]}")


class Api:
    """The messages of this build, with the numbers that it gives them."""

    def __init__(self, vpp: Vpp) -> None:
        from vpp_papi.vpp_papi import VPPApiJSONFiles  # noqa: PLC0415 - definitions are written without it

        self.vpp = vpp
        self.lock = threading.Lock()
        _, self.messages, self.services = VPPApiJSONFiles.load_api(apidir=os.environ["VPP_DOUBLE_API"])
        self.names = {CREATE: "sockclnt_create", CREATED: "sockclnt_create_reply"}
        others = [name for name in self.messages if name not in self.names.values()]
        self.names |= dict(enumerate(others, CREATED + 1))
        self.numbers = {name: number for number, name in self.names.items()}

    def serve(self, path: str) -> None:
        """Answer clients until this process is ended."""
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            if self.vpp.fault == "slow":
                time.sleep(0.5)
            server.listen()
            if self.vpp.fault == "slow":
                server.accept()[0].close()
            for index in range(1, 1 << 30):
                client, _ = server.accept()
                threading.Thread(target=Session(self, client, index).run, daemon=True).start()


class Session:
    """A client, and what it may send."""

    def __init__(self, api: Api, client: socket.socket, index: int) -> None:
        self.api, self.client, self.index = api, client, index

    def run(self) -> None:
        with self.client, self.client.makefile("rb") as stream:
            while header := stream.read(FRAME.size):
                _, length, _ = FRAME.unpack(header)
                body = stream.read(length)
                with self.api.lock:
                    self.answer(body)

    def answer(self, body: bytes) -> None:
        # VPP does not check checksums here: the table of numbers that it has sent has them in its names.
        name = self.api.names.get(int.from_bytes(body[:2], "big"))
        if name is None or (name != "sockclnt_create" and int.from_bytes(body[2:6], "big") != self.index):
            return  # An unknown message, or another client: VPP logs it and does not reply.
        request = self.api.messages[name].unpack(body)[0]._asdict()
        if name == "sockclnt_create":
            table = [
                {"index": number, "name": f"{other}_{self.api.messages[other].crc[2:]}"}
                for number, other in self.api.names.items()
            ]
            fields = {"response": 0, "index": self.index, "count": len(table), "message_table": table}
            self.send("sockclnt_create_reply", request, fields)
        elif name == "sockclnt_delete":
            self.send("sockclnt_delete_reply", request, {"response": 0})
        else:
            is_refused = name == os.environ.get("VPP_DOUBLE_REFUSES")
            replies = {"retval": UNSPECIFIED} if is_refused else getattr(self.api.vpp, name)(request)
            for reply in replies if isinstance(replies, list) else [replies]:
                self.send(self.api.services[name]["reply"], request, reply)

    def send(self, name: str, request: Fields, fields: Fields) -> None:
        header = {"_vl_msg_id": self.api.numbers[name], "context": request["context"]}
        packed = self.api.messages[name].pack(header | fields)
        self.client.sendall(FRAME.pack(0, len(packed), 0) + packed)


def work(number: int) -> None:
    Path("/proc/thread-self/comm").write_text(f"vpp_wk_{number}")
    threading.Event().wait()


def main(arguments: list[str]) -> None:
    sections = sections_of(" ".join(arguments))
    folder = re.search(r"runtime-dir (\S+)", sections["unix"])
    path = re.search(r"socket-name (\S+)", sections["socksvr"])
    assert folder
    assert path
    check_cores(sections.get("cpu", ""))
    record(" ".join(arguments))
    Path(folder[1]).mkdir(parents=True, exist_ok=True)
    vpp = Vpp(sections)
    for device in re.findall(r"dev (\S+)", sections.get("dpdk", "")):
        sys.stderr.write(f"dpdk       [warn  ]: Unsupported PCI device {device}\n")
    for number in range(vpp.workers):
        threading.Thread(target=work, args=[number], daemon=True).start()
    if vpp.fault == "mute":
        sys.stderr.write("svmdb      [error ]: couldn't map the API segment\n")
        time.sleep(1e6)
    Api(vpp).serve(path[1])


if __name__ == "__main__":
    main(sys.argv[1:])

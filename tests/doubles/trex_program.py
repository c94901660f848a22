"""The field programs of the double of a TRex server: what it refuses, and the frames that they make.

A program changes the packet of a stream for each frame. Written after the source of version 3.08: the
requests (``trex_stl_rpc_cmds.cpp``), the compiler (``trex_stl_stream_vm.cpp``), what a core executes
(``trex_stl_stream_vm.h``), and how cores share a stream (``trex_stl_vm_splitter.cpp``). The work of the
network card, which completes checksums, is done by the double as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.doubles.trex_parameters import EXECUTE, PARSE, RefusedError, bounded, choice, typed

FARTHEST_CHANGE = 512
MOST_VARIABLE_BYTES = 64
TYPES = ("fix_checksum_hw", "fix_checksum_ipv4", "flow_var", "write_flow_var", "write_mask_flow_var")
"""Those that the double knows."""
UDP_TYPE, TCP_TYPE, IP_TYPE = 11, 13, 17
UDP, TCP = 17, 6
L4_BYTES = {UDP: 8, TCP: 20}


def parse_program(program: Mapping[str, Any]) -> None:
    """Refuse what the server refuses when the stream is added."""
    for instruction in typed(program, "instructions", list):
        match choice(instruction, "type", TYPES):
            case "flow_var":
                parse_variable(instruction)
            case "write_flow_var":
                parse_write(instruction)
            case "write_mask_flow_var":
                parse_write(instruction)
                bounded(instruction, "pkt_cast_size", 16)
                bounded(instruction, "mask", 32)
                typed(instruction, "shift", int)
            case "fix_checksum_ipv4":
                bounded(instruction, "pkt_offset", 16)
            case "fix_checksum_hw":
                for name in ("l2_len", "l3_len", "l4_type"):
                    bounded(instruction, name, 16)


def parse_variable(instruction: Mapping[str, Any]) -> None:
    typed(instruction, "name", str)
    size = choice(instruction, "size", (1, 2, 4, 8))
    choice(instruction, "op", ("inc",))
    step = bounded(instruction, "step", 64)
    init, low, high = (bounded(instruction, name, 64) for name in ("init_value", "min_value", "max_value"))
    if step == 0:
        raise RefusedError(PARSE, "VM: step cannot be 0")
    if high < low:
        raise RefusedError(
            PARSE, f"VM: requested flow var max value: '{high}' is smaller than min value: {low}"
        )
    if not low <= init <= high:
        raise RefusedError(PARSE, f"VM: requested flow var init value: '{init}' should be in range")
    if max(init, high, step) >= 256**size:
        raise RefusedError(PARSE, f"VM: requested value is bigger than {256**size - 1}")
    if (high - low + 1) % step:
        raise RefusedError(PARSE, "the double does not pad ranges")


def parse_write(instruction: Mapping[str, Any]) -> None:
    typed(instruction, "name", str)
    bounded(instruction, "pkt_offset", 16)
    typed(instruction, "add_value", int)
    typed(instruction, "is_big_endian", bool)


@dataclass
class Variable:
    """A counter; the first frame has its first value."""

    size: int
    low: int
    high: int
    value: int
    step: int

    def advance(self) -> None:
        self.value = self.low + (self.value - self.low + self.step) % (self.high - self.low + 1)


class FieldProgram:
    """A program for the packet of a stream.

    :param cores: number of cores that share the stream; ``core`` is the number of this one.
    :raises RefusedError: if the server cannot compile it, which it does when the stream is started.
    """

    def __init__(self, program: Mapping[str, Any], packet: bytes, *, cores: int = 1, core: int = 0) -> None:
        self._instructions = program["instructions"]
        self._packet = packet
        self._variables: dict[str, Variable] = {}
        for number, instruction in enumerate(self._instructions):
            if instruction["type"] == "flow_var":
                self._add_variable(number, instruction, cores, core)
        for number, instruction in enumerate(self._instructions):
            end = self._end_of_change(number, instruction)
            if end > FARTHEST_CHANGE:
                raise RefusedError(EXECUTE, f"maximum offset is{end} bigger than maximum {FARTHEST_CHANGE}")

    def _add_variable(self, number: int, instruction: Mapping[str, Any], cores: int, core: int) -> None:
        name = instruction["name"]
        if name in self._variables:
            raise RefusedError(EXECUTE, f"instruction id '{number}' flow variable name {name} already exists")
        low, high = instruction["min_value"], instruction["max_value"]
        count, step = high - low + 1, instruction["step"]
        # The core's first value is reached by the first step.
        before = (instruction["init_value"] - low + (core - cores) * step) % count
        self._variables[name] = Variable(instruction["size"], low, high, low + before, cores * step)
        if sum(variable.size for variable in self._variables.values()) > MOST_VARIABLE_BYTES:
            raise RefusedError(EXECUTE, "too many flow variables")

    def _end_of_change(self, number: int, instruction: Mapping[str, Any]) -> int:
        """Return the end of the bytes that an instruction changes; 0 if it changes none."""
        match instruction["type"]:
            case "write_flow_var":
                end: int = instruction["pkt_offset"] + self._size_of_variable(number, instruction)
            case "write_mask_flow_var":
                self._size_of_variable(number, instruction)
                if instruction["pkt_cast_size"] not in {1, 2, 4}:
                    raise RefusedError(EXECUTE, f"instruction id '{number} cast size should be 1,2,4")
                end = instruction["pkt_offset"] + instruction["pkt_cast_size"]
            case "fix_checksum_ipv4":
                offset = instruction["pkt_offset"]
                end = offset + 20
                if end <= len(self._packet):
                    end = offset + max(20, header_length(self._packet[offset:]))
            case "fix_checksum_hw":
                end = self._end_of_headers(number, instruction)
            case _:
                return 0
        if end > len(self._packet):
            raise RefusedError(
                EXECUTE, f"instruction id '{number}' end {end} bigger than packet size {len(self._packet)}"
            )
        return end

    def _size_of_variable(self, number: int, instruction: Mapping[str, Any]) -> int:
        name = instruction["name"]
        if name not in self._variables:
            raise RefusedError(
                EXECUTE,
                f"instruction id '{number}' packet write with no valid flow variable name '{name}'",
            )
        return self._variables[name].size

    def _end_of_headers(self, number: int, instruction: Mapping[str, Any]) -> int:
        """Return the end of the headers whose checksums the network card computes."""
        l2_len, l3_len, l4_type = (instruction[name] for name in ("l2_len", "l3_len", "l4_type"))
        if l4_type == IP_TYPE:
            raise RefusedError(EXECUTE, "the double computes no checksum of IPv4 alone")
        if l2_len < 14:
            raise RefusedError(
                EXECUTE, f"instruction id '{number}' fix hw offset l2 {l2_len}  is lower than 14"
            )
        if l3_len < 20:
            raise RefusedError(
                EXECUTE, f"instruction id '{number}' fix hw offset l3 {l3_len}  is lower than 20"
            )
        if l2_len + l3_len > len(self._packet):
            raise RefusedError(EXECUTE, f"instruction id '{number}' fix hw command offsets are too high")
        packet = self._packet[l2_len:]
        if packet[0] >> 4 == 4:
            if header_length(packet) != l3_len:
                raise RefusedError(
                    EXECUTE, f"instruction id '{number}' fix hw command IPv4 header size is not valid"
                )
            if packet[9] not in L4_BYTES:
                raise RefusedError(
                    EXECUTE, f"instruction id '{number}' fix hw command L4 should be TCP or UDP"
                )
            protocol = packet[9]
        elif packet[0] >> 4 == 6:
            if l4_type not in {UDP_TYPE, TCP_TYPE}:
                raise RefusedError(
                    EXECUTE,
                    f"instruction id '{number}' fix hw command offsets should be TCP or UDP for IPv6",
                )
            protocol = TCP if l4_type == TCP_TYPE else UDP
        else:
            raise RefusedError(
                EXECUTE, f"instruction id '{number}' fix hw command should work on IPv4 or IPv6"
            )
        return int(l2_len + l3_len + L4_BYTES[protocol])

    def frames(self, count: int) -> Iterator[bytes]:
        """Return the next frames of this core."""
        for _ in range(count):
            frame = bytearray(self._packet)
            for instruction in self._instructions:
                self._execute(instruction, frame)
            yield bytes(frame)

    def _execute(self, instruction: Mapping[str, Any], frame: bytearray) -> None:
        match instruction["type"]:
            case "flow_var":
                self._variables[instruction["name"]].advance()
            case "write_flow_var":
                variable = self._variables[instruction["name"]]
                value = (variable.value + instruction["add_value"]) % 256**variable.size
                write(frame, instruction, variable.size, value)
            case "write_mask_flow_var":
                self._write_masked(instruction, frame)
            case "fix_checksum_ipv4":
                fix_ip4(frame, instruction["pkt_offset"])
            case "fix_checksum_hw":
                fix_all(frame, instruction["l2_len"], instruction["l3_len"], instruction["l4_type"])

    def _write_masked(self, instruction: Mapping[str, Any], frame: bytearray) -> None:
        value = (self._variables[instruction["name"]].value + instruction["add_value"]) % 2**32
        shift, mask, size = instruction["shift"], instruction["mask"], instruction["pkt_cast_size"]
        value = value << shift if shift > 0 else value >> -shift
        order = "big" if instruction["is_big_endian"] else "little"
        offset = instruction["pkt_offset"]
        found = int.from_bytes(frame[offset : offset + size], order)  # type: ignore[arg-type]
        write(frame, instruction, size, (found & ~mask | value & mask) % 256**size)


def write(frame: bytearray, instruction: Mapping[str, Any], size: int, value: int) -> None:
    offset = instruction["pkt_offset"]
    frame[offset : offset + size] = value.to_bytes(size, "big" if instruction["is_big_endian"] else "little")


def header_length(packet: bytes | bytearray) -> int:
    """Return the length of an IPv4 header."""
    return 4 * (packet[0] & 0xF)


def fix_ip4(frame: bytearray, offset: int) -> None:
    """Write the checksum of an IPv4 header."""
    end = offset + header_length(frame[offset:])
    frame[offset + 10 : offset + 12] = bytes(2)
    frame[offset + 10 : offset + 12] = checksum(frame[offset:end])


def fix_all(frame: bytearray, l2_len: int, l3_len: int, l4_type: int) -> None:
    """Write the checksums of IP and of the protocol in it, as the network card does."""
    packet, l4 = frame[l2_len:], l2_len + l3_len
    if packet[0] >> 4 == 4:
        fix_ip4(frame, l2_len)
        addresses, protocol = packet[12:20], packet[9]
        length = int.from_bytes(packet[2:4], "big") - l3_len
    else:
        addresses, protocol = packet[8:40], TCP if l4_type == TCP_TYPE else UDP
        length = int.from_bytes(packet[4:6], "big") + 40 - l3_len
    place = l4 + (16 if protocol == TCP else 6)
    frame[place : place + 2] = bytes(2)
    pseudo_header = addresses + length.to_bytes(4, "big") + bytes((0, 0, 0, protocol))
    found = checksum(pseudo_header + frame[l4 : l4 + length])
    frame[place : place + 2] = b"\xff\xff" if protocol == UDP and found == bytes(2) else found


def checksum(data: bytes | bytearray) -> bytes:
    """Return the Internet checksum of data (RFC 1071)."""
    even = bytes(data) + bytes(len(data) % 2)
    total = sum(int.from_bytes(even[place : place + 2], "big") for place in range(0, len(even), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (~total & 0xFFFF).to_bytes(2, "big")


def data_length(packet: bytes) -> int:
    """Return the number of bytes behind the headers, outside of any tunnel.

    :raises RefusedError: if the server does not know a header.
    """
    place = 14
    while (kind := packet[place - 2 : place]) == b"\x81\0":
        place += 4
    if kind == b"\x08\0":
        protocol, place = packet[place + 9], place + header_length(packet[place:])
    elif kind == b"\x86\xdd":
        protocol, place = packet[place + 6], place + 40
    else:
        raise RefusedError(
            EXECUTE, "Failed parsing given packet for flow stat. NIC does not support given L2"
        )
    return len(packet) - place - L4_BYTES[protocol]

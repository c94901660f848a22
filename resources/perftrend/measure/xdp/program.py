"""A BPF program that the kernel runs with frames of its own, and the memory that it shares with this process.

The program comes as instructions, so that neither a compiler nor a library is needed (bpf(2)).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
from pathlib import Path

INSTRUCTIONS = Path(__file__).with_name("pacer.bpf.bin")

# linux/bpf.h
LOAD_64_BITS = 0x18
"""``BPF_LD | BPF_IMM | BPF_DW``, an instruction of twice the usual length."""
MAP_VALUE = 2
"""``BPF_PSEUDO_MAP_VALUE``, the source register of a reference to the value of a map."""
_INSTRUCTION_BYTES = 8
_MAP_CREATE, _PROG_LOAD, _PROG_TEST_RUN = 0, 5, 10
_MAP_TYPE_ARRAY = 2
_F_MMAPABLE = 1 << 10
_PROG_TYPE_XDP = 6
_F_TEST_XDP_LIVE_FRAMES = 1 << 1
_MOST_RUNS = 2**32 - 1
_ATTRIBUTES_BYTES = 128

_SYSTEM_CALL = {"x86_64": 321, "aarch64": 280}.get(platform.machine(), -1)
"""The number of bpf(2); elsewhere the call fails, as it does on a kernel without it."""
_libc = ctypes.CDLL(None, use_errno=True)


class LiveProgram:
    """A loaded XDP program.

    :param instructions: of a program with one global variable, as :mod:`perftrend.measure.xdp.build` writes
        them.
    :param size: of the global variable, in bytes.
    :raises OSError: if the kernel refuses it.
    """

    def __init__(self, instructions: bytes, size: int) -> None:
        self._map = _bpf(_MAP_CREATE, struct.pack("=5I", _MAP_TYPE_ARRAY, 4, size, 1, _F_MMAPABLE))
        try:
            self._program = _load(instructions, self._map)
            self.variable = mmap.mmap(self._map, size)
            """The global variable: the program and this process see the changes of each other at once."""
        except BaseException:
            os.close(self._map)
            raise

    def run(self, frame: bytes, runs: int = _MOST_RUNS) -> None:
        """Run the program, each time with a frame of this content, until a signal arrives.

        The frame may have the content that an earlier run has written.
        """
        content = ctypes.create_string_buffer(frame, len(frame))
        attributes = struct.pack(
            "=4I2Q4I2Q3I",
            *(self._program, 0, len(frame), 0, ctypes.addressof(content), 0),
            *(runs, 0, 0, 0, 0, 0),
            *(_F_TEST_XDP_LIVE_FRAMES, 0, 0),
        )
        try:
            _bpf(_PROG_TEST_RUN, attributes)
        except InterruptedError:
            return

    def close(self) -> None:
        """Release the program; the memory exists as long as it is used."""
        os.close(self._program)
        os.close(self._map)


def _load(instructions: bytes, map_descriptor: int) -> int:
    code = bytearray(instructions)
    for offset in range(0, len(code), _INSTRUCTION_BYTES):
        if code[offset] == LOAD_64_BITS and code[offset + 1] >> 4 == MAP_VALUE:
            struct.pack_into("=i", code, offset + 4, map_descriptor)
    content = ctypes.create_string_buffer(bytes(code), len(code))
    licence = ctypes.create_string_buffer(b"Apache-2.0")
    attributes = struct.pack(
        "=2I2Q",
        *(_PROG_TYPE_XDP, len(code) // _INSTRUCTION_BYTES),
        *(ctypes.addressof(content), ctypes.addressof(licence)),
    )
    return _bpf(_PROG_LOAD, attributes)


def _bpf(command: int, attributes: bytes) -> int:
    """Call bpf(2). :raises OSError: if it fails."""
    buffer = ctypes.create_string_buffer(attributes, _ATTRIBUTES_BYTES)
    result: int = _libc.syscall(_SYSTEM_CALL, command, buffer, _ATTRIBUTES_BYTES)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result

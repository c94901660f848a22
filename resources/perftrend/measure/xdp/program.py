"""A BPF program that the kernel runs with frames of its own, and the memory that it shares with this process.

The program comes as instructions, so that measuring needs neither a compiler nor a library (bpf(2)). The file
has them as the kernel loads them, except the file descriptor of the map: each reference to the global
variable becomes one to the value of a map (``BPF_PSEUDO_MAP_VALUE``).

``python -m perftrend.measure.xdp.program`` compiles ``pacer.bpf.c`` into ``pacer.bpf.bin``. It needs clang 14
(Debian 12: apt-get install clang-14); other versions may choose other instructions. ``pacer.bpf.sha256`` has
the checksums of both, so that a source that was changed without this is noticed even without a compiler.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import platform
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

INSTRUCTIONS = Path(__file__).with_name("pacer.bpf.bin")
SOURCE = INSTRUCTIONS.with_name("pacer.bpf.c")
CHECKSUMS = INSTRUCTIONS.with_name("pacer.bpf.sha256")
COMPILER = "clang-14"

# linux/bpf.h
_LOAD_64_BITS = 0x18
"""``BPF_LD | BPF_IMM | BPF_DW``, an instruction of twice the usual length."""
_MAP_VALUE = 2
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

_FLAGS = ("-target", "bpf", "-mcpu=v3", "-O2", "-Wall", "-Wextra", "-Werror")

# elf.h
_SECTIONS_AT, _SECTION_COUNT_AT = 40, 60
_SECTION = struct.Struct("<2I4Q2I2Q")
_PROGBITS, _REL = 1, 9
_REL_ENTRY = struct.Struct("<2Q")
_R_BPF_64_64 = 1


class LiveProgram:
    """A loaded XDP program.

    :param instructions: of a program with one global variable, as :func:`read_instructions` returns them.
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
        if code[offset] == _LOAD_64_BITS and code[offset + 1] >> 4 == _MAP_VALUE:
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


def compile_program() -> bytes:
    """Compile the program and return its instructions."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "pacer.o"
        subprocess.run([COMPILER, *_FLAGS, "-c", str(SOURCE), "-o", str(target)], check=True)
        return read_instructions(target.read_bytes())


def read_instructions(elf: bytes) -> bytes:
    """Return the instructions of an object file with one program and one global variable."""
    sections = list(_sections(elf))
    [program] = [content for kind, content in sections if kind == _PROGBITS and content]
    [references] = [content for kind, content in sections if kind == _REL]
    code = bytearray(program)
    for offset, info in _REL_ENTRY.iter_unpack(references):
        if code[offset] != _LOAD_64_BITS or info & 0xFFFFFFFF != _R_BPF_64_64:
            raise ValueError(f"instruction at {offset} is not a reference to the global variable")
        # The offset within the variable, which the compiler wrote to the first half, belongs in the second.
        code[offset + 12 : offset + 16] = code[offset + 4 : offset + 8]
        code[offset + 4 : offset + 8] = bytes(4)
        code[offset + 1] |= _MAP_VALUE << 4
    return bytes(code)


def _sections(elf: bytes) -> Iterator[tuple[int, bytes]]:
    """Return the type and the content of each section."""
    [first] = struct.unpack_from("<Q", elf, _SECTIONS_AT)
    [count] = struct.unpack_from("<H", elf, _SECTION_COUNT_AT)
    for number in range(count):
        _, kind, _, _, offset, size, *_ = _SECTION.unpack_from(elf, first + number * _SECTION.size)
        yield kind, elf[offset : offset + size]


def checksums() -> str:
    """Return the checksums of the source and the instructions, as sha256sum(1) writes them."""
    files = (SOURCE, INSTRUCTIONS)
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)


def main() -> int:
    """Write the files that are shipped."""
    INSTRUCTIONS.write_bytes(compile_program())
    CHECKSUMS.write_text(checksums())
    return 0


if __name__ == "__main__":
    sys.exit(main())

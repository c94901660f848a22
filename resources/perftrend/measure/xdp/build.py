"""Compiles ``pacer.bpf.c`` into ``pacer.bpf.bin``: ``python -m perftrend.measure.xdp.build``.

It needs clang 14 (Debian 12: apt-get install clang-14). Other versions may choose other instructions. The
result is shipped, so that measuring needs no compiler.

``pacer.bpf.sha256`` has the checksums of both, so that a source that was changed without this is noticed even
without a compiler.

The file has the instructions as the kernel loads them, except the file descriptor of the map: each reference
to the global variable becomes one to the value of a map (``BPF_PSEUDO_MAP_VALUE``).
"""

from __future__ import annotations

import hashlib
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from perftrend.measure.xdp.program import INSTRUCTIONS, LOAD_64_BITS, MAP_VALUE

COMPILER = "clang-14"
SOURCE = INSTRUCTIONS.with_name("pacer.bpf.c")
CHECKSUMS = INSTRUCTIONS.with_name("pacer.bpf.sha256")
_FLAGS = ("-target", "bpf", "-mcpu=v3", "-O2", "-Wall", "-Wextra", "-Werror")

# elf.h
_SECTIONS_AT, _SECTION_COUNT_AT = 40, 60
_SECTION = struct.Struct("<2I4Q2I2Q")
_PROGBITS, _REL = 1, 9
_REL_ENTRY = struct.Struct("<2Q")
_R_BPF_64_64 = 1


def compile_program() -> bytes:
    """Compile the program and return its instructions."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "pacer.o"
        subprocess.run([COMPILER, *_FLAGS, "-c", str(SOURCE), "-o", str(target)], check=True)
        return instructions(target.read_bytes())


def instructions(elf: bytes) -> bytes:
    """Return the instructions of an object file with one program and one global variable."""
    sections = list(_sections(elf))
    [program] = [content for kind, content in sections if kind == _PROGBITS and content]
    [references] = [content for kind, content in sections if kind == _REL]
    code = bytearray(program)
    for offset, info in _REL_ENTRY.iter_unpack(references):
        if code[offset] != LOAD_64_BITS or info & 0xFFFFFFFF != _R_BPF_64_64:
            raise ValueError(f"instruction at {offset} is not a reference to the global variable")
        # The offset within the variable, which the compiler wrote to the first half, belongs in the second.
        code[offset + 12 : offset + 16] = code[offset + 4 : offset + 8]
        code[offset + 4 : offset + 8] = bytes(4)
        code[offset + 1] |= MAP_VALUE << 4
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

"""Gzip of bodies that are put together from parts: each part is packed once, whatever comes between.

What is flushed fully refers to nothing before it, so packed parts may stand in any order. Only the checksum
at the end is of the whole.

Source: RFC 1952, "GZIP file format specification"; zlib's manual, ``Z_FULL_FLUSH``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

_LEVEL = 6
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_END = b"\x03\x00"
"""An empty block that is the last one."""


def packed(part: bytes) -> bytes:
    """Pack a part."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(part) + packer.flush(zlib.Z_FULL_FLUSH)


def gzipped(parts: Sequence[bytes], body: bytes) -> bytes:
    """Return a gzip file.

    :param parts: of the body, packed.
    """
    checked = struct.pack("<LL", zlib.crc32(body), len(body) & 0xFFFFFFFF)
    return b"".join((_HEADER, *parts, _END, checked))

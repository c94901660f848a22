"""Gzip of bodies that consist of parts: each part is compressed once and can be joined with any others.

After a full flush, a part does not refer to data before it, so compressed parts can be joined in any order.
Only the checksum at the end covers the whole body.

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
    """Compress a part."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(part) + packer.flush(zlib.Z_FULL_FLUSH)


def gzipped(parts: Sequence[bytes], body: bytes) -> bytes:
    """Return a gzip file of compressed parts.

    :param parts: the compressed parts of the body.
    :param body: the uncompressed body, for the checksum and the length.
    """
    checked = struct.pack("<LL", zlib.crc32(body), len(body) & 0xFFFFFFFF)
    return b"".join((_HEADER, *parts, _END, checked))

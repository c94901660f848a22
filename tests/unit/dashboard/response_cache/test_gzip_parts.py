"""Parts that were packed once make a file that every program unpacks."""

from __future__ import annotations

import gzip
import zlib

from hypothesis import given
from hypothesis import strategies as st

from perftrend.dashboard.response_cache.cache import assemble_gzip, compress_part


@given(st.lists(st.binary(max_size=300), max_size=6))
def test_parts_are_unpacked_to_the_whole(parts: list[bytes]) -> None:
    body = b"".join(parts)
    file = assemble_gzip([compress_part(part) for part in parts], body)

    assert body == gzip.decompress(file)
    # Browsers read one member, and leave what comes behind it.
    reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
    assert (body, True, b"") == (reader.decompress(file), reader.eof, reader.unused_data)


def test_what_repeats_is_small() -> None:
    part = b"<tr><td>64B</td></tr>" * 1000

    assert len(compress_part(part)) < len(part) / 50

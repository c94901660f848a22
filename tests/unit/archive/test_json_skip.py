"""Brackets are found as one finds them character by character."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from perftrend.archive.json_stream import Brackets

texts = st.text(st.sampled_from('"\\[]{}a'), max_size=300).map(str.encode)


def one_by_one(text: bytes) -> list[tuple[int, int]]:
    found, depth, in_string, is_escaped = [], 0, False, False
    for place, character in enumerate(map(chr, text)):
        if is_escaped:
            is_escaped = False
        elif character == "\\":
            is_escaped = True
        elif character == '"':
            in_string = not in_string
        if character in "[]{}" and not in_string:
            depth += 1 if character in "[{" else -1
            found.append((place, depth))
    return found


def pieces(text: bytes, cuts: list[int]) -> list[bytes]:
    """Cut a text, but never between an escape and what it escapes."""
    cut, rest = [], text
    for length in cuts:
        escapes = len(rest[:length]) - len(rest[:length].rstrip(b"\\"))
        end = length + escapes % 2
        cut.append(rest[:end])
        rest = rest[end:]
    return [*filter(None, cut), rest]


@given(texts, st.lists(st.integers(1, 130), max_size=5))
@example(b'["' + b"\\\\" * 40 + b'"]', [])
@example(b'["' + b"x" * 61 + b'"]', [64])
def test_brackets_within_strings_are_not_found(text: bytes, cuts: list[int]) -> None:
    brackets = Brackets()
    found, start = [], 0
    for piece in pieces(text, cuts):
        if piece:
            outside = brackets.scan(piece)
            places = (outside.places + start).tolist()
            found += list(zip(places, outside.depths.tolist(), strict=True))
            assert outside.opens.tolist() == [piece[place] in b"[{" for place in outside.places]
        start += len(piece)

    assert one_by_one(text) == found


@given(texts.filter(bool))
def test_end_is_behind_the_last_quote_and_near_it(text: bytes) -> None:
    outside = Brackets().scan(text)

    quotes = [place for place, mark in enumerate(text.replace(b"\\\\", b"  ").replace(b'\\"', b"  "))
              if mark == ord('"')]  # fmt: skip
    last = max([*quotes, *outside.places.tolist()], default=-1)
    assert last < outside.end <= min(len(text), last + 64) if last >= 0 else outside.end == 0


def test_state_goes_on_in_the_next_piece() -> None:
    brackets = Brackets()
    brackets.scan(b'[{"[')
    assert (2, True) == (brackets.depth, brackets.in_string)

    outside = brackets.scan(b']"]')

    assert np.array_equal([2], outside.places)
    assert (1, False) == (brackets.depth, brackets.in_string)

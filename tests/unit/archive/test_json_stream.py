"""Bodies of tests are skipped as text, exactly as a JSON parser would skip them."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perftrend.archive import source
from perftrend.archive.json_stream import Brackets, JsonOutline
from perftrend.archive.result_records import LogLines
from perftrend.errors import ArchiveError

SKIPPED = ["body", "setup", "teardown", "telemetry"]

texts = st.text(st.sampled_from('ab"\\[]{}:,\n é€😀body'), max_size=8)
strange_keys = ["name", "bodyx", "tests", 'a"body', 'a\\"setup', "\\", 'body"', ':"body":[']
keys = st.one_of(st.sampled_from(SKIPPED), st.sampled_from(strange_keys), texts)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), texts, st.sampled_from(SKIPPED)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=30,
)


def through(text: bytes) -> bytes:
    outline = JsonOutline(io.BytesIO(text), LogLines())
    pieces = []
    while piece := outline.read(1):
        pieces.append(piece)
    return b"".join(pieces)


def without(node: Any) -> Any:
    if isinstance(node, dict):
        return {
            key: None if key in SKIPPED and isinstance(value, (dict, list)) else without(value)
            for key, value in node.items()
        }
    return [without(item) for item in node] if isinstance(node, list) else node


@given(values, st.sampled_from([1, 3, 7, 64, 1 << 18]), st.sampled_from([None, 1]), st.booleans())
def test_outline_is_the_document_without_bodies(
    value: Any, chunk: int, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "CHUNK_BYTES", chunk)

        assert without(value) == json.loads(through(text))


def test_key_far_before_its_value_is_left_to_the_parser() -> None:
    near, far = b'{"a\\"body":[1],"body"%b:[{"x":1}]}', b" " * 40

    assert {'a"body': [1], "body": None} == json.loads(through(near % far))
    for blanks in range(45, 80):
        text = near.replace(b'"body":', b'"body"' + b" " * blanks + b":") % (2 * far)

        assert {'a"body': [1], "body": [{"x": 1}]} == json.loads(through(text))


def test_values_side_by_side_are_each_skipped() -> None:
    tests = [{"name": str(number), "body": [], "setup": {}} for number in range(50_000)]

    assert without(tests) == json.loads(through(json.dumps(tests).encode()))


def test_long_body_is_skipped_as_a_short_one() -> None:
    body = [{"message": '\\"]}' * 3}] * 100_000

    assert {"body": None, "x": 1} == json.loads(through(json.dumps({"body": body, "x": 1}).encode()))


@pytest.mark.parametrize("content", [b"x", b"[", b'\\"', b"\\\\"])
def test_string_that_is_skipped_may_be_of_any_length(content: bytes) -> None:
    text = b'{"body":["%b"],"x":1}' % (content * 6_000_000)

    assert {"body": None, "x": 1} == json.loads(through(text))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"body":[{"message":"', "cut off within a test"),
        (b'{"body":[\xff', "not UTF-8"),
        (b'{"body":[\0', "a NUL character follows"),
        (b'{"body":' + b"[" * 100_000, "nested more than 10000 deep"),
        (b"[" * 100_000, "nested more than 10000 deep"),
        (b'{"name":"' + b"x" * 5_000_000, "a string of more than 4000000 bytes"),
        (b'{"name":"' + b'[\\"' * 2_000_000, "a string of more than 4000000 bytes"),
        (b'{"body":[],"name":' + b" " * 2_000_000, "1000000 bytes without a string or a bracket"),
        (b'{"name":' + b"1" * 2_000_000, "1000000 bytes without a string or a bracket"),
    ],
)
def test_damage_is_told(text: bytes, reason: str) -> None:
    with pytest.raises(ArchiveError, match=reason):
        through(text)


bracket_texts = st.text(st.sampled_from('"\\[]{}a'), max_size=300).map(str.encode)


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


@given(bracket_texts, st.lists(st.integers(1, 130), max_size=5))
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


@given(bracket_texts.filter(bool))
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

"""The differential flame graph of two builds."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.instructions import InstructionCounts, compare_instructions
from perftrend.report.flame_graph import FlameGraph, draw

BEFORE = {("main",): 100, ("main", "lookup"): 500, ("main", "copy"): 400}
AFTER = {("main",): 100, ("main", "lookup"): 700, ("main", "lookup", "hash"): 200, ("main", "copy"): 400}


def drawn(before: InstructionCounts, after: InstructionCounts) -> FlameGraph | None:
    return draw(replace(compare_instructions([before] * 2, [after] * 2), stacks=(before, after)))


def test_frames_are_as_wide_as_their_share_and_above_their_callers() -> None:
    graph = drawn(BEFORE, AFTER)

    assert graph is not None
    frames = {each.text.partition(":")[0]: each for each in graph.frames}
    assert ["all", "main", "copy", "lookup", "hash"] == list(frames)
    assert 1080 == frames["all"].width == frames["main"].width
    assert (900 / 1400 * 1080, 200 / 1400 * 1080) == (
        pytest.approx(frames["lookup"].width, abs=0.1),
        pytest.approx(frames["hash"].width, abs=0.1),
    )
    assert frames["hash"].y < frames["lookup"].y < frames["main"].y < frames["all"].y < graph.height
    assert frames["hash"].x == frames["lookup"].x == frames["copy"].x + frames["copy"].width


def test_colour_is_that_of_the_own_instructions() -> None:
    graph = drawn(BEFORE, AFTER)

    assert graph is not None
    assert {"all": "same", "main": "same", "copy": "same", "lookup": "more-3", "hash": "more-3"} == {
        each.text.partition(":")[0]: each.style for each in graph.frames
    }
    assert "lookup: 64 % of all instructions, its own +14.3 %" in {each.text for each in graph.frames}
    assert ("after", "Where instructions are executed after the change: 2 frames changed") == (
        graph.side, graph.sentence
    )  # fmt: skip


def test_build_with_more_instructions_is_shown() -> None:
    graph = drawn(AFTER, BEFORE)

    assert graph is not None
    assert "before" == graph.side
    assert {"lookup", "hash"} == {
        each.text.partition(":")[0] for each in graph.frames if each.style.startswith("fewer")
    }


def test_graph_needs_callers() -> None:
    assert draw(compare_instructions([BEFORE] * 2, [AFTER] * 2)) is None


PATHS = st.lists(st.sampled_from("abcde"), min_size=1, max_size=15).map(tuple)
COUNTS = st.dictionaries(PATHS, st.integers(1, 10**9), min_size=1, max_size=30)


@given(COUNTS, COUNTS)
def test_frames_never_overlap_and_stay_within_the_picture(
    before: InstructionCounts, after: InstructionCounts
) -> None:
    graph = drawn(before, after)

    assert graph is not None
    rows: dict[float, list[tuple[float, float]]] = {}
    for each in graph.frames:
        assert 0 <= each.x <= each.x + each.width <= graph.width + 0.2
        assert 0 <= each.y <= graph.height - graph.frame_height
        assert len(each.label) * 6 <= each.width
        rows.setdefault(each.y, []).append((each.x, each.x + each.width))
    for spans in rows.values():
        ordered = sorted(spans)
        assert all(one[1] <= other[0] + 0.2 for one, other in pairwise(ordered))

"""Tiles by scale and number, and the ways between them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.errors import UsageError
from perftrend.store.tiles import COARSEST, POINTS, Tile, newest, points_of, tile_of, validate_tile

COLUMNS = st.integers(1, 1_000_000)
SCALES = st.integers(0, COARSEST)


def test_points_of_the_finest_scale_are_columns() -> None:
    assert range(256, 384) == Tile(0, 2).points == Tile(0, 2).columns


def test_a_coarser_point_covers_four_of_the_scale_before() -> None:
    assert [range(128 * 4**scale) for scale in range(6)] == [Tile(scale, 0).columns for scale in range(6)]


@given(COLUMNS, SCALES, st.data())
def test_zooming_out_keeps_every_column_in_view(columns: int, scale: int, data: st.DataObject) -> None:
    tile = tile_of(data.draw(st.integers(0, columns - 1)), scale)

    wider = tile.zoom_out()

    assert wider.columns.start <= tile.columns.start
    assert wider.columns.stop >= tile.columns.stop
    assert min(scale + 1, COARSEST) == wider.scale


@given(COLUMNS, SCALES, st.data())
def test_zooming_in_keeps_the_focus_in_view(columns: int, scale: int, data: st.DataObject) -> None:
    tile = tile_of(data.draw(st.integers(0, columns - 1)), scale)
    focus = data.draw(st.sampled_from(tile.columns))

    closer = tile.zoom_in(columns, focus=focus)

    assert min(focus, columns - 1) in closer.columns
    assert closer.exists(columns)
    assert tile == (closer.zoom_out() if scale else closer)


@given(COLUMNS, SCALES)
def test_the_newest_tile_shows_the_newest_column_when_zoomed_in(columns: int, scale: int) -> None:
    closer = newest(columns, scale).zoom_in(columns)

    assert columns - 1 in closer.columns


@given(COLUMNS, SCALES, st.data())
def test_moving_left_and_right_goes_from_end_to_end(columns: int, scale: int, data: st.DataObject) -> None:
    tile = tile_of(data.draw(st.integers(0, columns - 1)), scale)

    assert tile.left().exists(columns)
    assert tile.right(columns).exists(columns)
    assert tile == (newest(columns, scale) if tile.right(columns) == tile else tile.right(columns).left())


def test_ends_stay_where_they_are() -> None:
    assert Tile(1, 0) == Tile(1, 0).left()
    assert Tile(1, 1) == Tile(1, 0).right(513)
    assert Tile(1, 0) == Tile(1, 0).right(512)
    assert Tile(5, 3) == Tile(5, 3).zoom_out()
    assert Tile(0, 3) == Tile(0, 3).zoom_in(1000)


def test_an_empty_axis_has_its_first_tile() -> None:
    assert Tile(0, 0) == newest(0)
    assert Tile(0, 0).exists(0)
    assert not Tile(1, 0).exists(0)


def test_points_are_rounded_up() -> None:
    assert [0, 1, 1, 2] == [points_of(columns, 1) for columns in (0, 1, 4, 5)]
    assert POINTS == points_of(POINTS * 4**5, 5)


@pytest.mark.parametrize(("scale", "number"), [(-1, 0), (6, 0), (0, -1)])
def test_tiles_that_cannot_be_are_refused(scale: int, number: int) -> None:
    with pytest.raises(UsageError):
        validate_tile(scale, number)


def test_tiles_that_can_be_are_taken() -> None:
    assert Tile(5, 7) == validate_tile(5, 7)

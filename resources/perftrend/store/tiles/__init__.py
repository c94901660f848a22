"""Tiles: the values of traces over commits, packed for fast plots and clustering of many traces.

A tile has 128 points of every trace of a testbed, at one of six scales. Tiles are derived from the results
and can be rebuilt at any time; see ``docs/method/tiles.rst``.
"""

from perftrend.store.tiles.axes import Axis
from perftrend.store.tiles.columns import TileColumn, common
from perftrend.store.tiles.reader import StoredTrace
from perftrend.store.tiles.scales import (
    COARSEST,
    FACTOR,
    POINTS,
    Points,
    Tile,
    coarsen,
    columns_of_point,
    newest,
    points_of,
    tile_of,
    validate_tile,
)
from perftrend.store.tiles.tiles import Tiles

__all__ = [
    "COARSEST",
    "FACTOR",
    "POINTS",
    "Axis",
    "Points",
    "StoredTrace",
    "Tile",
    "TileColumn",
    "Tiles",
    "coarsen",
    "columns_of_point",
    "common",
    "newest",
    "points_of",
    "tile_of",
    "validate_tile",
]

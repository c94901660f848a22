"""Tiles: packed values for plots and clustering."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the tables of the tiles; new runs and ``./run rebuild-tiles`` fill them."""
    op.create_table(
        "tile_axes",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("testbed", sa.String(255), nullable=False, unique=True),
        sa.Column("layout", sa.Integer, nullable=False),
        sa.Column("whole", sa.Integer, nullable=False),
        sa.Column("complete", sa.Boolean, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
    )
    op.create_table(
        "tile_runs",
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("axis_id", sa.Integer, sa.ForeignKey("tile_axes.id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("revision", sa.String(64), nullable=False),
    )
    op.create_index("ix_tile_runs_axis_number", "tile_runs", ["axis_id", "number"])
    op.create_index("ix_tile_runs_axis_revision", "tile_runs", ["axis_id", "revision"])
    op.create_table(
        "tiles",
        sa.Column("axis_id", sa.Integer, sa.ForeignKey("tile_axes.id"), primary_key=True),
        sa.Column("scale", sa.Integer, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("block", sa.Integer, primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    if op.get_bind().dialect.name == "postgresql":
        # PostgreSQL would try to compress incompressible data, and could then not read a part of it.
        op.execute("ALTER TABLE tiles ALTER COLUMN data SET STORAGE EXTERNAL")

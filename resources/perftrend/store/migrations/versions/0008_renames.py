"""Renames: new values of trace parameters, so that the history of the traces continues."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add two tables; nothing is renamed yet."""
    op.create_table(
        "renames",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("parameter", sa.String(255), nullable=False),
        sa.Column("old", sa.String(1000), nullable=False),
        sa.Column("new", sa.String(1000), nullable=False),
        sa.Column("author", sa.String(255), nullable=False),
        sa.Column("moment", sa.DateTime, nullable=False),
        sa.UniqueConstraint("parameter", "old", name="uq_renames_parameter_old"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "renamed_traces",
        sa.Column("trace_id", sa.Integer, sa.ForeignKey("traces.id"), primary_key=True),
        sa.Column("current_id", sa.Integer, sa.ForeignKey("traces.id"), nullable=False),
        sa.Column("steps", sa.Integer, nullable=False),
    )
    op.create_index("ix_renamed_traces_current", "renamed_traces", ["current_id"])

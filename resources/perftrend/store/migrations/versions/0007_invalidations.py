"""Invalidations: runs and results that a user marked as invalid."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add a table; nothing is marked yet."""
    op.create_table(
        "invalidations",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("trace_id", sa.Integer, sa.ForeignKey("traces.id")),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("author", sa.String(255), nullable=False),
        sa.Column("moment", sa.DateTime, nullable=False),
        sa.UniqueConstraint("run_id", "trace_id", name="uq_invalidations_run_trace"),
    )

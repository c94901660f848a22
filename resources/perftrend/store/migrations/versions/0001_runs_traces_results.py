"""Runs, traces and results."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables of the first version."""
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("job", sa.String(255), nullable=False),
        sa.Column("build", sa.Integer, nullable=False),
        sa.Column("testbed", sa.String(255), nullable=False),
        sa.Column("started", sa.DateTime, nullable=False),
        sa.Column("finished", sa.DateTime, nullable=False),
        sa.Column("versions", sa.JSON, nullable=False),
        sa.Column("archive", sa.Text, nullable=False),
        sa.Column("simulated", sa.Boolean, nullable=False),
        sa.UniqueConstraint("job", "build", "testbed", name="uq_runs_identity"),
    )
    op.create_index("ix_runs_testbed_started", "runs", ["testbed", "started"])
    op.create_table(
        "traces",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("hash", sa.String(32), nullable=False, unique=True),
        sa.Column("parameters", sa.Text, nullable=False),
        sa.Column("unit", sa.String(32), nullable=False),
        sa.Column("better", sa.String(16), nullable=False),
    )
    op.create_table(
        "trace_params",
        sa.Column("trace_id", sa.Integer, sa.ForeignKey("traces.id"), primary_key=True),
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("value", sa.String(1000), nullable=False),
    )
    op.create_index("ix_trace_params_name_value", "trace_params", ["name", "value"])
    op.create_table(
        "results",
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("trace_id", sa.Integer, sa.ForeignKey("traces.id"), primary_key=True),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("value", sa.Float),
        sa.Column("samples", sa.LargeBinary, nullable=False),
        sa.Column("invalid", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "details",
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("trace_id", sa.Integer, sa.ForeignKey("traces.id"), primary_key=True),
        sa.Column("details", sa.JSON, nullable=False),
    )

"""Executions: a reused build number is another run, and the store records which archives were read."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Let runs share a number; record each known archive as read, with an unknown version."""
    with op.batch_alter_table("runs") as runs:
        runs.add_column(sa.Column("suites_started", sa.DateTime))
        runs.add_column(sa.Column("suites_finished", sa.DateTime))
        runs.drop_constraint("uq_runs_identity", type_="unique")
        runs.create_unique_constraint("uq_runs_execution", ["job", "build", "testbed", "started"])
    op.create_table(
        "build_numbers",
        sa.Column("job", sa.String(255), primary_key=True),
        sa.Column("last", sa.Integer, nullable=False),
    )
    op.create_table(
        "read_archives",
        sa.Column("location", sa.Text, primary_key=True),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("version", sa.String(64), nullable=False),
    )
    op.create_index("ix_read_archives_run", "read_archives", ["run_id"])
    op.execute(
        "INSERT INTO read_archives (location, run_id, version) "
        "SELECT archive, MAX(id), '' FROM runs WHERE archive <> '' GROUP BY archive"
    )

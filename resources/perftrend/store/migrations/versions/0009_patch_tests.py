"""Per-patch tests: results of patch sets in comparison with their parents."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add two empty tables; an archive that was read contains a run or a per-patch test."""
    op.create_table(
        "patch_tests",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("job", sa.String(255), nullable=False),
        sa.Column("build", sa.Integer, nullable=False),
        sa.Column("testbed", sa.String(255), nullable=False),
        sa.Column("change", sa.Integer),
        sa.Column("patch_set", sa.Integer),
        sa.Column("parent", sa.String(64), nullable=False),
        sa.Column("patch", sa.String(64), nullable=False),
        sa.Column("started", sa.DateTime, nullable=False),
        sa.Column("updated", sa.DateTime, nullable=False),
        sa.Column("rounds", sa.Integer, nullable=False),
        sa.Column("ended", sa.Boolean, nullable=False),
        sa.Column("simulated", sa.Boolean, nullable=False),
        sa.Column("sentence", sa.Text, nullable=False),
        sa.Column("page", sa.Text, nullable=False),
        sa.Column("archive", sa.Text, nullable=False),
        sa.Column("invalid", sa.Text, nullable=False),
        sa.UniqueConstraint("job", "build", "testbed", "started", name="uq_patch_tests_execution"),
    )
    op.create_index("ix_patch_tests_change", "patch_tests", ["change", "patch_set"])
    op.create_index("ix_patch_tests_updated", "patch_tests", ["updated"])
    owner = sa.ForeignKey("patch_tests.id", ondelete="CASCADE")
    op.create_table(
        "patch_traces",
        sa.Column("patch_test_id", sa.Integer, owner, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("test", sa.Text, nullable=False),
        sa.Column("unit", sa.String(32), nullable=False),
        sa.Column("better", sa.String(16), nullable=False),
        sa.Column("finding", sa.Text, nullable=False),
        sa.Column("parent", sa.JSON, nullable=False),
        sa.Column("current", sa.JSON, nullable=False),
        sa.Column("invalid", sa.Text, nullable=False),
    )
    with op.batch_alter_table("read_archives") as read_archives:
        read_archives.alter_column("run_id", existing_type=sa.Integer, nullable=True)
        read_archives.add_column(sa.Column("patch_test_id", sa.Integer))
        read_archives.create_foreign_key(
            "fk_read_archives_patch_test", "patch_tests", ["patch_test_id"], ["id"], ondelete="CASCADE"
        )
    op.create_index("ix_read_archives_patch_test", "read_archives", ["patch_test_id"])

"""Requests of comments, and the moments up to which comments have been read."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the tables of the listener."""
    op.create_table(
        "requests",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("change", sa.Integer, nullable=False),
        sa.Column("patch_set", sa.Integer, nullable=False),
        sa.Column("project", sa.String(255), nullable=False),
        sa.Column("branch", sa.String(255), nullable=False),
        sa.Column("revision", sa.String(64), nullable=False),
        sa.Column("ref", sa.String(255), nullable=False),
        sa.Column("review", sa.String(255), nullable=False),
        sa.Column("comment", sa.String(255), nullable=False),
        sa.Column("path", sa.Text),
        sa.Column("account", sa.String(255), nullable=False),
        sa.Column("asked", sa.DateTime, nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("line", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("right_form", sa.Text, nullable=False),
        sa.Column("job", sa.String(32), nullable=False),
        sa.Column("testbed", sa.String(255), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("decided", sa.DateTime),
        sa.Column("told", sa.Text, nullable=False),
        sa.Column("link", sa.Text, nullable=False),
        sa.Column("exit_code", sa.Integer),
        sa.Column("answered", sa.Boolean, nullable=False),
    )
    op.create_index("ix_requests_state", "requests", ["state"])
    op.create_index("ix_requests_change_account", "requests", ["change", "account"])
    op.create_index("ix_requests_answered", "requests", ["answered"])
    op.create_table(
        "marks",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("moment", sa.DateTime, nullable=False),
    )

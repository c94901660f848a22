"""Permissions: roles that admins grant, sessions of signed-in users, and owners of API tokens."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add two empty tables and two columns; nothing limits the permissions of older tokens."""
    op.create_table(
        "grants",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("person", sa.String(255), nullable=False),
        sa.Column("testbed", sa.String(255), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("granted", sa.DateTime, nullable=False),
        sa.Column("granted_by", sa.String(255), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.UniqueConstraint("person", "testbed", name="uq_grants_person_testbed"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "sessions",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("person", sa.String(255), nullable=False),
        sa.Column("groups", sa.JSON, nullable=False),
        sa.Column("begun", sa.DateTime, nullable=False),
        sa.Column("used", sa.DateTime, nullable=False),
        sa.Column("browser", sa.String(64), nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
    )
    op.create_index("ix_sessions_person", "sessions", ["person"])
    op.add_column("tokens", sa.Column("groups", sa.JSON))
    op.add_column("tokens", sa.Column("parent", sa.String(32)))

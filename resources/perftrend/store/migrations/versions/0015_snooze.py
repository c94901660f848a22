"""Snoozed items, and the former owner and snooze for undo."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add columns; the former owner is the current one, since undo must not change it."""
    with op.batch_alter_table("items") as items:
        items.add_column(sa.Column("snoozed_until", sa.DateTime))
        items.add_column(sa.Column("snoozed_job", sa.String(255)))
        items.add_column(sa.Column("snoozed_build", sa.Integer))
        items.add_column(sa.Column("former_owner", sa.String(255), nullable=False, server_default=""))
        items.add_column(sa.Column("former_snoozed_until", sa.DateTime))
        items.add_column(sa.Column("former_snoozed_job", sa.String(255)))
        items.add_column(sa.Column("former_snoozed_build", sa.Integer))
    op.execute("UPDATE items SET former_owner = owner")

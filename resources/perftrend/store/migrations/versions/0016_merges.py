"""Items that were merged or split, and the items that findings come from."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add columns; no item was merged or split before."""
    with op.batch_alter_table("items") as items:
        items.add_column(sa.Column("merged_into", sa.Integer))
        items.add_column(sa.Column("split_from", sa.Integer))
        items.create_index("ix_items_merged_into", ["merged_into"])
    with op.batch_alter_table("findings") as findings:
        findings.add_column(sa.Column("origin", sa.Integer))

"""Requests that are made on a page of the dashboard, and the progress and the result of their jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add columns; earlier requests belong to no item, and their results are not known."""
    with op.batch_alter_table("requests") as requests:
        requests.add_column(sa.Column("item", sa.Integer))
        requests.add_column(sa.Column("progress", sa.Text, nullable=False, server_default=""))
        requests.add_column(sa.Column("result", sa.JSON))
        requests.create_index("ix_requests_item", ["item"])

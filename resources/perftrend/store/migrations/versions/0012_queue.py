"""Requests that end others, and when the jobs of requests began, and how long they took."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add columns; what is not known of the requests so far remains unknown."""
    with op.batch_alter_table("requests") as requests:
        requests.add_column(sa.Column("began", sa.DateTime))
        requests.add_column(sa.Column("duration_s", sa.Float))
        requests.add_column(sa.Column("cancelled_by", sa.String(64), nullable=False, server_default=""))
        requests.add_column(sa.Column("author", sa.String(255), nullable=False, server_default=""))
        requests.create_index("ix_requests_began", ["began", "account", "duration_s", "author"])

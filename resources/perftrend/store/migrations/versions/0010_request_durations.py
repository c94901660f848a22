"""Estimated durations of requests, and an index for the limits on them."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add a column; earlier requests have no duration."""
    op.add_column("requests", sa.Column("estimated_s", sa.Float))
    op.create_index("ix_requests_decided", "requests", ["decided"])

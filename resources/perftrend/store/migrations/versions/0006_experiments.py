"""Experiments: a run records how it differs from the nightly ones."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Treat all stored runs as nightly ones."""
    op.add_column("runs", sa.Column("experiment", sa.Text, nullable=False, server_default=""))

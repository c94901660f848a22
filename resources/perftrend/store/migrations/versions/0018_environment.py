"""The environment of each run."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Add a column; the environments of earlier runs are not known."""
    op.add_column("runs", sa.Column("environment", sa.Text, nullable=False, server_default=""))

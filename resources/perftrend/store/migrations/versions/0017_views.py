"""Named views: addresses of pages with a name."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "views",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("path", sa.String(32), nullable=False),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("author", sa.String(255), nullable=False),
        sa.Column("saved", sa.DateTime, nullable=False),
        sa.UniqueConstraint("name", name="uq_views_name"),
        sqlite_autoincrement=True,
    )

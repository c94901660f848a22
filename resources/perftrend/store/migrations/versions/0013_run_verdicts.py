"""The verdict of each run."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add a table; runs that were analysed before have no verdict until they are analysed again."""
    op.create_table(
        "run_verdicts",
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("judged", sa.DateTime, nullable=False),
        sa.Column("outcomes", sa.JSON, nullable=False),
        sa.Column("suspected", sa.Integer, nullable=False),
        sa.Column("declines", sa.JSON, nullable=False),
    )

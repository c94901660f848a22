"""Data of the dashboard: users, clusters, shortcuts, annotations, alerts and ingestions."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the tables of the dashboard."""
    _create_users()
    _create_clusters()
    _create_shortcuts()
    _create_annotations()
    _create_alerts()
    _create_ingestions()


def _create_users() -> None:
    """Create the activity log, the tokens, and the keys that can be used only once."""
    op.create_table(
        "activity",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("moment", sa.DateTime, nullable=False),
        sa.Column("user", sa.String(255), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
    )
    op.create_index("ix_activity_subject", "activity", ["subject", "number"])
    op.create_index("ix_activity_user", "activity", ["user", "number"])
    op.create_table(
        "tokens",
        sa.Column("key", sa.String(32), primary_key=True),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("made", sa.DateTime, nullable=False),
        sa.Column("expires", sa.DateTime, nullable=False),
        sa.Column("used", sa.DateTime),
        sa.Column("revoked", sa.DateTime),
        sa.Column("revoked_by", sa.String(255), nullable=False),
    )
    op.create_table(
        "spent",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("until", sa.DateTime, nullable=False),
    )
    op.create_index("ix_spent_until", "spent", ["until"])


def _create_clusters() -> None:
    """Create the clusters with their triage, and the clusterings."""
    op.create_table(
        "clusters",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("testbed", sa.String(255), nullable=False),
        sa.Column("ts", sa.DateTime, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("regression", sa.Float, nullable=False),
        sa.Column("cluster", sa.JSON, nullable=False),
        sa.Column("members", sa.JSON, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("found", sa.DateTime, nullable=False),
        sa.Column("changed", sa.DateTime),
        sa.Column("changed_by", sa.String(255), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_clusters_testbed_status", "clusters", ["testbed", "status"])
    op.create_table(
        "clusterings",
        sa.Column("testbed", sa.String(255), primary_key=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("options", sa.JSON, nullable=False),
        sa.Column("who", sa.String(255), nullable=False),
        sa.Column("asked", sa.DateTime),
        sa.Column("token", sa.String(32), nullable=False),
        sa.Column("until", sa.DateTime),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("stage", sa.Text, nullable=False),
        sa.Column("finished", sa.DateTime),
        sa.Column("result", sa.JSON, nullable=False),
        sa.Column("periodic", sa.DateTime),
        sa.Column("data", sa.Text, nullable=False),
    )


def _create_shortcuts() -> None:
    """Create the plots and the pages that users save."""
    op.create_table(
        "shortcuts",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("hash", sa.String(64), nullable=False, unique=True),
        sa.Column("ids", sa.Text, nullable=False),
        sa.Column("user", sa.String(255), nullable=False),
        sa.Column("made", sa.DateTime, nullable=False),
    )
    op.create_table(
        "short_urls",
        sa.Column("key", sa.String(16), primary_key=True),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("user", sa.String(255), nullable=False),
        sa.Column("made", sa.DateTime, nullable=False),
    )


def _create_annotations() -> None:
    """Create the annotations of commits."""
    op.create_table(
        "annotations",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("revision", sa.String(40), nullable=False),
        sa.Column("stem", sa.String(7), nullable=False),
        sa.Column("testbed", sa.String(255)),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("author", sa.String(255), nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
        sa.Column("edited", sa.DateTime),
        sa.Column("edited_by", sa.String(255), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_annotations_stem", "annotations", ["stem"])


def _create_alerts() -> None:
    """Create the alerts, their items and findings, and the outbox."""
    op.create_table(
        "alerts",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("detector", sa.JSON, nullable=False),
        sa.Column("change", sa.Float, nullable=False),
        sa.Column("confidence", sa.Float, nullable=False),
        sa.Column("direction", sa.String(16), nullable=False),
        sa.Column("recent_runs", sa.Integer, nullable=False),
        sa.Column("silent_runs", sa.Integer, nullable=False),
        sa.Column("silent_hours", sa.Float, nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
        sa.Column("changed", sa.DateTime, nullable=False),
        sa.Column("changed_by", sa.String(255), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "alert_overrides",
        sa.Column("alert_id", sa.Integer, sa.ForeignKey("alerts.id"), primary_key=True),
        sa.Column("trace", sa.String(32), primary_key=True),
        sa.Column("change", sa.Float),
        sa.Column("confidence", sa.Float),
        sa.Column("muted_until", sa.DateTime),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("changed", sa.DateTime, nullable=False),
        sa.Column("changed_by", sa.String(255), nullable=False),
    )
    op.create_table(
        "items",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("testbed", sa.String(255), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("last_good", sa.DateTime, nullable=False),
        sa.Column("last_good_revision", sa.String(64), nullable=False),
        sa.Column("first_changed", sa.DateTime, nullable=False),
        sa.Column("first_changed_revision", sa.String(64), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("traces", sa.Integer, nullable=False),
        sa.Column("trace", sa.String(32), nullable=False),
        sa.Column("size", sa.Float),
        sa.Column("low", sa.Float),
        sa.Column("high", sa.Float),
        sa.Column("opened", sa.DateTime, nullable=False),
        sa.Column("changed", sa.DateTime, nullable=False),
        sa.Column("changed_by", sa.String(255), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("former_status", sa.String(16), nullable=False),
        sa.Column("former_message", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_items_status", "items", ["status", "kind", "first_changed"])
    op.create_index("ix_items_testbed", "items", ["testbed"])
    op.create_table(
        "findings",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("item_id", sa.Integer, sa.ForeignKey("items.id"), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("trace", sa.String(32), nullable=False),
        sa.Column("last_good", sa.DateTime, nullable=False),
        sa.Column("last_good_revision", sa.String(64), nullable=False),
        sa.Column("first_changed", sa.DateTime, nullable=False),
        sa.Column("first_changed_revision", sa.String(64), nullable=False),
        sa.Column("before", sa.Float),
        sa.Column("after", sa.Float),
        sa.Column("low", sa.Float),
        sa.Column("high", sa.Float),
        sa.Column("confidence", sa.Float),
        sa.Column("found", sa.DateTime, nullable=False),
        sa.Column("seen", sa.DateTime, nullable=False),
        sa.Column("gone", sa.DateTime),
    )
    op.create_index("ix_findings_item", "findings", ["item_id"])
    op.create_index("ix_findings_trace", "findings", ["trace"])
    op.create_table(
        "item_alerts",
        sa.Column("item_id", sa.Integer, sa.ForeignKey("items.id"), primary_key=True),
        sa.Column("alert_id", sa.Integer, sa.ForeignKey("alerts.id"), primary_key=True),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("key", sa.String(64), nullable=False, unique=True),
        sa.Column("alert_id", sa.Integer, nullable=False),
        sa.Column("item_id", sa.Integer, sa.ForeignKey("items.id"), nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("payload", sa.JSON, nullable=False),
        sa.Column("made", sa.DateTime, nullable=False),
        sa.Column("due", sa.DateTime, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("sent", sa.DateTime),
    )
    op.create_index("ix_outbox_sent", "outbox", ["sent", "due"])
    op.create_index("ix_outbox_item", "outbox", ["item_id"])
    op.create_table(
        "evaluations",
        sa.Column("testbed", sa.String(255), primary_key=True),
        sa.Column("newest_run", sa.Integer, nullable=False),
    )


def _create_ingestions() -> None:
    """Create the queue of builds that were reported to the dashboard."""
    op.create_table(
        "ingestions",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("job", sa.String(255), nullable=False),
        sa.Column("build", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("asked", sa.DateTime, nullable=False),
        sa.Column("due", sa.DateTime, nullable=False),
        sa.Column("until", sa.DateTime),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("ended", sa.DateTime),
        sa.Column("exit_code", sa.Integer),
        sa.Column("told", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_ingestions_state", "ingestions", ["state", "due"])

"""The tables of the store.

Measured values are never overwritten. This is the newest schema; ``migrations/versions`` contains the steps
that lead to it. See ``docs/formats/store.rst``.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import lru_cache

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.engine import Connection, Dialect
from sqlalchemy.types import TypeDecorator

HEAD = "0018"
"""The newest migration, which leads to the schema of this module."""

metadata = MetaData()


class Moment(TypeDecorator[datetime]):
    """A moment in UTC, stored without a zone because SQLite does not support zones."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - any
        """Convert a moment of any zone to the stored form."""
        return value and value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - any
        """Add the zone again."""
        return value and value.replace(tzinfo=UTC)


class Texts(TypeDecorator[dict[str, str]]):
    """Texts by name. Equal ones are read as one object, because most runs of a testbed have equal ones."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: dict[str, str] | None, dialect: Dialect) -> str:  # noqa: ARG002 - any
        """Write JSON with sorted names; empty if there are none."""
        return json.dumps(value, sort_keys=True) if value else ""

    def process_result_value(self, value: str | None, dialect: Dialect) -> dict[str, str]:  # noqa: ARG002 - any
        """Read it."""
        return _texts(value) if value else {}


@lru_cache(maxsize=256)
def _texts(value: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(value)
    return found


runs = Table(
    "runs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("job", String(255), nullable=False),
    Column("build", Integer, nullable=False),
    Column("testbed", String(255), nullable=False),
    Column("started", Moment, nullable=False),
    Column("finished", Moment, nullable=False),
    Column("versions", JSON, nullable=False),
    Column("archive", Text, nullable=False),
    Column("simulated", Boolean, nullable=False),
    Column("suites_started", Moment),
    Column("suites_finished", Moment),
    Column("experiment", Text, nullable=False, server_default=""),
    Column("environment", Texts, nullable=False, server_default=""),
    UniqueConstraint("job", "build", "testbed", "started", name="uq_runs_execution"),
    Index("ix_runs_testbed_started", "testbed", "started"),
)

build_numbers = Table(
    "build_numbers",
    metadata,
    Column("job", String(255), primary_key=True),
    Column("last", Integer, nullable=False),
)

read_archives = Table(
    "read_archives",
    metadata,
    Column("location", Text, primary_key=True),
    # One of the two is set.
    Column("run_id", ForeignKey("runs.id")),
    Column(
        "patch_test_id",
        ForeignKey("patch_tests.id", name="fk_read_archives_patch_test", ondelete="CASCADE"),
    ),
    Column("version", String(64), nullable=False),
    Index("ix_read_archives_run", "run_id"),
    Index("ix_read_archives_patch_test", "patch_test_id"),
)

traces = Table(
    "traces",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("hash", String(32), nullable=False, unique=True),
    Column("parameters", Text, nullable=False),
    Column("unit", String(32), nullable=False),
    Column("better", String(16), nullable=False),
)

trace_params = Table(
    "trace_params",
    metadata,
    Column("trace_id", ForeignKey("traces.id"), primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("value", String(1000), nullable=False),
    Index("ix_trace_params_name_value", "name", "value"),
)

results = Table(
    "results",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    Column("trace_id", ForeignKey("traces.id"), primary_key=True),
    Column("status", String(16), nullable=False),
    Column("value", Float),
    Column("samples", LargeBinary, nullable=False),
    Column("invalid", Text, nullable=False),
    Column("message", Text, nullable=False),
    # Without row ids the rows of a run are adjacent, and a series is read run by run.
    sqlite_with_rowid=False,
)

# Separate from the results: details are long, and a series is read without them.
details = Table(
    "details",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    Column("trace_id", ForeignKey("traces.id"), primary_key=True),
    Column("details", JSON, nullable=False),
)

# What the analysis of a run printed; see perftrend.store.verdicts.
run_verdicts = Table(
    "run_verdicts",
    metadata,
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("judged", Moment, nullable=False),
    Column("outcomes", JSON, nullable=False),
    Column("suspected", Integer, nullable=False),
    # The traces with the worst long-term changes, as pairs of hash and change.
    Column("declines", JSON, nullable=False),
)

# Runs and results that a user marked as invalid; see perftrend.store.invalidations.
invalidations = Table(
    "invalidations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False),
    # NULL: the whole run.
    Column("trace_id", ForeignKey("traces.id")),
    Column("reason", Text, nullable=False),
    Column("author", String(255), nullable=False),
    Column("moment", Moment, nullable=False),
    UniqueConstraint("run_id", "trace_id", name="uq_invalidations_run_trace"),
)

# Names that parameters of traces had before; see perftrend.store.renames.
renames = Table(
    "renames",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("parameter", String(255), nullable=False),
    Column("old", String(1000), nullable=False),
    Column("new", String(1000), nullable=False),
    Column("author", String(255), nullable=False),
    Column("moment", Moment, nullable=False),
    UniqueConstraint("parameter", "old", name="uq_renames_parameter_old"),
    # A rename that was undone and stated again has another id, by which pages notice it.
    sqlite_autoincrement=True,
)

# Derived from the renames and the traces; see perftrend.store.rows.
renamed_traces = Table(
    "renamed_traces",
    metadata,
    Column("trace_id", ForeignKey("traces.id"), primary_key=True),
    Column("current_id", ForeignKey("traces.id"), nullable=False),
    # Renames from the former name to the current one: of two former names the nearer is the newer.
    Column("steps", Integer, nullable=False),
    Index("ix_renamed_traces_current", "current_id"),
)

# Patch sets that were compared with their parents. Apart from runs and results, so that they are in no trend,
# tile, alert or cluster; see perftrend.store.verdicts.
patch_tests = Table(
    "patch_tests",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("job", String(255), nullable=False),
    Column("build", Integer, nullable=False),
    Column("testbed", String(255), nullable=False),
    Column("change", Integer),
    Column("patch_set", Integer),
    Column("parent", String(64), nullable=False),
    Column("patch", String(64), nullable=False),
    Column("started", Moment, nullable=False),
    Column("updated", Moment, nullable=False),
    Column("rounds", Integer, nullable=False),
    Column("ended", Boolean, nullable=False),
    Column("simulated", Boolean, nullable=False),
    Column("sentence", Text, nullable=False),
    Column("page", Text, nullable=False),
    Column("archive", Text, nullable=False),
    Column("invalid", Text, nullable=False),
    UniqueConstraint("job", "build", "testbed", "started", name="uq_patch_tests_execution"),
    Index("ix_patch_tests_change", "change", "patch_set"),
    Index("ix_patch_tests_updated", "updated"),
)

patch_traces = Table(
    "patch_traces",
    metadata,
    Column("patch_test_id", ForeignKey("patch_tests.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("test", Text, nullable=False),
    Column("unit", String(32), nullable=False),
    Column("better", String(16), nullable=False),
    Column("finding", Text, nullable=False),
    Column("parent", JSON, nullable=False),
    Column("current", JSON, nullable=False),
    Column("invalid", Text, nullable=False),
)

# Requests of comments and their states: no request is started twice or answered twice.
requests = Table(
    "requests",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("change", Integer, nullable=False),
    Column("patch_set", Integer, nullable=False),
    Column("project", String(255), nullable=False),
    Column("branch", String(255), nullable=False),
    Column("revision", String(64), nullable=False),
    Column("ref", String(255), nullable=False),
    Column("review", String(255), nullable=False),
    Column("comment", String(255), nullable=False),
    Column("path", Text),
    Column("account", String(255), nullable=False),
    Column("asked", Moment, nullable=False),
    Column("place", Integer, nullable=False),
    Column("line", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("right_form", Text, nullable=False),
    Column("job", String(32), nullable=False),
    Column("testbed", String(255), nullable=False),
    Column("state", String(16), nullable=False),
    Column("decided", Moment),
    Column("told", Text, nullable=False),
    Column("link", Text, nullable=False),
    Column("exit_code", Integer),
    Column("answered", Boolean, nullable=False),
    Column("estimated_s", Float),
    Column("began", Moment),
    Column("duration_s", Float),
    Column("cancelled_by", String(64), nullable=False, server_default=""),
    Column("author", String(255), nullable=False, server_default=""),
    Column("item", Integer),
    Column("progress", Text, nullable=False, server_default=""),
    Column("result", JSON(none_as_null=True)),
    # With all columns of the hours per person, so that the rows need not be read.
    Index("ix_requests_began", "began", "account", "duration_s", "author"),
    Index("ix_requests_state", "state"),
    Index("ix_requests_change_account", "change", "account"),
    Index("ix_requests_decided", "decided"),
    Index("ix_requests_answered", "answered"),
    Index("ix_requests_item", "item"),
)

# Moments up to which recurring input, such as comments, has been read.
marks = Table(
    "marks",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("moment", Moment, nullable=False),
)

# Derived from the results, for fast plots and clustering; see perftrend.store.tiles.
tile_axes = Table(
    "tile_axes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("testbed", String(255), nullable=False, unique=True),
    Column("layout", Integer, nullable=False),
    Column("whole", Integer, nullable=False),
    Column("complete", Boolean, nullable=False),
    Column("generation", Integer, nullable=False),
)

tile_runs = Table(
    "tile_runs",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    Column("axis_id", ForeignKey("tile_axes.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("revision", String(64), nullable=False),
    Index("ix_tile_runs_axis_number", "axis_id", "number"),
    Index("ix_tile_runs_axis_revision", "axis_id", "revision"),
)

tiles = Table(
    "tiles",
    metadata,
    Column("axis_id", ForeignKey("tile_axes.id"), primary_key=True),
    Column("scale", Integer, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("block", Integer, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)


def _disable_compression(table: Table, connection: Connection, **_: object) -> None:
    # PostgreSQL would try to compress incompressible data, and could then not read a part of it.
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"ALTER TABLE {table.name} ALTER COLUMN data SET STORAGE EXTERNAL"))


event.listen(tiles, "after_create", _disable_compression)

# The activity log and the API tokens of the dashboard.
activity = Table(
    "activity",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("moment", Moment, nullable=False),
    Column("user", String(255), nullable=False),
    Column("action", String(64), nullable=False),
    Column("subject", String(255), nullable=False),
    Column("detail", Text, nullable=False),
    Index("ix_activity_subject", "subject", "number"),
    Index("ix_activity_user", "user", "number"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("key", String(32), primary_key=True),
    Column("hash", String(64), nullable=False),
    Column("name", String(255), nullable=False),
    Column("role", String(16), nullable=False),
    Column("owner", String(255), nullable=False),
    Column("made", Moment, nullable=False),
    Column("expires", Moment, nullable=False),
    Column("used", Moment),
    Column("revoked", Moment),
    Column("revoked_by", String(255), nullable=False),
    # The groups of the owner, whose permissions limit those of the token; null: nothing limits them.
    Column("groups", JSON(none_as_null=True)),
    # The token that created it; null: its owner is a person.
    Column("parent", String(32)),
)

# Roles that admins grant on a page, in addition to those of the settings; see perftrend.store.access.
grants = Table(
    "grants",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("person", String(255), nullable=False),
    # A testbed or a pattern; empty: all testbeds. Not null, since null values are not unique.
    Column("testbed", String(255), nullable=False),
    Column("role", String(16), nullable=False),
    Column("granted", Moment, nullable=False),
    Column("granted_by", String(255), nullable=False),
    Column("version", Integer, nullable=False),
    UniqueConstraint("person", "testbed", name="uq_grants_person_testbed"),
    # A form that was opened before a grant was removed must not change another one.
    sqlite_autoincrement=True,
)

# Sessions of signed-in users; see perftrend.store.access.
sessions = Table(
    "sessions",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("person", String(255), nullable=False),
    Column("groups", JSON, nullable=False),
    Column("begun", Moment, nullable=False),
    Column("used", Moment, nullable=False),
    Column("browser", String(64), nullable=False),
    Column("address", String(64), nullable=False),
    Index("ix_sessions_person", "person"),
)

# Keys that cannot be used again, such as those of sign-in attempts.
spent = Table(
    "spent",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("until", Moment, nullable=False),
    Index("ix_spent_until", "until"),
)

# Clusters with their triage, and the states of the clusterings.
clusters = Table(
    "clusters",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("testbed", String(255), nullable=False),
    Column("ts", Moment, nullable=False),
    Column("hash", Text, nullable=False),
    Column("regression", Float, nullable=False),
    Column("cluster", JSON, nullable=False),
    Column("members", JSON, nullable=False),
    Column("status", String(16), nullable=False),
    Column("message", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("found", Moment, nullable=False),
    Column("changed", Moment),
    Column("changed_by", String(255), nullable=False),
    Index("ix_clusters_testbed_status", "testbed", "status"),
    # The id of a deleted cluster may be in a mail: no other cluster may get it.
    sqlite_autoincrement=True,
)

clusterings = Table(
    "clusterings",
    metadata,
    Column("testbed", String(255), primary_key=True),
    Column("state", String(16), nullable=False),
    Column("options", JSON, nullable=False),
    Column("who", String(255), nullable=False),
    Column("asked", Moment),
    Column("token", String(32), nullable=False),
    Column("until", Moment),
    Column("attempts", Integer, nullable=False),
    Column("stage", Text, nullable=False),
    Column("finished", Moment),
    Column("result", JSON, nullable=False),
    Column("periodic", Moment),
    Column("data", Text, nullable=False),
)

# Plots and pages that users save, without duplicates; see perftrend.store.shortcuts.
shortcuts = Table(
    "shortcuts",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("hash", String(64), nullable=False, unique=True),
    Column("ids", Text, nullable=False),
    Column("user", String(255), nullable=False),
    Column("made", Moment, nullable=False),
)

short_urls = Table(
    "short_urls",
    metadata,
    Column("key", String(16), primary_key=True),
    Column("query", Text, nullable=False),
    Column("user", String(255), nullable=False),
    Column("made", Moment, nullable=False),
)

# Pages under names; see perftrend.store.shortcuts.
views = Table(
    "views",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(100), nullable=False),
    Column("path", String(32), nullable=False),
    Column("query", Text, nullable=False),
    Column("author", String(255), nullable=False),
    Column("saved", Moment, nullable=False),
    UniqueConstraint("name", name="uq_views_name"),
    # The address of a deleted view must not lead to another one.
    sqlite_autoincrement=True,
)

# Annotations of commits; see perftrend.store.annotations.
annotated = Table(
    "annotations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("revision", String(40), nullable=False),
    Column("stem", String(7), nullable=False),
    Column("testbed", String(255)),
    Column("text", Text, nullable=False),
    Column("author", String(255), nullable=False),
    Column("created", Moment, nullable=False),
    Column("edited", Moment),
    Column("edited_by", String(255), nullable=False),
    Column("version", Integer, nullable=False),
    Index("ix_annotations_stem", "stem"),
    # A form that was opened before an annotation was deleted must not change another one.
    sqlite_autoincrement=True,
)

# Alerts, their items and findings, and the outbox; see perftrend.store.alerts.
alerts = Table(
    "alerts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(255), nullable=False),
    Column("query", Text, nullable=False),
    Column("detector", JSON, nullable=False),
    Column("change", Float, nullable=False),
    Column("confidence", Float, nullable=False),
    Column("direction", String(16), nullable=False),
    Column("recent_runs", Integer, nullable=False),
    Column("silent_runs", Integer, nullable=False),
    Column("silent_hours", Float, nullable=False),
    Column("owner", String(255), nullable=False),
    Column("action", String(16), nullable=False),
    Column("target", Text, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("created", Moment, nullable=False),
    Column("changed", Moment, nullable=False),
    Column("changed_by", String(255), nullable=False),
    Column("version", Integer, nullable=False),
    # A form that was opened before an alert was deleted must not change another one.
    sqlite_autoincrement=True,
)

alert_overrides = Table(
    "alert_overrides",
    metadata,
    Column("alert_id", ForeignKey("alerts.id"), primary_key=True),
    Column("trace", String(32), primary_key=True),
    Column("change", Float),
    Column("confidence", Float),
    Column("muted_until", Moment),
    Column("reason", Text, nullable=False),
    Column("changed", Moment, nullable=False),
    Column("changed_by", String(255), nullable=False),
)

items = Table(
    "items",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("testbed", String(255), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("last_good", Moment, nullable=False),
    Column("last_good_revision", String(64), nullable=False),
    Column("first_changed", Moment, nullable=False),
    Column("first_changed_revision", String(64), nullable=False),
    Column("status", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("owner", String(255), nullable=False),
    Column("traces", Integer, nullable=False),
    Column("trace", String(32), nullable=False),
    Column("size", Float),
    Column("low", Float),
    Column("high", Float),
    Column("opened", Moment, nullable=False),
    Column("changed", Moment, nullable=False),
    Column("changed_by", String(255), nullable=False),
    Column("version", Integer, nullable=False),
    Column("former_status", String(16), nullable=False),
    Column("former_message", Text, nullable=False),
    # Of a snoozed item: the moment, or the job and the build, at which it is new again.
    Column("snoozed_until", Moment),
    Column("snoozed_job", String(255)),
    Column("snoozed_build", Integer),
    Column("former_owner", String(255), nullable=False, server_default=""),
    Column("former_snoozed_until", Moment),
    Column("former_snoozed_job", String(255)),
    Column("former_snoozed_build", Integer),
    # See perftrend.store.alerts.merges.
    Column("merged_into", Integer),
    Column("split_from", Integer),
    Index("ix_items_merged_into", "merged_into"),
    Index("ix_items_status", "status", "kind", "first_changed"),
    Index("ix_items_testbed", "testbed"),
    sqlite_autoincrement=True,
)

findings = Table(
    "findings",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("item_id", ForeignKey("items.id"), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("trace", String(32), nullable=False),
    Column("last_good", Moment, nullable=False),
    Column("last_good_revision", String(64), nullable=False),
    Column("first_changed", Moment, nullable=False),
    Column("first_changed_revision", String(64), nullable=False),
    Column("before", Float),
    Column("after", Float),
    Column("low", Float),
    Column("high", Float),
    Column("confidence", Float),
    Column("found", Moment, nullable=False),
    Column("seen", Moment, nullable=False),
    Column("gone", Moment),
    # The item that it was found for, if that was merged into another.
    Column("origin", Integer),
    Index("ix_findings_item", "item_id"),
    Index("ix_findings_trace", "trace"),
)

item_alerts = Table(
    "item_alerts",
    metadata,
    Column("item_id", ForeignKey("items.id"), primary_key=True),
    Column("alert_id", ForeignKey("alerts.id"), primary_key=True),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(64), nullable=False, unique=True),
    # Not a foreign key: sent messages are retained if the alert is deleted.
    Column("alert_id", Integer, nullable=False),
    Column("item_id", ForeignKey("items.id"), nullable=False),
    Column("action", String(16), nullable=False),
    Column("target", Text, nullable=False),
    Column("payload", JSON, nullable=False),
    Column("made", Moment, nullable=False),
    Column("due", Moment, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("sent", Moment),
    Index("ix_outbox_sent", "sent", "due"),
    Index("ix_outbox_item", "item_id"),
)

evaluations = Table(
    "evaluations",
    metadata,
    Column("testbed", String(255), primary_key=True),
    Column("newest_run", Integer, nullable=False),
)

# Builds that were reported to the dashboard, and the states of their ingestion.
ingestions = Table(
    "ingestions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("source", Text, nullable=False),
    Column("job", String(255), nullable=False),
    Column("build", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("asked", Moment, nullable=False),
    Column("due", Moment, nullable=False),
    Column("until", Moment),
    Column("attempts", Integer, nullable=False),
    Column("ended", Moment),
    Column("exit_code", Integer),
    Column("told", Text, nullable=False),
    Index("ix_ingestions_state", "state", "due"),
    sqlite_autoincrement=True,
)

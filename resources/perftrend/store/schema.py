"""The tables. What was measured is never overwritten; everything else can be made from it.

This is the newest form; ``migrations/versions`` holds the steps that lead to it. See
``docs/formats/store.rst``.
"""

from __future__ import annotations

from datetime import UTC, datetime

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
)
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

HEAD = "0002"
"""The newest migration: the form that this module describes."""

metadata = MetaData()


class Moment(TypeDecorator[datetime]):
    """A moment in UTC, kept without a zone because SQLite knows none."""

    impl = DateTime
    cache_ok = True

    # SQLAlchemy passes the dialect, which makes no difference here.
    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Turn a moment of any zone into what is kept."""
        return value and value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Give the zone back."""
        return value and value.replace(tzinfo=UTC)


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
    UniqueConstraint("job", "build", "testbed", name="uq_runs_identity"),
    Index("ix_runs_testbed_started", "testbed", "started"),
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
    # Without row ids the rows of a run lie side by side, and a series is read run by run.
    sqlite_with_rowid=False,
)

# Beside the results, not in them: they are long, and a series is read without them.
details = Table(
    "details",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    Column("trace_id", ForeignKey("traces.id"), primary_key=True),
    Column("details", JSON, nullable=False),
)

# What comments asked for, and what became of it: no request is started twice or answered twice.
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
    Index("ix_requests_state", "state"),
    Index("ix_requests_change_account", "change", "account"),
    Index("ix_requests_answered", "answered"),
)

# How far something that comes again and again has been looked at.
marks = Table(
    "marks",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("moment", Moment, nullable=False),
)

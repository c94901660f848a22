"""Runs the migrations on the connection that perftrend has opened, in its transaction."""

from alembic import context

from perftrend.store.schema import metadata
from perftrend.store.schema_version import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    # The caller began the transaction and ends it.
    transactional_ddl=False,
)
context.run_migrations()

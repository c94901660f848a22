"""Archives that were read, with their versions, so that they are not fetched again.

A location does not identify an archive. If a Jenkins job is deleted and created again, its builds have the
addresses of earlier builds. Therefore an archive is read again if its version has changed.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from perftrend.store.connection import read_transaction, savepoint, write_transaction
from perftrend.store.schema import patch_tests, read_archives, runs


class Archives:
    """The archives that the runs and the per-patch tests of a store were read from."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def versions(self, job: str) -> dict[str, str]:
        """Return the versions of a job's archives that were read, by location; empty if a version is unknown.

        A per-patch test in progress whose version is unknown is omitted, so that it is read again.
        """
        query = sa.select(read_archives.c.location, read_archives.c.version)
        may_go_on = sa.not_(patch_tests.c.ended) & (read_archives.c.version == "")
        of_runs = query.join(runs).where(runs.c.job == job)
        of_patches = query.join(patch_tests).where(patch_tests.c.job == job, sa.not_(may_go_on))
        with read_transaction(self._engine) as connection:
            found = connection.execute(sa.union_all(of_runs, of_patches))
            return {row.location: row.version for row in found}

    def note_versions(self, versions: Mapping[str, str]) -> None:
        """Store the versions of archives whose versions were unknown when they were read."""
        if not versions:
            return
        changed = (
            sa.update(read_archives)
            .where(read_archives.c.location == sa.bindparam("place"), read_archives.c.version == "")
            .values(version=sa.bindparam("found"))
        )
        with write_transaction(self._engine) as connection:
            connection.execute(changed, [{"place": place, "found": each} for place, each in versions.items()])


def note_read(
    connection: Connection,
    location: str,
    version: str,
    *,
    run_id: int | None = None,
    patch_test_id: int | None = None,
) -> None:
    """Record that an archive was read, and the run or per-patch test that it contains."""
    if not location:
        return
    noted = {"run_id": run_id, "patch_test_id": patch_test_id, "version": version}
    here = read_archives.c.location == location
    changed = sa.update(read_archives).where(here).values(**noted)
    if connection.execute(changed).rowcount:
        return
    try:
        with savepoint(connection):
            connection.execute(sa.insert(read_archives), {"location": location, **noted})
    except sa.exc.IntegrityError:
        # Another process has read it meanwhile.
        connection.execute(changed)

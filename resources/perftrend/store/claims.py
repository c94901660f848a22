"""Claims of rows: one process at a time works on what a row requests.

A claim writes into the row until when it is valid. If the process ends before its work does, another process
claims the row after that time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from perftrend.store.connection import read_transaction, write_transaction


def claim_row(
    engine: Engine,
    table: sa.Table,
    due: sa.ColumnElement[bool],
    *,
    first: sa.ColumnElement[Any],
    change: Callable[[sa.RowMapping], Mapping[str, Any]],
) -> Mapping[str, Any] | None:
    """Claim one of the rows that are due and that no other process is claiming at the moment.

    :param first: the column by which rows are claimed, the smallest first.
    :param change: returns the columns that a claim changes.
    :returns: the row as it is now; None if there is nothing to do.
    """
    query = sa.select(table).where(due).order_by(first).limit(1)
    with read_transaction(engine) as connection:
        # Most of the time there is nothing to do, and a reader does not wait for locks.
        if connection.execute(query).first() is None:
            return None
    with write_transaction(engine) as connection:
        row = connection.execute(query.with_for_update(skip_locked=True)).mappings().first()
        if row is None:
            return None
        columns = change(row)
        same = sa.and_(*(column == row[column.name] for column in table.primary_key))
        connection.execute(sa.update(table).where(same).values(**columns))
        return {**row, **columns}

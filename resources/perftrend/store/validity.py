"""Conditions for results to enter a trend: the measurement is valid, and no user marked it as invalid.

Every query that turns results into values uses these expressions. So a mark takes effect wherever values are
read, and the results themselves are not changed.
"""

from __future__ import annotations

import sqlalchemy as sa

from perftrend.model import MARKED, Status
from perftrend.store.schema import invalidations, results

_MARKS = (invalidations.c.run_id == results.c.run_id) & (
    invalidations.c.trace_id.is_(None) | (invalidations.c.trace_id == results.c.trace_id)
)
_FIRST_MARK = (
    sa.select(MARKED + invalidations.c.author + ": " + invalidations.c.reason)
    .where(_MARKS)
    .order_by(invalidations.c.id)
    .limit(1)
    .correlate(results)
    .scalar_subquery()
)

INVALID = sa.func.coalesce(_FIRST_MARK, results.c.invalid).label("invalid")
"""Why a result cannot be trusted; empty if it can."""
USABLE = (
    (results.c.status == Status.PASS.value)
    & (results.c.invalid == "")
    & ~sa.exists().where(_MARKS).correlate(results)
)
"""Whether a result may enter a trend, if it has a value."""

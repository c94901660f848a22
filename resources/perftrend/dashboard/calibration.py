"""The page of ``/calibration``: whether what was reported held, from the team's own data.

A change can be judged when its testbed has made :data:`JUDGED_AFTER` further runs. It persisted if the
evaluation after them still found it, and if its item is not triaged as *ignored*. A change that is too
new is in none of the shares.

Source: Wilson, Probable inference, the law of succession, and statistical inference, 1927, for the intervals
of shares.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from math import sqrt
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from perftrend.builds import find_mirror
from perftrend.dashboard.auth import Viewer
from perftrend.dashboard.context import AppContext, Context
from perftrend.dashboard.formats import monday_of
from perftrend.dashboard.pages import page
from perftrend.errors import PerftrendError
from perftrend.execution.job_request import JobResult
from perftrend.store.alerts import LEVELS, FindingOutcomes, RunTimes

router = APIRouter()

JUDGED_AFTER = 10
"""Number of further runs after which a change is judged."""
_LEVEL_NAMES = {0.99: "99 % and more", 0.95: "95 to 99 %", 0.0: "below 95 %"}
_IGNORED, _BUG = "ignored", "bug"
_WEEK = timedelta(days=7)
_HOUR_S = 3600.0
_READ_S = 5.0
_Z = 1.96
"""Quantile of the normal distribution for intervals of 95 %."""


class Share(BaseModel):
    """A share of some cases, with its 95 % interval."""

    count: int
    of: int
    share: float | None
    """Null without cases, as the limits are."""
    low: float | None
    high: float | None

    @classmethod
    def of_counts(cls, count: int, of: int) -> Share:
        """Return the share of some cases, with Wilson's interval."""
        if not of:
            return cls(count=count, of=of, share=None, low=None, high=None)
        share, square = count / of, _Z * _Z / of
        middle = (share + square / 2) / (1 + square)
        half = _Z * sqrt(share * (1 - share) / of + square / (4 * of)) / (1 + square)
        return cls(count=count, of=of, share=share, low=max(middle - half, 0.0), high=min(middle + half, 1.0))


class LevelCalibration(BaseModel):
    """The changes that were reported with a confidence of some level."""

    level: str
    reported: int
    persisted: Share
    """Of those that can be judged."""


class WeekCalibration(BaseModel):
    """The changes that were reported in a week and can be judged."""

    monday: date
    """In UTC."""
    reported: int
    """Including those that cannot be judged yet."""
    judged: int
    false_alarms: int
    """Those that did not persist."""


class CulpritCalibration(BaseModel):
    """The culprits that bisections of the dashboard have named."""

    named: int
    confirmed: int
    """Those whose item is a bug, or that were reverted."""
    reverted: int | None
    """Those that a later commit reverts; null: the repository is not known here."""
    dismissed: int
    """Those whose item a person ignores."""


class TestbedCalibration(BaseModel):
    """What a testbed spent for each change that persisted."""

    testbed: str
    hours: float
    """Of its runs and requested jobs."""
    persisted: int
    hours_per_change: float | None
    """Null if no change persisted."""


class CalibrationPage(BaseModel):
    """Whether what was reported held."""

    since: datetime
    judged_after: int
    """Number of further runs after which a change is judged."""
    levels: list[LevelCalibration]
    weeks: list[WeekCalibration]
    """The newest first."""
    false_alarms_per_week: float | None
    """The mean over the weeks with judged changes; null if there are none."""
    culprits: CulpritCalibration
    testbeds: list[TestbedCalibration]


@router.get("/calibration", response_model=CalibrationPage)
def calibration(
    request: Request,
    site: Context,
    _: Viewer,
    weeks: Annotated[int, Query(ge=1, le=520, description="number of weeks")] = 26,
) -> Response:
    """Return how many reported changes persisted, and what it took to find them."""
    monday = monday_of(datetime.now(UTC).date())
    since = datetime.combine(monday - (weeks - 1) * _WEEK, time(), UTC)
    times = site.store.alerts.calibration.times(since)
    judged = judge(site.store.alerts.calibration.reported(since), times)
    model = CalibrationPage(
        since=since,
        judged_after=JUDGED_AFTER,
        levels=_levels(judged),
        weeks=(by_week := _weeks(judged)),
        false_alarms_per_week=_mean_false_alarms(by_week),
        culprits=_culprits(site, since),
        testbeds=_testbeds(judged, times),
    )
    return page(request, "calibration.html", model, title="Calibration")


@dataclass(frozen=True, slots=True)
class JudgedChanges:
    """Reported changes, and whether they persisted."""

    changes: FindingOutcomes
    persisted: bool | None
    """None: too few runs followed to tell."""


def judge(reported: Iterable[FindingOutcomes], times: Iterable[RunTimes]) -> list[JudgedChanges]:
    """Return whether each change persisted after enough further runs of its testbed."""
    starts = {each.testbed: each.starts for each in times}
    return [JudgedChanges(each, _persisted(each, starts.get(each.testbed, ()))) for each in reported]


def _persisted(change: FindingOutcomes, starts: Sequence[datetime]) -> bool | None:
    if change.status == _IGNORED:
        return False
    last = bisect_right(starts, change.found) + JUDGED_AFTER - 1
    if last >= len(starts):
        # Too new to have persisted, but what is gone already will not.
        return None if change.gone is None else False
    return change.gone is None or change.gone > starts[last]


def _count(judged: Iterable[JudgedChanges], *, persisted: bool) -> int:
    return sum(each.changes.count for each in judged if each.persisted is persisted)


def _levels(judged: Sequence[JudgedChanges]) -> list[LevelCalibration]:
    found = []
    for level in LEVELS:
        of_level = [each for each in judged if each.changes.level == level]
        good, bad = _count(of_level, persisted=True), _count(of_level, persisted=False)
        found.append(
            LevelCalibration(
                level=_LEVEL_NAMES[level],
                reported=sum(each.changes.count for each in of_level),
                persisted=Share.of_counts(good, good + bad),
            )
        )
    return found


def _weeks(judged: Iterable[JudgedChanges]) -> list[WeekCalibration]:
    by_week: Mapping[date, list[JudgedChanges]] = defaultdict(list)
    for each in judged:
        by_week[monday_of(each.changes.found.date())].append(each)
    return [
        WeekCalibration(
            monday=monday,
            reported=sum(each.changes.count for each in found),
            judged=_count(found, persisted=True) + _count(found, persisted=False),
            false_alarms=_count(found, persisted=False),
        )
        for monday, found in sorted(by_week.items(), reverse=True)
    ]


def _mean_false_alarms(weeks: Iterable[WeekCalibration]) -> float | None:
    counts = [each.false_alarms for each in weeks if each.judged]
    return sum(counts) / len(counts) if counts else None


def _testbeds(judged: Sequence[JudgedChanges], times: Iterable[RunTimes]) -> list[TestbedCalibration]:
    found = []
    for each in times:
        persisted = _count((one for one in judged if one.changes.testbed == each.testbed), persisted=True)
        hours = each.duration_s / _HOUR_S
        found.append(
            TestbedCalibration(
                testbed=each.testbed,
                hours=round(hours, 1),
                persisted=persisted,
                hours_per_change=round(hours / persisted, 1) if persisted else None,
            )
        )
    return found


def _culprits(site: AppContext, since: datetime) -> CulpritCalibration:
    requested = site.store.requests.with_results("bisect", since)
    named = {
        culprit.commit: each.item
        for each in requested
        for culprit in (JobResult.of(each.result).culprits if each.result else ())
    }
    known = [identity for identity in named.values() if identity is not None]
    status = {each.identity: each.status for each in site.store.alerts.items.of(known)}
    reverted = _find_reverted(site, named)
    return CulpritCalibration(
        named=len(named),
        confirmed=sum(
            status.get(item or 0) == _BUG or commit in (reverted or ()) for commit, item in named.items()
        ),
        reverted=None if reverted is None else len(reverted),
        dismissed=sum(status.get(item or 0) == _IGNORED for item in named.values()),
    )


def _find_reverted(site: AppContext, commits: Iterable[str]) -> frozenset[str] | None:
    """Return those of some commits that a later one reverts; None if the repository is not known here."""
    try:
        repository = find_mirror(site.settings.project, timeout_s=_READ_S)
        return None if repository is None else repository.reverted() & frozenset(commits)
    except PerftrendError:
        return None

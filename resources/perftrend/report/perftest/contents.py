"""What the reports of a per-patch test are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from perftrend.perftest import Verdict


@dataclass(frozen=True, slots=True)
class Subject:
    """What was compared with what."""

    testbed: str
    parent: str
    """The whole hash."""
    patch: str
    """The whole hash."""
    change: int | None = None
    """Number in Gerrit; None where two commits were named."""
    patch_set: int | None = None
    page: str = ""
    """Address of the change."""
    is_merge: bool = False
    """Whether the patch has several parents, of which the first one was taken."""
    simulated: bool = False
    """Whether no packet was sent."""


@dataclass(frozen=True, slots=True)
class Report:
    """A verdict, and how it came about."""

    verdict: Verdict
    subject: Subject
    job: str
    build: int
    started: datetime
    """UTC."""
    finished: datetime
    threshold: float
    """The smallest difference that matters, relative to the parent."""
    confidence: float
    formula: str
    """Description length of the documented comparison."""
    maximum_rounds: int
    link: str = ""
    """Where the whole report can be read; empty where that is nowhere."""
    archive: str = ""
    """Where the files of all rounds are: a path or an address."""
    notices: Sequence[str] = ()
    """What a reader must be told besides."""
    ended: bool = True
    """False: further rounds follow."""

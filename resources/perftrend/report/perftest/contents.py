"""The contents of the reports of a per-patch test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from perftrend.perftest import PatchVerdict


@dataclass(frozen=True, slots=True)
class PerftestSubject:
    """The compared commits, and the testbed."""

    testbed: str
    parent: str
    """The whole hash."""
    patch: str
    """The whole hash."""
    change: int | None = None
    """Number in Gerrit; None if two commits were named."""
    patch_set: int | None = None
    page: str = ""
    """URL of the change."""
    is_merge: bool = False
    """Whether the patch has several parents, of which the first one is compared."""
    simulated: bool = False
    """Whether no packet was sent."""


@dataclass(frozen=True, slots=True)
class PerftestReport:
    """A verdict, and its conditions."""

    verdict: PatchVerdict
    subject: PerftestSubject
    job: str
    build: int
    started: datetime
    """UTC."""
    finished: datetime
    threshold: float
    """The smallest difference that matters, relative to the parent."""
    confidence: float
    formula: str
    """Formula of the description length in the CSIT comparison."""
    maximum_rounds: int
    link: str = ""
    """URL of the whole report; empty if it has none."""
    archive: str = ""
    """Location of the files of all rounds: a path or a URL."""
    notices: Sequence[str] = ()
    """Further notices for readers."""
    ended: bool = True
    """False: further rounds follow."""

"""What ``/runs`` answers."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel


class RunEntry(BaseModel):
    """A run."""

    job: str
    build: int
    started: datetime
    finished: datetime
    revision: str
    """The commit of the product; empty where it is not known."""
    simulated: bool
    experiment: str
    """How it differs from the nightly runs, such as ``acl_rules=60``; empty: it is one of them."""
    archive: str
    """Where its files lie: a URL or a path; empty where that is not known."""
    replaced: bool
    """Whether a later run of the job has this number, because the job counts anew. What lies at the address
    of the build is then that of the later run."""
    links: dict[str, str]
    """Where to go from here, as far as that is known: ``build``, ``report``, ``log`` and ``archive``."""


class TestbedRuns(BaseModel):
    """The newest runs of a testbed, newest first."""

    testbed: str
    runs: list[RunEntry]


class Runs(BaseModel):
    """The newest runs of each testbed."""

    testbeds: list[TestbedRuns]

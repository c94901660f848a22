"""What a job that was requested does and has found, stored in its request, so that pages can show it.

A store that cannot be written does not end a job: its result is reported and archived in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from perftrend import console
from perftrend.errors import StoreError
from perftrend.execution.job_request import JobRequest
from perftrend.settings import Settings

if TYPE_CHECKING:
    from perftrend.store import Store

_BY = "bisection"
"""Who assigns an item, in the activity log."""


@dataclass(frozen=True, slots=True)
class NamedCulprit:
    """A commit that a bisection has found."""

    commit: str
    subject: str
    author: str
    """Name of its author."""
    deed: str
    """What it did, with the probability: ``made 1 of 2 tests slower by 11 %…``."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job has found."""

    sentence: str
    """The verdict in one sentence."""
    culprits: tuple[NamedCulprit, ...] = ()
    """The most important one first."""
    link: str = ""
    """Address of the report; empty if it has none."""

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> JobResult:
        """Return the result that :func:`record_result` has stored."""
        culprits = tuple(NamedCulprit(**each) for each in stored["culprits"])
        return cls(stored["sentence"], culprits, stored["link"])


def record_progress(job_request: JobRequest | None, settings: Settings, text: str) -> None:
    """Store what the job of a request does now; do nothing if a person has started the job."""
    _record(job_request, settings, lambda store, key: store.requests.record_progress(key, text))


def record_result(job_request: JobRequest | None, settings: Settings, result: JobResult) -> None:
    """Store what the job of a request has found.

    The author of the only culprit becomes the owner of the item that the request was made for.
    """

    def write(store: Store, key: str) -> None:
        store.requests.record_result(key, asdict(result))
        request = store.requests.with_keys([key]).get(key)
        if request and request.item is not None and len(result.culprits) == 1:
            store.alerts.items.assign(request.item, result.culprits[0].author, user=_BY)

    _record(job_request, settings, write)


def _record(job_request: JobRequest | None, settings: Settings, write: Callable[[Store, str], None]) -> None:
    if job_request is None or not job_request.request:
        return
    from perftrend.store import Store  # noqa: PLC0415 - the database loads slowly

    try:
        if Store.may_be_there(settings.store):
            with Store.open(settings.store) as store:
                write(store, job_request.request)
    except StoreError as error:
        console.warn(f"the dashboard does not get to know the state of this job: {error}")

"""What the tests of the listener lean on: a Gerrit and a runner that are none, and a store that is one."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perftrend.clients.gerrit import (
    PATCH_SET_LEVEL,
    Account,
    AccountGroup,
    Comment,
    GerritChange,
    PatchSet,
    PostResult,
)
from perftrend.clients.gerrit.reviews import answer_tag
from perftrend.errors import ServiceError
from perftrend.execution.job_request import Grammar
from perftrend.execution.permissions import ALL_USERS
from perftrend.execution.request_validation import RequestPlan
from perftrend.listener.comment_poller import CommentPoller
from perftrend.listener.health import Metrics
from perftrend.listener.request_processor import RequestProcessor
from perftrend.listener.runner import CancelResult
from perftrend.settings import GerritSettings
from perftrend.store import Store
from perftrend.store.requests import Request, RequestState
from perftrend.trigger import DEFAULT_LIMITS, DEFAULT_WORDS, Trigger

OURS = Account(7, "perftrend")
DEV = Account(1, "dev")
OTHER = Account(2, "other")
OWNER = Account(3, "owner")
REVISION = "a" * 40
GRAMMAR = Grammar(DEFAULT_WORDS, ("2n-clx", "1n-veth"), DEFAULT_LIMITS)


class Clock:
    """The time, which goes on by itself a second at each look."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC).replace(microsecond=0)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@dataclass(frozen=True)
class Upload:
    """When a patch set was uploaded, and what is new in it."""

    at: datetime
    kind: str = "REWORK"


@dataclass
class FakeGerrit:
    """Some changes with comments, and what was answered there."""

    clock: Clock
    url: str = "https://review.example.org"
    account: Account = OURS
    owner: Account = DEV
    """Of all changes."""
    members: dict[int, Sequence[AccountGroup]] = field(default_factory=dict)
    comments_of: dict[int, list[Comment]] = field(default_factory=dict)
    answers: list[tuple[str, str]] = field(default_factory=list)
    """Identities of comments, and what they were answered."""
    failures: list[ServiceError] = field(default_factory=list)
    """What the next calls raise, in turn."""
    status: str = "NEW"
    uploads: list[Upload] = field(default_factory=list)
    """The patch sets after the second one, which every change has from the beginning."""
    looks: int = 0
    """How often comments were read."""

    def __post_init__(self) -> None:
        self.began = self.clock.now - timedelta(days=1)

    def write(self, text: str, *, change: int = 1, author: Account = DEV, **others: Any) -> Comment:
        """Write a comment on the patch set, or, with ``path=None``, the message of a review."""
        number = sum(map(len, self.comments_of.values()))
        identity = str(others.pop("identity", f"c{number}"))
        comment = Comment(
            identity=identity,
            message_id=others.pop("message_id", f"m-{identity}"),
            author=author,
            written=others.pop("written", self.clock()),
            patch_set=others.pop("patch_set", 1),
            text=text,
            path=others.pop("path", PATCH_SET_LEVEL),
            **others,
        )
        self.comments_of.setdefault(change, []).append(comment)
        return comment

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    def change(self, number: int) -> GerritChange:
        self._fail()
        uploads = (Upload(self.began), Upload(self.began), *self.uploads)
        patch_sets = tuple(
            PatchSet(place, REVISION, f"refs/changes/01/{number}/{place}", (), each.at, DEV, each.kind)
            for place, each in enumerate(uploads, 1)
        )
        updated = max([each.written for each in self.comments_of[number]] + [each.at for each in uploads])
        return GerritChange(
            number, f"I{number:040}", "router", "master", "A", self.status, self.owner, updated, patch_sets
        )

    def upload(self, kind: str = "REWORK") -> None:
        """Upload a patch set of every change."""
        self.uploads.append(Upload(self.clock(), kind))

    def comments(self, number: int) -> tuple[Comment, ...]:
        self._fail()
        self.looks += 1
        return tuple(self.comments_of[number])

    def changes_updated_since(self, moment: datetime, **_: Any) -> Iterator[GerritChange]:
        for number in list(self.comments_of):
            if (change := self.change(number)).updated >= moment:
                yield change

    def answer(self, change: int, comment: Comment, text: str, link: str = "") -> PostResult:
        self._fail()
        tag = answer_tag(comment)
        if any(each.tag == tag for each in self.comments_of[change]):
            return PostResult(is_new=False)
        self.answers.append((comment.identity, text))
        self.write(text, change=change, author=OURS, tag=tag)
        return PostResult(is_new=True)

    def groups(self, account: Account) -> Sequence[AccountGroup]:
        self._fail()
        return self.members.get(account.number or 0, ())

    def check_groups(self, names: Sequence[str]) -> None:
        self._fail()


@dataclass
class FakeRunner:
    """Notes what it is to start."""

    begun: RequestState = RequestState.STARTED
    started: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    """Keys of requests that were looked for before they were started."""
    addresses: dict[str, str] = field(default_factory=dict)
    """Of builds, by the line of the request."""
    failures: list[Exception] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    results: list[CancelResult] = field(default_factory=list)
    """What the next attempts to end a job lead to; if there is none left, they are aborted."""
    runs: list[bool] = field(default_factory=list)
    """What the next looks after it tell."""

    def begin(self, request: Request, *, is_new: bool) -> str:
        if not is_new:
            self.found.append(request.line)
            if request.line in self.addresses or request.line in self.started:
                return self.addresses.get(request.line, "")
        if self.failures:
            raise self.failures.pop(0)
        self.started.append(request.line)
        return ""

    def link(self, request: Request) -> str:
        return self.addresses.get(request.line, "")

    def page(self, request: Request) -> str:
        return f"https://jenkins.example.org/job/{request.job}/"

    def cancel(self, request: Request) -> CancelResult:
        if self.failures:
            raise self.failures.pop(0)
        self.cancelled.append(request.line)
        return self.results.pop(0) if self.results else CancelResult.ABORTED

    def tend(self) -> bool:
        return self.runs.pop(0) if self.runs else False

    def close(self) -> None:
        pass


def planned(_: Request, trigger: Trigger) -> RequestPlan:
    return RequestPlan((), f"{max(1, len(trigger.include))} tests, at most about 14 minutes", usual_s=60.0)


@dataclass
class Bench:
    """A listener without its threads: look, then serve."""

    gerrit: FakeGerrit
    runner: FakeRunner
    store: Store
    clock: Clock
    log: pytest.LogCaptureFixture
    metrics: Metrics = field(default_factory=Metrics)
    settings: GerritSettings = field(default_factory=lambda: GerritSettings(groups=ALL_USERS[:1]))
    patience: timedelta = timedelta(0)
    planner: Any = planned

    @property
    def processor(self) -> RequestProcessor:
        return RequestProcessor(
            self.gerrit,  # type: ignore[arg-type]
            self.store.requests, self.runner, GRAMMAR, self.settings, self.planner, self.metrics,
            now=self.clock, patience=self.patience,
        )  # fmt: skip

    def poller(self, **others: Any) -> CommentPoller:
        usual = {"projects": (), "look_back": timedelta(days=1), "metrics": self.metrics}
        return CommentPoller(
            self.gerrit,  # type: ignore[arg-type]
            self.store.requests, GRAMMAR, **{**usual, **others},
        )  # fmt: skip

    def serve(self) -> bool:
        """Do what a listener does that has just started."""
        self.poller().everywhere()
        return self.processor.work()

    @property
    def said(self) -> list[str]:
        """What is logged at the default level."""
        return [each.getMessage() for each in self.log.records if each.levelno >= logging.INFO]

    @property
    def answers(self) -> list[str]:
        return [text for _, text in self.gerrit.answers]

    def states(self) -> list[str]:
        with_place = self.store.requests.in_states(*RequestState)
        return [each.state.value for each in with_place]

    def limited_to(self, jobs_per_day: int = 50, **limits: float) -> Bench:
        changed = {"jobs_per_day": jobs_per_day, **limits}
        return replace(self, settings=self.settings.model_copy(update=changed))


@pytest.fixture
def listener(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Bench]:
    caplog.set_level(logging.DEBUG, "perftrend.listener")
    clock = Clock()
    with Store.open(tmp_path / "store.sqlite") as store:
        yield Bench(FakeGerrit(clock), FakeRunner(), store, clock, caplog)

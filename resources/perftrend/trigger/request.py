"""The results of parsing a comment: triggers and refusals."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from perftrend.trigger.expressions import normal, small
from perftrend.trigger.options import RequestOptions
from perftrend.trigger.words import DEFAULT_WORDS, PLACE


@dataclass(frozen=True, slots=True)
class Trigger:
    """A request for one job on one testbed. ``str()`` returns the line of the request."""

    job: str
    """One of :data:`perftrend.trigger.JOBS`."""
    testbed: str
    old: str | None = None
    """Hash of the older commit, 7 to 40 hex digits in lower case; None if the job needs none."""
    include: tuple[str, ...] = ()
    """Tag expressions as typed, without spaces; any of them selects a test. Empty: not specified."""
    exclude: tuple[str, ...] = ()
    """Tag expressions; a test that matches any of them is not selected."""
    lists: tuple[str, ...] = ()
    """Names of test lists, without the ``#``."""
    options: RequestOptions = field(default_factory=RequestOptions)
    word: str = field(default="", compare=False)
    """The pattern of the trigger word; empty: the default pattern of the job."""

    def __str__(self) -> str:
        options = str(self.options)
        parts = (
            self.head,
            self.old or "",
            *self.include,
            *(f"!{each}" for each in self.exclude),
            *(f"#{each}" for each in self.lists),
            f"-- {options}" if options else "",
        )
        return " ".join(filter(None, parts))

    @property
    def head(self) -> str:
        """The trigger word including the testbed."""
        default = next(
            (word for word, job in DEFAULT_WORDS.items() if job == self.job), f"{self.job}test-{PLACE}"
        )
        return (self.word or default).replace(PLACE, self.testbed)

    @property
    def include_patterns(self) -> tuple[str, ...]:
        """The tag expressions for Robot Framework, with the tags in lower case."""
        return tuple(map(small, self.include))

    @property
    def exclude_patterns(self) -> tuple[str, ...]:
        """The excluded tag expressions for Robot Framework, with the tags in lower case."""
        return tuple(map(small, self.exclude))

    @property
    def identity(self) -> Hashable:
        """A value that is equal for equivalent triggers, regardless of the order and case of their tags."""
        return (
            self.job,
            self.testbed,
            self.old,
            frozenset(map(normal, self.include)),
            frozenset(map(normal, self.exclude)),
            frozenset(self.lists),
            self.options,
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reply to a request that is not valid."""

    line: str
    """The typed line in printable form; cut after 200 characters."""
    reason: str
    """The problem, as a phrase."""
    right_form: str
    """The correct form. Words in upper case, such as HASH and TESTBED, are placeholders."""

    def __str__(self) -> str:
        reason = self.reason if self.reason.endswith("?") else f"{self.reason}."
        return f'"{self.line}" starts nothing: {reason} Please write: {self.right_form}'

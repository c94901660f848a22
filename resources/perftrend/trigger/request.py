"""What a comment asks for, and what is answered where it asks wrongly."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from perftrend.trigger.expressions import normal, small
from perftrend.trigger.options import Options
from perftrend.trigger.words import DEFAULT_WORDS, PLACE


@dataclass(frozen=True, slots=True)
class Trigger:
    """One job, asked for on one testbed. ``str()`` is the line that asks for it."""

    job: str
    """Which of :data:`perftrend.trigger.JOBS`."""
    testbed: str
    old: str | None = None
    """Hash of the older commit, 7 to 40 hex digits in small letters; None where the job takes none."""
    include: tuple[str, ...] = ()
    """Tag expressions as they were typed, without blanks; any of them selects a test. Empty: not said."""
    exclude: tuple[str, ...] = ()
    """Tag expressions; none of them may fit a test."""
    lists: tuple[str, ...] = ()
    """Names of test lists, without the ``#``."""
    options: Options = field(default_factory=Options)
    word: str = field(default="", compare=False)
    """The pattern of the trigger word; empty: the default one of the job."""

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
        """The trigger word with the testbed in it."""
        default = next(
            (word for word, job in DEFAULT_WORDS.items() if job == self.job), f"{self.job}test-{PLACE}"
        )
        return (self.word or default).replace(PLACE, self.testbed)

    @property
    def include_patterns(self) -> tuple[str, ...]:
        """The tag expressions as Robot Framework is to be given them, with the tags in small letters."""
        return tuple(map(small, self.include))

    @property
    def exclude_patterns(self) -> tuple[str, ...]:
        """The same of what is excluded."""
        return tuple(map(small, self.exclude))

    @property
    def identity(self) -> Hashable:
        """Equal for two triggers that ask for the same, whatever the order and the case of their tags."""
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
    """What is answered to a request that cannot be understood."""

    line: str
    """The line as it was typed, in one line that can be printed; cut after 200 characters."""
    reason: str
    """What is wrong with it, in half a sentence."""
    right_form: str
    """What to write instead. Words in capitals, such as HASH and TESTBED, stand for what is not known."""

    def __str__(self) -> str:
        reason = self.reason if self.reason.endswith("?") else f"{self.reason}."
        return f'"{self.line}" starts nothing: {reason} Please write: {self.right_form}'

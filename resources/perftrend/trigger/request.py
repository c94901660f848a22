"""The results of parsing a comment: triggers with their options, and refusals."""

from __future__ import annotations

import difflib
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from perftrend.errors import nearest
from perftrend.trigger.expressions import normal, small
from perftrend.trigger.lines import quote
from perftrend.trigger.words import DEFAULT_WORDS, PLACE

OPTION_NAMES = ("--duration", "--multiplicity", "--dry-run")

_SECONDS = re.compile(r"((?:0|[1-9][0-9]{0,3})(?:\.[0-9])?)s?", re.ASCII | re.IGNORECASE)
_COUNT = re.compile(r"[1-9][0-9]{0,3}", re.ASCII)


@dataclass(frozen=True, slots=True)
class OptionLimits:
    """Minimum and maximum values of the options."""

    duration_s: tuple[float, float] = (0.1, 60.0)
    """Duration of a trial, in whole tenths of a second."""
    multiplicity: tuple[int, int] = (1, 50)


DEFAULT_LIMITS = OptionLimits()


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """The options of a request, which follow ``--``."""

    duration_s: float | None = None
    """Duration of an MRR trial; None: the default of the job."""
    multiplicity: int | None = None
    """Number of trials of an MRR test; None: the default of the job."""
    dry_run: bool = False
    """Only report what would be measured, and how long it would take."""

    def __str__(self) -> str:
        duration = "" if self.duration_s is None else f"--duration {self.duration_s:.1f}".removesuffix(".0")
        multiplicity = "" if self.multiplicity is None else f"--multiplicity {self.multiplicity}"
        return " ".join(filter(None, (duration, multiplicity, "--dry-run" if self.dry_run else "")))


@dataclass(frozen=True, slots=True)
class Trigger:
    """A request to start a job on a testbed, or to end jobs. ``str()`` returns the line of the request."""

    job: str
    """One of :data:`perftrend.trigger.JOBS`, or :data:`perftrend.trigger.CANCEL`."""
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
    """The correct form; empty if there is none. Words in upper case, such as HASH, are placeholders."""

    def __str__(self) -> str:
        if not self.right_form:
            return f'"{self.line}" starts nothing: {self.reason}.'
        reason = self.reason if self.reason.endswith("?") else f"{self.reason}."
        return f'"{self.line}" starts nothing: {reason} Please write: {self.right_form}'


def read_options(words: Sequence[str], limits: OptionLimits) -> tuple[RequestOptions, list[str]]:
    """Parse the options.

    :param words: the words from the first one that begins with a dash.
    :returns: the valid options, in which values outside the limits are replaced by the nearest allowed value;
        and the problems.
    """
    options = RequestOptions()
    problems: list[str] = []
    given: list[str] = []
    rest = list(words[1:] if words[:1] in (["--"], ("--",)) else words)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        wrong = _wrong_name(name, given)
        if wrong:
            problems.append(wrong)
            continue
        given.append(name.lower())
        if given[-1] == "--dry-run":
            options = replace(options, dry_run=True)
            problems += ["--dry-run does not accept a value"] if equals else []
            continue
        if not equals and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        options, wrong = _with_value(options, given[-1], value, limits)
        problems += [wrong] if wrong else []
    return options, problems


def _wrong_name(name: str, given: Sequence[str]) -> str:
    if not name.startswith("-"):
        return f"{quote(name)} should be in front of the options"
    if name.lower() not in OPTION_NAMES:
        return f"{quote(name)} is not an option{nearest(name[:40].lower(), OPTION_NAMES)}"
    return f"{name.lower()} is given twice" if name.lower() in given else ""


def _with_value(
    options: RequestOptions, name: str, value: str, limits: OptionLimits
) -> tuple[RequestOptions, str]:
    if name == "--multiplicity":
        least, most = limits.multiplicity
        count = int(value) if _COUNT.fullmatch(value) else None
        wrong = f"--multiplicity should be a whole number from {least} to {most}"
        if count is None:
            return options, wrong
        allowed = min(max(count, least), most)
        return replace(options, multiplicity=allowed), "" if allowed == count else wrong
    shortest, longest = limits.duration_s
    seconds = _SECONDS.fullmatch(value)
    wrong = f"--duration should be {shortest:g} to {longest:g} seconds, in tenths, such as 10 or 0.5"
    if not seconds:
        return options, wrong
    requested_s = float(seconds[1])
    within = min(max(requested_s, shortest), longest)
    return replace(options, duration_s=within), "" if within == requested_s else wrong


def correct_options(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words that are probably not options, and the probably intended options."""
    others: list[str] = []
    options: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        meant = difflib.get_close_matches(f"--{name[:40].lower().lstrip('-')}", OPTION_NAMES, n=1, cutoff=0.8)
        if meant:
            options.append(f"{meant[0]}{equals}{value}")
        elif options and options[-1] in OPTION_NAMES[:2]:
            option = options.pop()
            options += [f"{option}={word}"] if _SECONDS.fullmatch(word) else []
        elif not word.startswith("-"):
            others.append(word)
    return others, options

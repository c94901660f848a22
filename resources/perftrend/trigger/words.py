"""Trigger words: the beginnings of lines that request a job on a testbed.

A pattern is the typed text with ``{testbed}`` in place of the name of the testbed:
``perftest-{testbed}``, ``csit-{testbed}-perftest``, ``gha-run csit-vpp-{testbed} perftest``. Settings map
patterns to jobs, such as ``perftest``; and a pattern without ``{testbed}`` to a job on one testbed, such as
``perftest on 2n-clx``.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType

from perftrend.errors import SettingsError, nearest

PLACE = "{testbed}"

JOBS = ("analysis", "bisect", "perftest", "trending")
"""The jobs that a trigger word can start, by their names in ``./run``."""

FORMER_JOBS: Mapping[str, str] = MappingProxyType({"bisection": "bisect"})
"""Former names and the present ones. Stores keep the former ones, so none may be removed from here."""

CANCEL = "cancel"
"""What a trigger word means that ends jobs instead of starting one."""

HASHED = "bisect"
"""The job whose trigger word is followed by a hash."""

DEFAULT_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "bisecttest-{testbed}": "bisect",
        "canceltest-{testbed}": CANCEL,
        "perftest-{testbed}": "perftest",
        "trendingtest-{testbed}": "trending",
    }
)

NAME = r"[1-9][0-9]?n(?:-[a-z0-9]+)+|simulated"
"""Name of a testbed if none are configured: number of nodes and platform, or the simulated testbed."""

_FORM = re.compile(r"[A-Za-z0-9/@][A-Za-z0-9/@_.:+{}-]*(?: [A-Za-z0-9/@_.:+{}-]+)*")
_LETTERS_AT_LEAST = 3
_LONGEST = 80
_ONE_WORD = r"[a-z0-9](?:[._-]*[a-z0-9])*"
ALMOST_A_NAME = r"[1-9][0-9]?n[-_]?[a-z0-9]+(?:[-_][a-z0-9]+)*"
"""Text that was probably intended as a name of a testbed."""

_ANYHOW_A_NAME = r"[1-9][0-9]?n[-_ ]?[a-z][a-z0-9]*"
_OPERATOR = re.compile("AND|OR|NOT")
_SEPARATORS = re.compile(r"[-_: ]+")
_FUZZY_FROM = 5


@dataclass(frozen=True)
class Word:
    """A pattern and its job."""

    pattern: str
    job: str
    testbed: str = ""
    """The fixed testbed of the word; empty: the typed word contains the testbed."""

    @classmethod
    def of(cls, pattern: str, starts: str) -> Word:
        """Return the word of an entry of the settings, such as ``perftest`` or ``perftest on 2n-clx``."""
        job, _, testbed = starts.partition(" on ")
        return cls(pattern, FORMER_JOBS.get(job, job), testbed.strip().lower())

    @cached_property
    def length(self) -> int:
        """Number of words of the pattern."""
        return len(self.pattern.split())

    @cached_property
    def hints(self) -> tuple[str, ...]:
        """Texts of which a line with this word contains at least one, even with a typo.

        They are the halves of the word's longest part, since a single typo affects only one half.
        """
        longest = max(re.findall(r"[a-z]+", self.pattern.replace(PLACE, " ").lower()), key=len)
        half = len(longest) // 2
        return (longest[:half], longest[half:]) if half >= _LETTERS_AT_LEAST else (longest,)

    @cached_property
    def exact(self) -> re.Pattern[str]:
        """The pattern with any word in place of the testbed, and optional punctuation after it."""
        name = f"(?P<testbed>{_ONE_WORD})"
        form = rf"{name.join(map(re.escape, self.pattern.split(PLACE)))}(?P<mark>[,;!]?)"
        return re.compile(form, re.IGNORECASE | re.ASCII)

    @cached_property
    def skeleton(self) -> str:
        """The pattern with uniform separators, for approximate matching."""
        return _SEPARATORS.sub("-", self.pattern.replace(PLACE, "@")).lower()

    @cached_property
    def stem(self) -> str:
        """The text before the testbed, if the pattern is one word that ends with the testbed; else empty."""
        before, place, after = self.pattern.partition(PLACE)
        return "" if after or not place or " " in before else before.rstrip("-_:./+@").lower()

    def head(self, testbed: str) -> str:
        """Return the trigger word of a testbed."""
        return self.pattern.replace(PLACE, testbed)


@dataclass(frozen=True, slots=True)
class Head:
    """The trigger word that a line begins with."""

    word: Word
    testbed: str
    """The typed testbed in lower case, or the fixed testbed of the word."""
    rest: tuple[str, ...]
    """The words after the trigger word."""
    wrong: str = ""
    """The problem of an approximate match; empty if it is exact."""


def validate_words(words: Mapping[str, str]) -> dict[str, str]:
    """Return the validated trigger words of a settings file.

    :param words: patterns and the jobs that they start.
    :raises SettingsError: if a pattern or a job is not valid; the message contains a correct example.
    """
    if not words:
        raise SettingsError("trigger words: none configured; add one such as perftest-{testbed}: perftest")
    seen: dict[str, str] = {}
    for pattern, starts in words.items():
        word = Word.of(pattern, starts)
        wrong = _wrong_pattern(word)
        if wrong:
            raise SettingsError(f"trigger word {pattern!r}: {wrong}; write one such as 'perftest-{PLACE}'")
        if word.job not in (*JOBS, CANCEL):
            raise SettingsError(
                f"trigger word {pattern!r}: no job is named {word.job!r}{nearest(word.job, (*JOBS, CANCEL))}"
            )
        twin = seen.setdefault(pattern.lower(), pattern)
        if twin != pattern:
            raise SettingsError(f"trigger words {twin!r} and {pattern!r} differ only in case; remove one")
    return dict(words)


def _wrong_pattern(word: Word) -> str:
    """Return what is wrong with the pattern of a word; empty if it is valid."""
    pattern = word.pattern
    before, place, after = pattern.partition(PLACE)
    own = before + after
    wrong = {
        f"it should contain {PLACE} once, or its job should name the testbed, as in '{word.job} on 2n-clx'": (
            not place and not word.testbed
        ),
        f"it should contain {PLACE} once": PLACE in after,
        f"it names a testbed in two ways, by {PLACE} and as {word.testbed!r}": bool(place and word.testbed),
        f"only {PLACE} may be in braces": "{" in own or "}" in own,
        "it should consist of letters, digits and -_.:/@+, with single spaces between words": not (
            _FORM.fullmatch(pattern)
        ),
        f"{PLACE} should be separated by a dash or a space": bool(place)
        and (before[-1:].isalnum() or after[:1].isalnum()),
        f"it should have at least {_LETTERS_AT_LEAST} letters of its own, or any text would be a trigger": (
            sum(map(str.isalpha, own)) < _LETTERS_AT_LEAST
        ),
        f"it should have at most {_LONGEST} characters": len(pattern) > _LONGEST,
    }
    return next((reason for reason, applies in wrong.items() if applies), "")


def compile_words(words: Mapping[str, str]) -> tuple[Word, ...]:
    """Return the words, longest first, so that the most specific one is matched first.

    :param words: patterns and their jobs, in the form that :func:`validate_words` accepts.
    """
    return _compile_words(tuple(words.items()))


@lru_cache(maxsize=64)
def _compile_words(items: tuple[tuple[str, str], ...]) -> tuple[Word, ...]:
    found = [Word.of(pattern, starts) for pattern, starts in validate_words(dict(items)).items()]
    return tuple(sorted(found, key=lambda word: -len(word.head(""))))


def patterns_of(words: Mapping[str, str], job: str, testbed: str) -> list[str]:
    """Return the patterns of the words that start a job on a testbed, longest first."""
    return [
        word.pattern
        for word in compile_words(words)
        if word.job == job and word.testbed in ("", testbed.lower())
    ]


@lru_cache(maxsize=64)
def beginnings(words: tuple[Word, ...]) -> re.Pattern[str]:
    """Return the pattern of lines that begin with the first letter of a word, after at most three spaces.

    The pattern includes the line break before the line.
    """
    shortest = min(len(word.stem) or len(word.head("")) - 1 for word in words)
    firsts = "".join(sorted({re.escape(word.pattern[0]) for word in words}))
    form = rf"\n[^\S\n\t]{{0,3}}+(?=[^\n]{{{shortest}}})[{firsts}][^\n]*+"
    return re.compile(form, re.IGNORECASE)


def exact_heads(words: Iterable[Word], line: Sequence[str]) -> list[Head]:
    """Return the trigger words that a line begins with, with any text in place of the testbed."""
    return [head for word in words if (head := _exact(word, line))]


def likely_heads(words: Iterable[Word], line: Sequence[str]) -> list[Head]:
    """Return the trigger words that a line begins with, apart from a typo or wrong separators."""
    return [head for word in words if (head := _almost(word, line))]


def second(words: Iterable[Word], rest: Sequence[str], known: Container[str]) -> int | None:
    """Return the index of another trigger word in the words after the first one; None if there is none."""
    plain = [word.replace("&", "AND") for word in rest]
    for place, first in enumerate(plain):
        for word in () if _OPERATOR.search(first) else words:
            head = _exact(word, plain[place:])
            if head and (head.testbed in known or re.fullmatch(ALMOST_A_NAME, head.testbed)):
                return place
    return None


def _exact(word: Word, line: Sequence[str]) -> Head | None:
    found = word.exact.fullmatch(" ".join(line[: word.length]))
    if not found:
        return None
    mark = found["mark"]
    wrong = f"{mark!r} follows the trigger word" if mark else ""
    testbed = word.testbed or found["testbed"].lower()
    return Head(word, testbed, tuple(line[word.length :]), wrong)


def _almost(word: Word, line: Sequence[str]) -> Head | None:
    """Return a trigger word with one typo, wrong separators, or its parts in another order.

    Words of a fixed testbed are not matched approximately, since any ordinary word may resemble them.
    """
    if word.testbed:
        return None
    for length in (word.length, word.length + 1):
        typed = " ".join(line[:length]).lower()
        if len(typed) > 2 * _LONGEST or not re.fullmatch(r"[a-z0-9/@][a-z0-9/@_.:+ -]*[a-z0-9]", typed):
            return None
        name = re.search(rf"(?<![a-z0-9]){_ANYHOW_A_NAME}(?![a-z0-9])", typed)
        if not name:
            continue
        skeleton = _SEPARATORS.sub("-", f"{typed[: name.start()]}@{typed[name.end() :]}")
        is_near = len(word.skeleton) > _FUZZY_FROM and _slip(skeleton, word.skeleton)
        if is_near or sorted(skeleton.split("-")) == sorted(word.skeleton.split("-")):
            wrong = f"the trigger word is {word.pattern.replace(PLACE, 'TESTBED')}"
            return Head(word, name[0], tuple(line[length:]), wrong)
    return None


def _slip(written: str, meant: str) -> bool:
    """Return whether two texts differ by one missing, additional or wrong letter, or two swapped ones."""
    while written and meant and written[0] == meant[0]:
        written, meant = written[1:], meant[1:]
    while written and meant and written[-1] == meant[-1]:
        written, meant = written[:-1], meant[:-1]
    return max(len(written), len(meant)) <= 1 or (len(written) <= 2 and written == meant[::-1])  # noqa: PLR2004 - a pair

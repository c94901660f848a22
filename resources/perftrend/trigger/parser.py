"""The parser of comments."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from perftrend.trigger import arguments
from perftrend.trigger.arguments import HASH_PLACEHOLDER
from perftrend.trigger.lines import (
    PARTICLES,
    CommentLine,
    is_sentence,
    is_within_sentence,
    own_lines,
    printable_line,
    quote,
    tidy,
    visible,
)
from perftrend.trigger.request import DEFAULT_LIMITS, OptionLimits, Refusal, Trigger
from perftrend.trigger.words import (
    ALMOST_A_NAME,
    CANCEL,
    DEFAULT_WORDS,
    HASHED,
    NAME,
    Head,
    Word,
    beginnings,
    compile_words,
    exact_heads,
    likely_heads,
    second,
)

MOST_REQUESTS = 100
"""Maximum number of requests and refusals of a comment."""

LONGEST_LINE = 4096
"""Maximum length of a request in characters."""

MOST_CANDIDATES = 1000
"""Maximum number of different parsed lines that begin like a trigger word; a text with more is a log."""

MOST_LINES = 16_384
"""Maximum number of parsed lines; a text with more is a log.

This is also Gerrit's default limit of the length of a comment in characters.
"""

_CLOSE = 0.7
_LONGEST_HEAD = 200


def parse(
    comment: str | Iterable[str],
    *,
    words: Mapping[str, str] = DEFAULT_WORDS,
    testbeds: Iterable[str] | None = None,
    limits: OptionLimits = DEFAULT_LIMITS,
) -> list[Trigger | Refusal]:
    """Return the requests of a comment in order, without duplicates.

    :param comment: the text of a comment, with or without Gerrit's heading; or the texts of one review: its
        message and its patch-set-level comments, but not its comments on a file and line.
    :param words: trigger words and their jobs, in the form that :func:`validate_words` accepts.
    :param testbeds: the configured testbeds; None: any well-formed name.
    :param limits: minimum and maximum values of the options.
    :raises SettingsError: if a trigger word is not valid; never because of the text.
    """
    reader = _TriggerReader(
        compile_words(words),
        None if testbeds is None else {name.lower(): name for name in testbeds},
        limits,
    )
    found: dict[object, Trigger | Refusal] = {}
    for text in (comment,) if isinstance(comment, str) else comment:
        for request in reader.requests(text):
            found.setdefault(request.identity if isinstance(request, Trigger) else request, request)
            if len(found) > MOST_REQUESTS:
                (*accepted, extra) = found.values()
                return [*accepted, _too_many(extra)]
    return list(found.values())


def _first_lines(text: str) -> str:
    return text if text.count("\n") < MOST_LINES else "\n".join(text.split("\n", MOST_LINES)[:MOST_LINES])


def _too_many(extra: Trigger | Refusal) -> Refusal:
    line = printable_line(str(extra)) if isinstance(extra, Trigger) else extra.line
    reason = f"a comment may contain {MOST_REQUESTS} requests; remove this line and the ones below it"
    return Refusal(line, reason, extra.right_form if isinstance(extra, Refusal) else str(extra))


def _cancel_problems(head: Head) -> list[str]:
    if not head.rest:
        return []
    return [f"{quote(head.rest[0])} follows a word that ends all jobs of the change on the testbed"]


class _OneWord(Refusal):
    """A refusal of a trigger word before a single particle: a mistake, or the beginning of a sentence."""


@dataclass(frozen=True, slots=True)
class _TriggerReader:
    """A parser with its trigger words, testbeds and limits."""

    words: tuple[Word, ...]
    testbeds: Mapping[str, str] | None
    """Names of testbeds by their lower-case form; None: any well-formed name."""
    limits: OptionLimits

    def requests(self, text: str) -> Iterator[Trigger | Refusal]:
        """Yield the requests of a text in order."""
        read: dict[str, Trigger | Refusal | None] = {}
        settled: set[str] = set()
        hints = [hint for word in self.words for hint in word.hints]

        def may_request(line: str) -> bool:
            small = line[:_LONGEST_HEAD].lower()
            return line not in settled and any(hint in small for hint in hints)

        lines = own_lines(_first_lines(visible(text)), beginnings(self.words), may_request)
        for line in islice(lines, MOST_CANDIDATES):
            if line.text not in read:
                read[line.text] = self._read(line.text)
            request = read[line.text]
            # A request on the line above is not part of a sentence, even if it ends with a comma.
            above = "" if read.get(line.above) else line.above
            if request and is_within_sentence(line.text.split()[0], above, line.below):
                continue
            if isinstance(request, _OneWord) and (above or (line.below and not self._read(line.below))):
                # With other text around it, the word may belong to a sentence.
                continue
            settled.add(line.text)
            if request:
                yield self._answer(request, line)

    def _read(self, text: str) -> Trigger | Refusal | None:
        """Parse a line without its context; return None if it is not a request."""
        words = tidy(text[: LONGEST_LINE + 1])
        self._end(words)
        head = self._head(words)
        if head is None:
            return None
        hashed = head.word.job == HASHED
        if not is_sentence(head.rest, hashed=hashed):
            return self._request(text, head, hashed=hashed)
        testbed = self._testbed(head.testbed)
        if testbed and [word.lower() in PARTICLES for word in head.rest] == [True]:
            reason = f"{quote(head.rest[0])} is a word of a sentence, not a tag"
            return _OneWord(printable_line(text), reason, self._right_form(head, testbed, hashed=hashed))
        return None

    def _answer(self, request: Trigger | Refusal, line: CommentLine) -> Trigger | Refusal:
        """Return the request of a line, or a refusal if the line below contains tags.

        Without these tags, the job would measure other tests than intended.
        """
        if isinstance(request, _OneWord):
            return Refusal(request.line, request.reason, request.right_form)
        is_complete = not arguments.are_tags(tidy(line.below)) or self._read(line.below)
        if isinstance(request, Refusal) or is_complete:
            return request
        meant = self._read(f"{line.text} {line.below}")
        right = meant.right_form if isinstance(meant, Refusal) else str(meant or request)
        return Refusal(
            printable_line(line.text), "the tags on the line below do not count; write one line", right
        )

    @staticmethod
    def _end(words: list[str]) -> None:
        """Remove the full stop of the line, in place."""
        if words and words[-1].endswith(".") and not words[-1].endswith(".."):
            words[-1:] = [words[-1][:-1]] if words[-1] != "." else []

    def _head(self, words: Sequence[str]) -> Head | None:
        """Return the trigger word that the line begins with, if it was probably intended as one."""
        exact = exact_heads(self.words, words)
        known = [head for head in exact if self._testbed(head.testbed)]
        likely = [*exact, *([] if known else likely_heads(self.words, words))]
        meant = known or [head for head in likely if self._is_meant(head.testbed)]
        return meant[0] if meant else self._without_testbed(words)

    def _without_testbed(self, words: Sequence[str]) -> Head | None:
        """Return a trigger word that lacks a testbed, if the following words show that it is a request."""
        for word in self.words:
            if len(words) > 1 and word.stem and words[0].lower().rstrip("-") == word.stem:
                hashed = word.job == HASHED
                read = arguments.read(words[1:], hashed=hashed, limits=self.limits)
                is_request = (
                    read.old or read.exclude or any(re.search("AND|NOT|[*]", e) for e in read.include)
                )
                if is_request and not read.problems:
                    return Head(word, "", tuple(words[1:]), "the testbed is missing")
        return None

    def _testbed(self, typed: str) -> str | None:
        """Return the testbed of a name in the configured case, or None if it is unknown."""
        if self.testbeds is not None:
            return self.testbeds.get(typed)
        return typed if re.fullmatch(NAME, typed) else None

    def _is_meant(self, typed: str) -> bool:
        """Return whether an unknown word in the place of a testbed was probably intended as one."""
        return bool(re.fullmatch(ALMOST_A_NAME, typed.replace(" ", "-"))) or self._nearest(typed) is not None

    def _nearest(self, typed: str) -> str | None:
        """Return the probably intended testbed."""
        if self.testbeds is None:
            dashed = re.sub(r"^([1-9][0-9]?n)[-_ ]?(?=[a-z0-9])", r"\1-", typed).replace("_", "-")
            return dashed if re.fullmatch(NAME, dashed) else None
        plain = {re.sub("[-_. ]", "", name): name for name in self.testbeds}
        close = plain.get(re.sub("[-_. ]", "", typed)) or next(
            iter(difflib.get_close_matches(typed[:64], self.testbeds, n=1, cutoff=_CLOSE)), None
        )
        return self.testbeds[close] if close else None

    def _request(self, line: str, head: Head, *, hashed: bool) -> Trigger | Refusal:
        """Return the trigger of the line, or a refusal."""
        testbed = self._testbed(head.testbed)
        read = arguments.read(head.rest, hashed=hashed, limits=self.limits)
        problems = [*filter(None, (head.wrong, self._stranger(head, testbed)))]
        if len(line) > LONGEST_LINE:
            problems.append(f"the line is longer than {LONGEST_LINE} characters")
        problems += self._second(head) or (
            _cancel_problems(head) if head.word.job == CANCEL else read.problems
        )
        if testbed and not problems:
            return self._trigger(head, testbed, read)
        return Refusal(printable_line(line), problems[0], self._right_form(head, testbed, hashed=hashed))

    def _stranger(self, head: Head, testbed: str | None) -> str:
        """Return a message if the testbed is unknown; empty if it is known or missing."""
        if testbed or not head.testbed:
            return ""
        if self.testbeds is None:
            return f"{quote(head.testbed)} is not the name of a testbed, such as 2n-clx"
        known = ", ".join(sorted(self.testbeds.values())[:8]) or "none"
        return f"unknown testbed {quote(head.testbed)}; known are {known}"

    def _second(self, head: Head) -> list[str]:
        """Return the problem that the line has a second trigger word, if it does."""
        place = second(self.words, head.rest, self.testbeds or ())
        if place is None:
            return []
        return [f"{quote(head.rest[place])} is a second trigger word; write each one on its own line"]

    def _before_second(self, rest: Sequence[str]) -> Sequence[str]:
        return rest[: second(self.words, rest, self.testbeds or ())]

    def _trigger(self, head: Head, testbed: str, read: arguments.Arguments) -> Trigger:
        return Trigger(
            job=head.word.job,
            testbed=testbed,
            old=read.old,
            include=read.include,
            exclude=read.exclude,
            lists=read.lists,
            options=read.options,
            word=head.word.pattern,
        )

    def _right_form(self, head: Head, testbed: str | None, *, hashed: bool) -> str:
        """Return the probably intended line, without unusable parts."""
        typed = () if head.word.job == CANCEL else self._before_second(head.rest[: arguments.MOST_WORDS])
        # Removing quotes can reveal another trigger word.
        rest = self._before_second(arguments.correct_words(typed))
        meant = testbed or (self._nearest(head.testbed) if head.testbed else None) or "TESTBED"
        read = arguments.read(rest, hashed=hashed, limits=self.limits)
        if not (read.include or read.lists) and arguments.names_tags(typed, hashed=hashed):
            # Without any tag, the job would measure its default tests.
            read = replace(read, include=(arguments.TAG_PLACEHOLDER,))
        trigger = self._trigger(head, meant, read)
        right = str(trigger)
        if hashed and not read.old:
            return right.replace(trigger.head, f"{trigger.head} {HASH_PLACEHOLDER}", 1)
        return right
